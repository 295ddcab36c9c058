"""Every kernel file compiles for the GPUs it is written for, by NVRTC alone: no GPU and no driver needed."""

from __future__ import annotations

import importlib
import os
import struct
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from cudf_fsst.device import kernels
from test_architecture import MODULES
from toy_text import launch as toy_text
from toy_values import launch as toy_values

#: Shared memory a thread block may have there.
SHARED_PER_BLOCK = {70: 98304, 75: 65536, 80: 166912, 86: 101376, 90: 232448, 100: 232448, 120: 101376}
#: What kernels are compiled with, as the module ``launch`` of each folder that has any declares it; of the toys, too.
DECLARED = [importlib.import_module(name) for name in sorted(MODULES) if name.endswith(".launch")]


def variants(architecture: int) -> dict[str, list[dict[str, int]]]:
    """File -> sets of constants."""
    found: dict[str, list[dict[str, int]]] = {}
    for declared in (*DECLARED, toy_text, toy_values):
        more = declared.variants(SHARED_PER_BLOCK[architecture])
        assert not found.keys() & more.keys()
        found |= more
    return found


#: Every set of constants is compiled for this GPU.
OFTEN = 90
#: The first set of each file is compiled for the oldest GPU, and for one of these in turn; with all cases for all GPUs.
IN_TURN = (75, 80, 86, 100, 120)
ALL_CASES = os.environ.get("CUDF_FSST_ALL_CASES") == "1"


def numbers(architecture: int, file_number: int, variants_there: int) -> range:
    """Sets of constants of a file that are compiled for a GPU."""
    if architecture == OFTEN:
        return range(variants_there)
    in_turn = architecture == IN_TURN[file_number % len(IN_TURN)]
    return range(1 if ALL_CASES or in_turn or architecture == min(SHARED_PER_BLOCK) else 0)


#: File, which set of constants, GPU.
COMPILED = [
    (file, number, architecture)
    for architecture in SHARED_PER_BLOCK
    for file_number, (file, every) in enumerate(variants(architecture).items())
    for number in numbers(architecture, file_number, len(every))
]
#: Files with more than one kernel. A macro writes several.
SEVERAL = [
    file for file in variants(OFTEN) if kernels.source(file).count("__global__") > 1 or "(name" in kernels.source(file)
]
#: The last set of constants of each file; with the others its kernels are alike.
LAST = {file: len(every) - 1 for file, every in variants(OFTEN).items()}
#: Bytes of a thread's local memory that kernels may use (arrays the compiler could not keep in registers, and spills).
LOCAL_BYTES = {("onpair_train", 70): 8}


@pytest.fixture(scope="module")
def compile_kernels() -> Callable[[str, Any, int], bytes]:
    """(file, variant, architecture) -> cubin; skips without NVRTC, fails where CI is set."""
    try:
        from cuda.bindings import nvrtc

        nvrtc.nvrtcVersion()
    except (ImportError, RuntimeError) as reason:
        message = f"NVRTC is missing (install cuda-bindings and nvidia-cuda-nvrtc-cu12, both 12.9): {reason}"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)

    def call(function: Callable[..., tuple[Any, ...]], *arguments: Any) -> Any:
        error, *result = function(*arguments)
        assert error == nvrtc.nvrtcResult.NVRTC_SUCCESS, f"{function.__name__}: {error}"
        return result[0] if result else None

    def compile_file(file: str, defines: Mapping[str, int], architecture: int, kernel: str | None = None) -> bytes:
        text = (kernels.source(file) if kernel is None else kernels.alone(kernels.source(file), kernel)).encode()
        program = call(nvrtc.nvrtcCreateProgram, text, f"{file}.cu".encode(), 0, [], [])
        flags = [*kernels.options(defines), f"-arch=sm_{architecture}"]
        error, *_ = nvrtc.nvrtcCompileProgram(program, len(flags), [flag.encode() for flag in flags])
        log = bytearray(call(nvrtc.nvrtcGetProgramLogSize, program))
        call(nvrtc.nvrtcGetProgramLog, program, log)
        assert error == nvrtc.nvrtcResult.NVRTC_SUCCESS, log.decode()
        cubin = bytearray(call(nvrtc.nvrtcGetCUBINSize, program))
        call(nvrtc.nvrtcGetCUBIN, program, cubin)
        call(nvrtc.nvrtcDestroyProgram, program)
        return bytes(cubin)

    return compile_file


