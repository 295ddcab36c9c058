"""Every kernel file compiles for every supported GPU, by NVRTC alone: no GPU and no driver needed."""

from __future__ import annotations

import importlib.util
import os
import re
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from cudf_fsst.codecs.dict import launch as dictionaries
from cudf_fsst.codecs.fsst import launch
from cudf_fsst.codecs.onpair import launch as onpair
from cudf_fsst.codecs.text.layout import TILE_SIZES
from cudf_fsst.device import kernels


def _variants(path: Path) -> Iterable[Any]:
    """What a file is compiled with: constants where its codec lists them, else a tile size, or 0 (none needed)."""
    for listed in (dictionaries.VARIANTS, onpair.VARIANTS):
        if path.stem in listed:
            return listed[path.stem]
    if importlib.util.find_spec(f"cudf_fsst.device.{path.stem}"):
        return importlib.import_module(f"cudf_fsst.device.{path.stem}").VARIANTS
    codec = f"cudf_fsst.codecs.{path.stem.removesuffix('_compare')}"
    if importlib.util.find_spec(codec) and importlib.util.find_spec(f"{codec}.launch"):
        return importlib.import_module(f"{codec}.launch").VARIANTS
    return TILE_SIZES if re.search(r"\bTILE\b", path.read_text()) else (0,)


VARIANTS = [(path.stem, variant) for path in sorted(kernels.folder().glob("*.cu")) for variant in _variants(path)]
ARCHITECTURES = (70, 75, 80, 86, 90, 100, 120)
#: Shared memory a thread block may have there.
SHARED_PER_BLOCK = {70: 98304, 75: 65536, 80: 166912, 86: 101376, 90: 232448, 100: 232448, 120: 101376}
#: For GPUs that have clusters; launch.py chooses by their shared memory.
CLUSTERS = {"fsst_train_cluster": (90, 100)}
COMPILED = [
    (file, variant, architecture) for file, variant in VARIANTS for architecture in CLUSTERS.get(file, ARCHITECTURES)
]
#: Bytes of a thread's local memory a kernel may use (arrays the compiler could not keep in registers, and spills).
LOCAL_BYTES = 0


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

    def compile_file(file: str, variant: Any, architecture: int, kernel: str | None = None) -> bytes:
        text = (kernels.source(file) if kernel is None else kernels.alone(kernels.source(file), kernel)).encode()
        program = call(nvrtc.nvrtcCreateProgram, text, f"{file}.cu".encode(), 0, [], [])
        # What CuPy adds to our options, as far as it changes the code.
        defines: Mapping[str, int]
        if isinstance(variant, Mapping):
            defines = variant
        elif file == "fsst_encode":
            defines = launch.encode_defines(variant, SHARED_PER_BLOCK[architecture])
        elif file == "fsst_encode_max":
            defines = launch.encode_max_defines(variant, SHARED_PER_BLOCK[architecture])
        elif file in ("fsst_train", "fsst_train_cluster"):
            defines = launch.train_defines(SHARED_PER_BLOCK[architecture])
        elif file == "fsst_train_max":
            defines = launch.train_max_defines()
        elif file in ("fsst_match", "fsst_search", "fsst_values"):
            defines = launch.match_defines(variant)
        elif file in ("fsst_rows", "fsst_rows_lift"):
            defines = launch.rows_defines(variant)
        else:
            defines = launch.defines(variant) if variant else launch.DEFINES
        flags = [*kernels.options(defines), "-ftz=true", f"-arch=sm_{architecture}"]
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


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("file", "variant", "architecture"), COMPILED)
def test_compiles(
    file: str, variant: Any, architecture: int, compile_kernels: Callable[[str, Any, int], bytes]
) -> None:
    cubin = compile_kernels(file, variant, architecture)
    compiled = [name for name, _ in _sections(cubin) if name.startswith(".text.")]
    frames = _frame_sizes(cubin)
    assert len(frames) >= len(compiled) > 0
    assert max(frames.values()) <= LOCAL_BYTES, f"a kernel of {compiled} keeps values in local memory"


#: One variant of each file; the others are alike.
ALONE = list(dict(reversed(VARIANTS)).items())


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("file", "variant"), ALONE, ids=[file for file, _ in ALONE])
def test_code_of_one_kernel(file: str, variant: Any, compile_kernels: Callable[..., bytes]) -> None:
    """A kernel that is compiled without the others of its file has the same instructions.

    As good as these where it is one of several that share a template: its variables in shared memory lie elsewhere.
    """
    whole = {name: code for name, code in _sections(compile_kernels(file, variant, 90)) if name.startswith(".text.")}
    assert whole
    for name, code in whole.items():
        sections = dict(_sections(compile_kernels(file, variant, 90, name.removeprefix(".text."))))
        assert [one for one in sections if one.startswith(".text.")] == [name]
        assert sections[name] == code or name in {".text.mask_count", ".text.take_few"}, name
        assert abs(len(sections[name]) - len(code)) < len(code) / 100, name


def test_a_frame_is_seen(compile_kernels: Callable[[str, Any, int], bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    text = """
    extern "C" __global__ void local_array(const int* in, int* out) {
      int values[64];
      for (int i = 0; i < 64; ++i) values[in[i]] = in[i + 64];
      for (int i = 0; i < 64; ++i) out[i] = values[in[i + 128]];
    }"""
    monkeypatch.setattr(kernels, "source", lambda _name: text)
    assert max(_frame_sizes(compile_kernels("local_array", 0, 90)).values()) == 256
