"""What functions of `unaligned` become in code that Numba compiles."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic


def _pointer(builder: Any, where: Any, bits: int) -> Any:
    return builder.inttoptr(where, ir.IntType(bits).as_pointer())


def _load(bits: int, result: Any) -> Any:
    @intrinsic
    def load(typingctx: Any, where: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.load(_pointer(builder, args[0], bits), align=1)

        return result(types.int64), codegen

    return load


def _store(bits: int, value_type: Any) -> Any:
    @intrinsic
    def store(typingctx: Any, where: Any, value: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            builder.store(args[1], _pointer(builder, args[0], bits), align=1)
            return context.get_dummy_value()

        return types.void(types.int64, value_type), codegen

    return store


load8 = _load(8, types.uint8)
load16 = _load(16, types.uint16)
load32 = _load(32, types.uint32)
load64 = _load(64, types.uint64)
store8 = _store(8, types.uint8)
store16 = _store(16, types.uint16)
store32 = _store(32, types.uint32)
store64 = _store(64, types.uint64)


def _copy(name: str, told: str) -> Any:
    def function(typingctx: Any, to: Any, source: Any, nbytes: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            byte = ir.IntType(8).as_pointer()
            to, source = builder.inttoptr(args[0], byte), builder.inttoptr(args[1], byte)
            called = builder.module.declare_intrinsic(f"llvm.{name}", [byte, byte, ir.IntType(64)])
            builder.call(called, [to, source, args[2], ir.IntType(1)(0)])
            return context.get_dummy_value()

        return types.void(types.int64, types.int64, types.int64), codegen

    function.__doc__ = told
    return intrinsic(function)


@intrinsic
def copy16(typingctx: Any, to: Any, source: Any) -> Any:
    """Copy 16 bytes."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        vector = ir.VectorType(ir.IntType(8), 16).as_pointer()
        loaded = builder.load(builder.inttoptr(args[1], vector), align=1)
        builder.store(loaded, builder.inttoptr(args[0], vector), align=1)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), codegen


copy = _copy("memcpy", "``memcpy(to, source, nbytes)``; the ranges must not overlap.")
move = _copy("memmove", "``memmove(to, source, nbytes)``; the ranges may overlap.")


@intrinsic
def trailing_zeros(typingctx: Any, value: Any) -> Any:
    """Zero bits below the lowest one bit of a number; 64 of 0."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.IntType(1)(0))

    return types.int64(types.uint64), codegen


@intrinsic
def popcount(typingctx: Any, value: Any) -> Any:
    """One bits of a number."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.ctpop(args[0])

    return types.int64(types.uint64), codegen