def _sections(elf: bytes) -> Iterator[tuple[str, bytes]]:
    """Name and content of an ELF64 file's sections (a cubin is one)."""
    assert elf[:5] == b"\x7fELF\x02"
    (table,) = struct.unpack_from("<Q", elf, 40)
    size, count, names_index = struct.unpack_from("<HHH", elf, 58)
    headers = [struct.unpack_from("<IIQQQQ", elf, table + i * size) for i in range(count)]
    names_at = headers[names_index][4]
    for name, kind, _flags, _address, offset, nbytes in headers:
        start = names_at + name
        content = b"" if kind == 8 else elf[offset : offset + nbytes]  # 8: a section without bytes in the file
        yield elf[start : elf.index(b"\0", start)].decode(), content


def _frame_sizes(cubin: bytes) -> dict[int, int]:
    """Symbol number of a function -> bytes of its stack frame: local arrays and spilled registers."""
    (info,) = (content for name, content in _sections(cubin) if name == ".nv.info")
    frames, at = {}, 0
    while at < len(info):
        form, attribute, size = struct.unpack_from("<BBH", info, at)
        at += 4
        if form == 4:  # the value is `size` bytes long; other forms hold it in the two bytes of `size`
            if attribute == 0x11:  # EIATTR_FRAME_SIZE
                symbol, frame = struct.unpack_from("<II", info, at)
                frames[symbol] = frame
            at += size
    return frames


def test_every_file_is_declared() -> None:
    """By one folder; the two others are the toys'."""
    declared = {Path(file).name for file in variants(90)}
    assert declared == {path.stem for path in kernels.folder().glob("*.cu")} | {"toy_text", "toy_values"}


def check_kernels(cubin: bytes, file: str, architecture: int) -> dict[str, bytes]:
    """Kernels keep nothing in local memory; the code of each."""
    code = {name: code for name, code in _sections(cubin) if name.startswith(".text.")}
    frames = _frame_sizes(cubin)
    assert len(frames) >= len(code) > 0
    assert max(frames.values()) <= LOCAL_BYTES.get((file, architecture), 0), (
        f"a kernel of {[*code]} keeps values in local memory"
    )
    return code


#: What `test_code_of_one_kernel` compiles as well.
AGAIN = {(file, LAST[file], OFTEN) for file in SEVERAL}
ONCE = [one for one in COMPILED if one not in AGAIN]


@pytest.mark.long
@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("file", "number", "architecture"), ONCE, ids=["-".join([Path(one[0]).name, *map(str, one[1:])]) for one in ONCE]
)
def test_compiles(file: str, number: int, architecture: int, compile_kernels: Callable[[str, Any, int], bytes]) -> None:
    check_kernels(compile_kernels(file, variants(architecture)[file][number], architecture), file, architecture)


@pytest.mark.long
@pytest.mark.sampled(1)
@pytest.mark.parametrize("file", SEVERAL, ids=[Path(file).name for file in SEVERAL])
def test_code_of_one_kernel(file: str, compile_kernels: Callable[..., bytes]) -> None:
    """A kernel that is compiled without the others of its file has the same instructions.

    As good as these where it is one of several that share a template: its variables in shared memory lie elsewhere.
    """
    variant = variants(OFTEN)[file][LAST[file]]
    moved = {".text.mask_count", ".text.fsst_take_few", ".text.onpair_take_few"}
    for name, code in check_kernels(compile_kernels(file, variant, OFTEN), file, OFTEN).items():
        sections = dict(_sections(compile_kernels(file, variant, OFTEN, name.removeprefix(".text."))))
        assert [one for one in sections if one.startswith(".text.")] == [name]
        assert sections[name] == code or name in moved, name
        assert abs(len(sections[name]) - len(code)) < len(code) / 100, name


def test_quick_code(compile_kernels: Callable[..., bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    """What whoever waits gets; it may keep values in local memory."""
    monkeypatch.setattr(kernels, "OPTIONS", (*kernels.OPTIONS, kernels.QUICK))
    defines = variants(OFTEN)["fsst_search"][LAST["fsst_search"]]
    cubin = compile_kernels("fsst_search", defines, OFTEN, "fsst_search")
    assert [name for name, _ in _sections(cubin) if name.startswith(".text.")] == [".text.fsst_search"]


def test_a_frame_is_seen(compile_kernels: Callable[[str, Any, int], bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    text = """
    extern "C" __global__ void local_array(const int* in, int* out) {
      int values[64];
      for (int i = 0; i < 64; ++i) values[in[i]] = in[i + 64];
      for (int i = 0; i < 64; ++i) out[i] = values[in[i + 128]];
    }"""
    monkeypatch.setattr(kernels, "source", lambda _name: text)
    assert max(_frame_sizes(compile_kernels("local_array", {}, 90)).values()) == 256
