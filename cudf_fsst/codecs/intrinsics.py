"""What functions of `unaligned` become in code that Numba compiles."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
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