#: Codes that `place64` and `count_below` look at.
_WIDE = 64
_I8, _I64 = ir.IntType(8), ir.IntType(64)
_BYTES, _WORDS = ir.VectorType(_I8, _WIDE), ir.VectorType(_I64, _WIDE // 8)


def _splat(builder: Any, value: Any, vector: Any) -> Any:
    """A vector of one value, which is a number or was computed."""
    if isinstance(value, int):
        return ir.Constant(vector, [value] * vector.count)
    first = builder.insert_element(ir.Constant(vector, ir.Undefined), value, ir.Constant(ir.IntType(32), 0))
    return _shuffled(builder, first, first, [0] * vector.count)


def _shuffled(builder: Any, first: Any, other: Any, places: list[int]) -> Any:
    return builder.shuffle_vector(first, other, ir.Constant(ir.VectorType(ir.IntType(32), len(places)), places))


def _bits(builder: Any, truths: Any) -> Any:
    return builder.bitcast(truths, _I64)


def _are_there(builder: Any, left: Any) -> Any:
    """Which of 64 are among the first ones."""
    most = builder.select(builder.icmp_signed("<", left, _I64(_WIDE)), left, _I64(_WIDE))
    numbers = ir.Constant(_BYTES, list(range(_WIDE)))
    return builder.icmp_unsigned("<", numbers, _splat(builder, builder.trunc(most, _I8), _BYTES))


def _sum_up(builder: Any, sizes: Any, base: Any, out: Any) -> Any:
    """Write the place of each symbol's last byte, by their sizes; returns the sum of all."""
    # Sums within words, then of the words before.
    sums = builder.bitcast(sizes, _WORDS)
    for shift in (8, 16, 32):
        sums = builder.add(sums, builder.shl(sums, _splat(builder, shift, _WORDS)))
    totals = builder.lshr(sums, _splat(builder, 56, _WORDS))
    none = _splat(builder, 0, _WORDS)
    count = _WORDS.count
    for step in (1, 2, 4):
        moved = _shuffled(builder, totals, none, [count] * step + list(range(count - step)))
        totals = builder.add(totals, moved)
    total = builder.extract_element(totals, ir.Constant(ir.IntType(32), count - 1))
    earlier = _shuffled(builder, totals, none, [count, *range(count - 1)])
    earlier = builder.add(earlier, _splat(builder, builder.sub(base, _I64(1)), _WORDS))
    earlier = builder.bitcast(earlier, _BYTES)
    earlier = _shuffled(builder, earlier, earlier, [i // 8 * 8 for i in range(_WIDE)])  # the low byte of each word
    ends = builder.add(builder.bitcast(sums, _BYTES), earlier)
    builder.store(ends, builder.inttoptr(out, _BYTES.as_pointer()), align=1)
    return total


@intrinsic
def place64(typingctx: Any, at: Any, left: Any, before: Any, limits: Any, base: Any, out: Any) -> Any:
    """Where the symbols of 64 codes of `fsst` end; see `unaligned`."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        at, left, before, limits, base, out = args
        codes = builder.load(builder.inttoptr(at, _BYTES.as_pointer()), align=1)

        def limit(number: int) -> Any:
            where = builder.add(limits, _I64(number))
            return _splat(builder, builder.load(_pointer(builder, where, 8), align=1), _BYTES)

        def number(value: int) -> Any:
            return _splat(builder, value, _BYTES)

        escape = number(255)
        last = _splat(builder, builder.trunc(before, _I8), _BYTES)
        previous = _shuffled(builder, codes, last, [_WIDE, *range(_WIDE - 1)])
        escapes = builder.icmp_unsigned("==", codes, escape)
        literals = builder.icmp_unsigned("==", previous, escape)
        sizes = number(2)
        for i in range(6):
            more = builder.icmp_unsigned(">=", codes, limit(i))
            sizes = builder.sub(sizes, builder.sext(more, _BYTES))
        sizes = builder.select(builder.icmp_unsigned(">=", codes, limit(6)), number(1), sizes)
        sizes = builder.select(builder.icmp_unsigned(">=", codes, limit(7)), number(0), sizes)
        sizes = builder.select(escapes, number(1), sizes)
        sizes = builder.select(literals, number(0), sizes)
        there = _are_there(builder, left)
        sizes = builder.select(there, sizes, number(0))
        twice = builder.and_(builder.and_(escapes, literals), there)
        total = _sum_up(builder, sizes, base, out)
        fits = builder.icmp_unsigned("==", _bits(builder, twice), _I64(0))
        return builder.select(fits, builder.add(base, total), _I64(-1))

    whole = types.int64
    return types.int64(whole, whole, whole, whole, whole, whole), codegen


@intrinsic
def sum64(typingctx: Any, at: Any, left: Any, base: Any, out: Any) -> Any:
    """Where 64 symbols end, by their lengths; see `unaligned`."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        at, left, base, out = args
        sizes = builder.load(builder.inttoptr(at, _BYTES.as_pointer()), align=1)
        sizes = builder.select(_are_there(builder, left), sizes, _splat(builder, 0, _BYTES))
        return builder.add(base, _sum_up(builder, sizes, base, out))

    return types.int64(*[types.int64] * 4), codegen


@intrinsic
def widen64(typingctx: Any, at: Any, before: Any, out: Any) -> Any:
    """64 codes of `fsst` as numbers of 16 bits; see `unaligned`."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        at, before, out = args
        codes = builder.load(builder.inttoptr(at, _BYTES.as_pointer()), align=1)
        following = builder.load(builder.inttoptr(builder.add(at, _I64(1)), _BYTES.as_pointer()), align=1)
        previous = _shuffled(
            builder, codes, _splat(builder, builder.trunc(before, _I8), _BYTES), [_WIDE, *range(_WIDE - 1)]
        )
        escape, numbers = _splat(builder, 255, _BYTES), ir.VectorType(ir.IntType(16), _WIDE)
        escapes = builder.icmp_unsigned("==", codes, escape)
        values = builder.select(escapes, following, codes)
        values = builder.select(builder.icmp_unsigned("==", previous, escape), escape, values)
        high = builder.shl(builder.zext(escapes, numbers), _splat(builder, 8, numbers))
        values = builder.or_(builder.zext(values, numbers), high)
        builder.store(values, builder.inttoptr(out, numbers.as_pointer()), align=1)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 3), codegen


@intrinsic
def scale64(typingctx: Any, at: Any, factor: Any, out: Any) -> Any:
    """Multiply 64 numbers; see `unaligned`."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        at, factor, out = args
        short, wide = (ir.VectorType(ir.IntType(bits), _WIDE) for bits in (16, 32))
        products = builder.zext(builder.load(builder.inttoptr(at, short.as_pointer()), align=1), wide)
        products = builder.mul(products, _splat(builder, builder.trunc(factor, ir.IntType(32)), wide))
        builder.store(products, builder.inttoptr(out, wide.as_pointer()), align=1)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 3), codegen


@intrinsic
def ends8(typingctx: Any, low: Any, high: Any, width: Any, minimum: Any, base: Any, out: Any) -> Any:
    """Where 8 rows end, by packed lengths; see `unaligned`."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        low, high, width, minimum, base, out = args
        count = _WORDS.count
        both = builder.insert_element(_splat(builder, 0, _WORDS), low, ir.Constant(ir.IntType(32), 0))
        both = builder.insert_element(both, high, ir.Constant(ir.IntType(32), 1))
        packed = _shuffled(builder, both, both, [0] * 4 + [1] * 4)
        places = ir.Constant(_WORDS, [i % 4 for i in range(count)])
        packed = builder.lshr(packed, builder.mul(places, _splat(builder, width, _WORDS)))
        mask = builder.sub(builder.shl(_I64(1), width), _I64(1))
        sums = builder.add(builder.and_(packed, _splat(builder, mask, _WORDS)), _splat(builder, minimum, _WORDS))
        none = _splat(builder, 0, _WORDS)
        for step in (1, 2, 4):
            moved = _shuffled(builder, sums, none, [count] * step + list(range(count - step)))
            sums = builder.add(sums, moved)
        ends = builder.add(sums, _splat(builder, base, _WORDS))
        builder.store(ends, builder.inttoptr(out, _WORDS.as_pointer()), align=1)
        return builder.add(base, builder.extract_element(sums, ir.Constant(ir.IntType(32), count - 1)))

    return types.uint64(*[types.uint64] * 5, types.int64), codegen


@intrinsic
def within8(typingctx: Any, ends: Any, least: Any, most: Any, out: Any) -> Any:
    """Whether 8 rows have a size within bounds; see `unaligned`."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        ends, least, most, out = args
        first = builder.load(builder.inttoptr(ends, _WORDS.as_pointer()), align=1)
        last = builder.load(builder.inttoptr(builder.add(ends, _I64(8)), _WORDS.as_pointer()), align=1)
        above = builder.sub(builder.sub(last, first), _splat(builder, least, _WORDS))
        span = _splat(builder, builder.sub(most, least), _WORDS)
        fits = builder.zext(builder.icmp_unsigned("<=", above, span), ir.VectorType(_I8, _WORDS.count))
        builder.store(fits, builder.inttoptr(out, fits.type.as_pointer()), align=1)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 4), codegen


@intrinsic
def prefetch(typingctx: Any, at: Any) -> Any:
    """Have what is at an address on its way into the caches; it need not be there."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        flag = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [_I8.as_pointer(), flag, flag, flag])
        wanted = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
        builder.call(wanted, [builder.inttoptr(args[0], _I8.as_pointer()), flag(0), flag(3), flag(1)])
        return context.get_dummy_value()

    return types.void(types.int64), codegen


@intrinsic
def fill64(typingctx: Any, at: Any) -> Any:
    """Let 64 bytes be 255."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store(_splat(builder, 255, _BYTES), builder.inttoptr(args[0], _BYTES.as_pointer()), align=1)
        return context.get_dummy_value()

    return types.void(types.int64), codegen


@intrinsic
def count_below(typingctx: Any, at: Any, value: Any) -> Any:
    """How many of 64 bytes are below a value; see `unaligned`."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        loaded = builder.load(builder.inttoptr(args[0], _BYTES.as_pointer()), align=1)
        below = builder.icmp_unsigned("<", loaded, _splat(builder, builder.trunc(args[1], _I8), _BYTES))
        return builder.ctpop(_bits(builder, below))

    return types.int64(types.int64, types.int64), codegen


@intrinsic
def equal_to(typingctx: Any, at: Any, value: Any) -> Any:
    """Which of 64 bytes are a value; see `unaligned`."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        loaded = builder.load(builder.inttoptr(args[0], _BYTES.as_pointer()), align=1)
        return _bits(builder, builder.icmp_unsigned("==", loaded, _splat(builder, args[1], _BYTES)))

    return types.uint64(types.int64, types.uint8), codegen
