"""Builds CUDA sources with the host compiler: a shared library for each source file, and the program that runs them.

A kernel file is used as it is but for two things. `__shared__` declarations become references to memory of their exact
size (so that the sanitizer has red zones around each); and a table of the file's kernels is appended, for the runner.
Results are kept in ``build/emulation``, under a hash of everything that went into them.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parent.parent
KERNELS = REPOSITORY / "kernels"
CACHE = REPOSITORY / "build" / "emulation"

#: object-size took a third of the time to build. It knows the sizes of local variables only, round which ASan has red
#: zones, and whose indexes `bounds` checks.
SANITIZERS = (
    *("-fsanitize=address,undefined", "-fno-sanitize=object-size"),
    *("-fno-sanitize-recover=all", "-fno-omit-frame-pointer"),
)
#: -O1 took a third longer to build, and as long to run.
FLAGS = (
    *("-std=c++17", "-Og", "-g1", "-fPIC", "-Wall", "-Wno-unknown-pragmas", "-Wno-unused-function"),
    # Two builds of one file (other defines) must not share their static variables.
    *("-fvisibility=hidden", "-fvisibility-inlines-hidden"),
)


class BuildError(Exception):
    """The host compiler refused, or a source file uses what the shim does not carry."""


def find_compiler() -> tuple[str, ...] | None:
    """The command of the host's C++ compiler (``$CXX``, g++ or clang++), None if there is none."""
    for candidate in (os.environ.get("CXX", ""), "g++", "clang++"):
        command = shlex.split(candidate)
        if command and shutil.which(command[0]):
            return tuple(command)
    return None


def _compiler() -> tuple[str, ...]:
    compiler = find_compiler()
    if compiler is None:
        raise BuildError("no C++ compiler: set CXX, or install g++ or clang++")
    return compiler


@functools.cache
def _version(compiler: tuple[str, ...]) -> str:
    return subprocess.run([*compiler, "--version"], check=True, capture_output=True, text=True).stdout


def _run(command: Sequence[str | Path]) -> str:
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise BuildError(f"{shlex.join(str(word) for word in command)}\n{result.stdout}{result.stderr}")
    return result.stdout


def _key(*parts: object) -> str:
    return hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()[:20]


def _shim_sources() -> str:
    return "\0".join(path.read_text() for path in sorted([*HERE.glob("*.h"), *HERE.glob("*.cpp")]))


def _built(name: str, key: str, command: Sequence[str | Path], inputs: Mapping[str, str]) -> Path:
    """The file ``name`` of `command`, run unless the cache has it; ``inputs`` are files written for it."""
    result = CACHE / key / name
    if result.exists():
        return result
    result.parent.mkdir(parents=True, exist_ok=True)
    with open(result.parent / "lock", "w") as lock, tempfile.TemporaryDirectory(dir=result.parent) as folder:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several test processes may want the same: one of them builds it
        if not result.exists():
            for path, text in inputs.items():
                Path(folder, path).write_text(text)
            output = Path(folder, name)
            _run([str(word).replace("{folder}", folder) for word in command] + ["-o", output])
            output.replace(result)
    return result


def build_runner() -> Path:
    """The program that `emulator.Emulator` talks to."""
    compiler = _compiler()
    # Kernels call the runtime from their libraries.
    options = ("-Wextra", "-fvisibility=default")
    # It switches threads millions of times, and touches nothing of a kernel's: optimized, and not watched.
    fast = ("-O2", "-fno-omit-frame-pointer", "-DCUDA_SHIM_ASAN=1", "-c")
    command = [*compiler, *FLAGS, *options, *fast, str(HERE / "runtime.cpp")]
    runtime = _built("runtime.o", _key(_version(compiler), command, _shim_sources()), command, {})
    command = [*compiler, *FLAGS, *options, *SANITIZERS, "-rdynamic", str(HERE / "runner.cpp"), str(runtime), "-ldl"]
    return _built("runner", _key(_version(compiler), command, _shim_sources()), command, {})


def build_module(
    source: Path, defines: Mapping[str, object] | None = None, includes: Sequence[Path] = (KERNELS,)
) -> Path:
    """A library with the kernels of `source`.

    Parameters
    ----------
    source
        A ``.cu`` file.
    defines
        Preprocessor macros, as the options of a compile for the GPU.
    includes
        Where ``#include "x.cuh"`` is searched, besides the folder of `source`.
    """
    macros = tuple(f"-D{name}={value}" for name, value in (defines or {}).items())
    return _build_module(_compiler(), source, macros, tuple(includes))


@functools.cache  # sources do not change under a test run, and every test asks for all of its kernels
def _build_module(compiler: tuple[str, ...], source: Path, macros: tuple[str, ...], includes: tuple[Path, ...]) -> Path:
    headers = {path.name: path for folder in (*includes, source.parent) for path in sorted(Path(folder).glob("*.cuh"))}
    inputs = {name: rewrite_shared(path.read_text(), str(path)) for name, path in headers.items()}
    inputs[source.name] = rewrite_shared(source.read_text(), str(source))
    kernels = _find_kernels(_preprocess(compiler, source, macros, includes), str(source))
    inputs["module.cpp"] = _module(source.name, kernels)
    command = [*compiler, *FLAGS, *SANITIZERS, *macros, "-shared", f"-I{HERE}", "{folder}/module.cpp"]
    key = _key(_version(compiler), command, _shim_sources(), *sorted(inputs.items()))
    return _built(f"{source.stem}.so", key, command, inputs)


# ------------------------------------------------------------------------------------------------- source rewriting

_SHARED = re.compile(r"\b__shared__\s+(?P<declaration>[^;{}=]+);")
_DECLARATOR = re.compile(r"(?P<name>\w+)\s*(?:\[[^\]]*\]\s*)*$")


def rewrite_shared(text: str, name: str) -> str:
    """Turn ``__shared__ T x[n];`` into a reference to block memory of exactly this size.

    Lines keep their numbers, and the compiler is told the file's real name, so reports lead to the source.
    """
    lines = [f'#line 1 "{name}"']
    for number, line in enumerate(text.splitlines(), 1):
        code, slashes, comment = line.partition("//")
        if "__shared__" in code and not line.lstrip().startswith("#"):

            def reference(match: re.Match[str], number: int = number) -> str:
                declaration = match["declaration"]
                declarator = _DECLARATOR.search(declaration)
                if declarator is None or "," in re.sub(r"<[^<>]*>|\([^()]*\)|\[[^\]]*\]", "", declaration):
                    raise BuildError(f"{name}:{number}: declare one __shared__ variable a line: {match[0]}")
                tag, variable = f"cuda_shim_shared_{number}", declarator["name"]
                return (
                    f"struct {tag} {{ {declaration}; }}; "
                    f"auto& {variable} = cuda_shim::shared_variable<decltype({tag}::{variable}), {tag}>();"
                )

            code, count = _SHARED.subn(reference, code)
            if count != 1 or "__shared__" in code or "extern" in code:
                raise BuildError(
                    f"{name}:{number}: the shim knows `__shared__ type name[size];` on a line of its own and, for "
                    f"dynamic shared memory, DYNAMIC_SHARED(type, name); not: {line.strip()}"
                )
        lines.append(code + slashes + comment)
    return "\n".join(lines) + "\n"


# ---------------------------------------------------------------------------------------------------- finding kernels


def _preprocess(compiler: Sequence[str], source: Path, macros: Sequence[str], includes: Sequence[Path]) -> str:
    """The source with its macros expanded and CUDA's keywords still in place."""
    # Defined as the shim does it, lest the `extern __shared__` behind it be seen.
    known = ["-DCUDA_SHIM=1", "-DDYNAMIC_SHARED(type,name)="]
    return _run([*compiler, "-E", "-P", "-x", "c++", *known, *macros, *(f"-I{folder}" for folder in includes), source])


_LAUNCH_BOUNDS = re.compile(r"\b__launch_bounds__\s*\(")
_CLUSTER_DIMS = re.compile(r"\b__cluster_dims__\s*\(")
_KERNEL_NAME = re.compile(r"^\s*void\s+(?P<name>\w+)\s*$")


def _find_kernels(text: str, name: str) -> dict[str, tuple[str, str]]:
    """Kernel name -> largest block size ("0" for no limit), and blocks of a cluster; expressions."""
    kernels = {}
    for match in re.finditer(r"\b__global__\b", text):
        before = text[: match.start()].rpartition(";")[2].rpartition("}")[2]
        head, attributes = text[match.end() :], []
        for attribute, without in ((_LAUNCH_BOUNDS, "0"), (_CLUSTER_DIMS, "1")):
            found = attribute.search(head[: head.index("{")])
            if found:
                end = _closing(head, found.end())
                without = re.sub(r",.*", "", head[found.end() : end], flags=re.S)
                head = head[: found.start()] + head[end + 1 :]
            attributes.append(without)
        kernel = _KERNEL_NAME.match(head[: head.index("(")])
        if kernel is None or 'extern "C"' not in before:
            raise BuildError(
                f'{name}: the shim knows kernels written `extern "C" __global__ void __launch_bounds__(...) name(...)`'
                f", not: {before.strip()[-80:]} __global__{text[match.end() : match.end() + 80]}"
            )
        kernels[kernel["name"]] = attributes[0], attributes[1]
    if not kernels:
        raise BuildError(f"{name}: no kernels")
    return kernels


def _closing(text: str, start: int) -> int:
    """Where the parenthesis opened before `start` closes."""
    depth = 1
    for i in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[i], 0)
        if depth == 0:
            return i
    raise BuildError("unbalanced parentheses")


def _module(source: str, kernels: Mapping[str, tuple[str, str]]) -> str:
    entries = "".join(
        f'    {{"{name}", cuda_shim::Thunk<&{name}>::run_thread, cuda_shim::Thunk<&{name}>::parameters,\n'
        f"     cuda_shim::Thunk<&{name}>::count, {bounds}, {cluster}}},\n"
        for name, (bounds, cluster) in kernels.items()
    )
    export = 'extern "C" __attribute__((visibility("default"))) const'
    return (
        f'#include "cuda_keywords.h"\n#include "{source}"\n'
        f"{export} cuda_shim::Kernel cuda_shim_kernels[] = {{\n{entries}}};\n"
        f"{export} unsigned cuda_shim_kernel_count = {len(kernels)};\n"
    )
