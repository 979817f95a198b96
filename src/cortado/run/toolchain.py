"""The programs that Cortado runs: where they are, what installs them, and a cache of what they build.

Every result is stored under a hash of all its inputs (contents of sources and headers, flags, compiler version), so
that building it again is a file lookup. The cache directory is $CORTADO_CACHE or ~/.cache/cortado; it can be deleted at
any time. Several processes can build at once: files are written under a temporary name and renamed into place, and a
process waits for another that builds the same file.
"""

import contextlib
import hashlib
import itertools
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO

from cortado.base.errors import CortadoError, MissingTool
from cortado.base.system import DEVICE, lock
from cortado.run import sandbox
from cortado.run.confined import confined

HEADER_SUFFIXES = frozenset({".h", ".hpp", ".inc", ".inl"})
# A directive that names a file; the name is empty if it is a macro, or anything else that isn't literal.
INCLUDE = re.compile(rb'(?:^[ \t]*#|%:|\?\?=)[ \t]*include(?:_next)?\b[ \t]*(?:["<]([^">\n\\]+)[">])?', re.M)
# A setting that only Cortado's headers test, and where they may: its name, or the prefix of one.
OWN_SETTING = re.compile(r"-[DU](CORTADO_\w+)")
OWN_WORD = re.compile(rb"CORTADO_\w*(?:[ \t]*##)?")
WASM_STACK_BYTES = 1 << 18
CPP_SUFFIXES = frozenset({".cc", ".cpp", ".cxx"})
# The linker's message for a memory region that is too small.
OVERFLOW = re.compile(r"region `(\w+)' overflowed by (\d+) bytes")


@dataclass(frozen=True)
class ToolInfo:
    """A program, the Debian packages that provide it, and the part of Cortado that needs it."""

    command: str
    packages: str
    needed_for: str
    optional: bool = False
    others: tuple[str, ...] = ()  # its other common names
    tested: str = ""  # the prefix of the version that the tests run with


class Tool(Enum):
    """Every program that Cortado may run."""

    CC = ToolInfo("cc", "build-essential", "the host build of a model, and the emulator's plugin", tested="12.2")
    CXX = ToolInfo("c++", "build-essential", "running a .pte on the ExecuTorch runtime", tested="12.2")
    ARM_GCC = ToolInfo(
        "arm-none-eabi-gcc", "gcc-arm-none-eabi libnewlib-arm-none-eabi", "building firmware", tested="12.2"
    )
    QEMU = ToolInfo("qemu-system-arm", "qemu-system-arm", "running firmware on an emulated board", tested="7.2")
    CMAKE = ToolInfo("cmake", "cmake", "checking a bundle's CMakeLists.txt", tested="3.25")
    GDB = ToolInfo(
        "gdb-multiarch",
        "gdb-multiarch",
        "running on a chip through a debug probe",
        optional=True,
        others=("arm-none-eabi-gdb",),
        tested="13.1",
    )
    CLANG = ToolInfo(
        "clang-19", "clang-19 lld-19", "building firmware with clang, and WebAssembly", optional=True, tested="19.1"
    )
    WASM_LD = ToolInfo("wasm-ld-19", "clang-19 lld-19", "building WebAssembly", optional=True, tested="19.1")
    NODE = ToolInfo("node", "nodejs", "running WebAssembly", optional=True, tested="20")


WASM_TOOLS = (Tool.CLANG, Tool.WASM_LD, Tool.NODE)  # to build WebAssembly, and to run it


@dataclass(frozen=True)
class ToolStatus:
    """The status of one tool, as `cortado doctor` shows it; path and version are None if it isn't installed."""

    tool: Tool
    path: Path | None
    version: str | None

    @property
    def found(self) -> bool:
        return self.path is not None


def find(tool: Tool) -> Path | None:
    """Returns the tool's path, or None if it isn't on PATH."""
    names = (tool.value.command, *tool.value.others)
    return next((Path(path) for name in names if (path := shutil.which(name))), None)


def require(tool: Tool) -> Path:
    """Returns the tool's path, or raises MissingTool with the command that installs it."""
    path = find(tool)
    if path is None:
        info = tool.value
        raise MissingTool(
            f"{info.command} is not on PATH; it is needed for {info.needed_for}.\n"
            f"Install it with: apt-get install {info.packages}"
        )
    return path


@lru_cache(maxsize=64)
def _version_text(path: Path, mtime_ns: int) -> str:
    result = subprocess.run([str(path), "--version"], capture_output=True, text=True, check=False, timeout=60)
    text = result.stdout.strip()
    return text.splitlines()[0] if text else f"unknown version of {path.name}"


def version(path: Path) -> str:
    """Returns the first line of `TOOL --version`, cached per process and program file."""
    return _version_text(path, path.stat().st_mtime_ns)


def status() -> tuple[ToolStatus, ...]:
    """Returns path and version of every tool."""

    def one(tool: Tool) -> ToolStatus:
        path = find(tool)
        return ToolStatus(tool, path, version(path) if path else None)

    return tuple(one(tool) for tool in Tool)


@lru_cache(maxsize=8)
def newlib_include(gcc: Path) -> Path:
    """Returns the folder of newlib's headers; gcc finds them by itself, clang has to be told."""
    result = subprocess.run([str(gcc), "-print-file-name=libc.a"], capture_output=True, text=True, check=True)
    library = Path(result.stdout.strip())
    include = library.parent.parent / "include"
    if not library.is_absolute() or not (include / "string.h").exists():
        raise MissingTool(
            f"{gcc} has no C library (newlib); it is needed for building firmware.\n"
            "Install it with: apt-get install libnewlib-arm-none-eabi"
        )
    return include.resolve()


# ---- The cache ------------------------------------------------------------------------------------------------------


def cache_dir() -> Path:
    """Returns $CORTADO_CACHE, or ~/.cache/cortado."""
    configured = os.environ.get("CORTADO_CACHE")
    return Path(configured) if configured else Path.home() / ".cache" / "cortado"


def _digest(parts: Iterable[str | bytes]) -> str:
    """Hashes parts including their lengths, so that moving a byte from one part to the next changes the result."""
    state = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        state.update(len(data).to_bytes(8, "little"))
        state.update(data)
    return state.hexdigest()


def cached(key: str, suffix: str, build: Callable[[Path], None]) -> Path:
    """Returns the cached file for a key, calling `build` to write it if it is missing or damaged, as after a full disk
    or a power cut."""
    target = cache_dir() / key[:2] / f"{key}{suffix}"
    if _is_whole(target):
        return target
    with contextlib.ExitStack() as stack:
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            stack.enter_context(_one_at_a_time(target.with_name(f"{target.name}.lock")))
            if _is_whole(target):
                return target
            work = tempfile.TemporaryDirectory(dir=target.parent, prefix="build-", ignore_cleanup_errors=True)
        except OSError as error:
            raise CortadoError(
                f"can't write to the build cache {cache_dir()}: {error.strerror}; set CORTADO_CACHE to a directory you "
                "may write to"
            ) from error
        folder = stack.enter_context(work)
        temporary = Path(folder) / f"output{suffix}"
        build(temporary)
        noted = Path(folder) / "sum"
        noted.write_text(_sum(temporary))
        try:
            os.replace(noted, _note(target))
            os.replace(temporary, target)
        except OSError as error:
            raise CortadoError(
                f"the build cache {cache_dir()} is damaged: {target} can't be replaced ({error.strerror}); delete it"
            ) from error
    return target


@contextlib.contextmanager
def _one_at_a_time(path: Path) -> Iterator[None]:
    """Holds a lock that lets one process and thread work at a time. The lock file exists only while the lock is
    held."""
    while True:
        with path.open("wb") as file:
            lock(file.fileno(), wait=True)  # without locks both build
            if not _is_at(path, file):  # its previous holder removed it
                continue
            try:
                yield
            finally:
                with contextlib.suppress(OSError):  # on a system that can't remove open files, the next holder does
                    path.unlink(missing_ok=True)
            return


def _is_at(path: Path, file: BinaryIO) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False


def _note(target: Path) -> Path:
    return target.with_name(f"{target.name}.sum")


def _sum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _is_whole(target: Path) -> bool:
    """Returns whether a file exists with the contents that were written."""
    try:
        return _note(target).read_text() == _sum(target)
    except (OSError, UnicodeDecodeError):
        return False


# ---- Compiling ------------------------------------------------------------------------------------------------------


class BuildError(CortadoError):
    """A compiler or linker failed; the message includes its output."""


@dataclass(frozen=True)
class CompilerCommand:
    """A compiler driver with the flags it always gets."""

    path: Path
    flags: tuple[str, ...] = ()

    def identity(self) -> tuple[str, ...]:
        return (version(self.path), *self.flags)


def host_compiler() -> CompilerCommand:
    """Returns the development machine's own C compiler."""
    return CompilerCommand(require(Tool.CC))


def arm_gcc() -> CompilerCommand:
    """Returns GCC for bare-metal Arm."""
    gcc = require(Tool.ARM_GCC)
    newlib_include(gcc)
    return CompilerCommand(gcc)


def arm_clang() -> CompilerCommand:
    """Returns Clang for bare-metal Arm, with newlib's headers; its objects are linked by arm-none-eabi-gcc."""
    include = newlib_include(require(Tool.ARM_GCC))
    return CompilerCommand(require(Tool.CLANG), ("--target=arm-none-eabi", "-isystem", str(include)))


def wasm_clang() -> CompilerCommand:
    """Returns Clang for WebAssembly; device/wasm has the few functions of the C library that bundles use."""
    return CompilerCommand(require(Tool.CLANG), ("--target=wasm32", "-nostdlib", "-mbulk-memory", "-msimd128"))


def _run(command: Sequence[str | Path], doing: str, *, sees: Sequence[Path] | None, output: Path) -> None:
    """Runs a command; raises BuildError with its standard error if it fails. With `sees` it can read only these files
    and its own, and write only next to its output."""
    given = command
    if sees is not None:
        tools = [path for tool in (Tool.ARM_GCC, Tool.CLANG) if (path := find(tool)) is not None]
        given = confined(command, reads=sees, writes=output.parent, tools=tools)
    done = sandbox.run(given, sandbox.COMPILER, doing=doing)
    if done.code != 0:
        raise BuildError(f"{doing} failed ({Path(command[0]).name}, exit code {done.code}):\n{done.errors}")


def _input_parts(sources: Sequence[Path], include_dirs: Sequence[Path]) -> list[str | bytes]:
    """Returns names and contents of the sources and of every file that the preprocessor may read for them, below the
    include directories or next to them.

    Names are as spelled, not absolute, so that two checkouts share their builds.
    """
    missing = [source for source in sources if not source.is_file()]
    if missing:
        raise CortadoError(f"no such source file: {missing[0]}")
    return _readable(sources, include_dirs)


def _readable(sources: Sequence[Path], include_dirs: Sequence[Path]) -> list[str | bytes]:
    """Returns the sources and, transitively, all files with a name that they include, each once; all headers if some
    name is not literal.

    Paths are strings for speed, as this runs for every program.
    """
    parts: list[str | bytes] = []
    folders = [str(folder) for folder in include_dirs]
    left = [(source.name, str(source)) for source in sources]
    known, all_seen = {path for _, path in left}, True
    while left:
        name, path = left.pop()
        text = Path(path).read_bytes()
        parts += [name, text]
        names = _included(text)
        all_seen = all_seen and all(names)
        for named, folder in itertools.product(filter(None, names), (os.path.dirname(path), *folders)):
            found = os.path.join(folder, named)
            if found not in known and os.path.isfile(found):
                known.add(found)
                left.append((named, found))
    if all_seen:
        return parts
    places = dict.fromkeys((*(source.parent for source in sources), *include_dirs))
    return [*parts, *(part for folder in places for part in _headers(folder))]


@lru_cache(maxsize=256)
def _included(text: bytes) -> tuple[str, ...]:
    """Returns the names in a text's include directives; cached, since many sources include the same header."""
    return tuple(found.decode(errors="replace") for found in INCLUDE.findall(text))


@lru_cache(maxsize=256)
def _own_words(text: bytes) -> frozenset[str]:
    return frozenset(found.decode() for found in OWN_WORD.findall(text))


def _header_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.suffix in HEADER_SUFFIXES)


def _headers(folder: Path) -> list[str | bytes]:
    return [part for path in _header_files(folder) for part in (path.relative_to(folder).as_posix(), path.read_bytes())]


def compile_object(
    source: Path,
    include_dirs: Sequence[Path],
    flags: Sequence[str],
    compiler: CompilerCommand,
    *,
    foreign: bool = False,
) -> Path:
    """Compiles one object file.

    Its cache key covers what the preprocessor may read: neither a header that the source doesn't include nor a Cortado
    setting that nothing tests causes a rebuild, so kernels are compiled once for all models. The compiler of a
    `foreign` source sees only that source and the headers.
    """
    command: list[str | Path] = [compiler.path, *compiler.flags, *flags, *(f"-I{folder}" for folder in include_dirs)]
    parts = _input_parts([source], include_dirs)
    asked = _asked_for([*parts, *(flag.partition("=")[2].encode() for flag in flags)])
    counted = [flag for flag in flags if (name := OWN_SETTING.match(flag)) is None or asked is None or name[1] in asked]

    def build(output: Path) -> None:
        sees = _seen_by_foreign(source, include_dirs) if foreign else None
        _run([*command, "-c", source, "-o", output], f"compiling {source}", sees=sees, output=output)

    return cached(_digest(["object", *compiler.identity(), *counted, *parts]), ".o", build)


def _seen_by_foreign(source: Path, include_dirs: Sequence[Path]) -> list[Path]:
    """Returns the source and the headers, without symlinks that lead elsewhere."""
    places = [place.resolve() for place in (source.parent, *include_dirs)]
    files = [source, *(path for folder in include_dirs for path in _header_files(folder))]
    return [path for path in files if any(path.resolve().is_relative_to(place) for place in places)]


def _asked_for(texts: Iterable[str | bytes]) -> set[str] | None:
    """Returns the names of Cortado's own settings in texts; None if the preprocessor may compose names by pasting."""
    words = {word for text in texts if isinstance(text, bytes) for word in _own_words(text)}
    return None if any(word.endswith("#") for word in words) else words


@dataclass(frozen=True)
class _Build:
    """A program or library: everything that its bytes depend on."""

    sources: Sequence[Path]
    include_dirs: Sequence[Path]
    flags: Sequence[str]
    compiler: CompilerCommand
    linker: CompilerCommand
    link_flags: Sequence[str]
    name: str
    suffix: str
    scripts: Sequence[str] = ()  # linker scripts; the first one whose regions everything fits into is used
    foreign: bool = False  # the sources are untrusted: compiler and linker are sandboxed

    def run(self) -> Path:
        if not re.fullmatch(r"[A-Za-z0-9_.-]+", self.name):
            raise CortadoError(f"{self.name!r} can't name a file: use letters, digits, '_', '-' and '.'")
        return cached(self._key(), f"-{self.name}{self.suffix}", self._build)

    def _key(self) -> str:
        settings = ["compile", *self.compiler.identity(), *self.flags]
        settings += ["link", *self.linker.identity(), *self.link_flags, *self.scripts]
        return _digest([*settings, *_input_parts(self.sources, self.include_dirs)])

    def _build(self, output: Path) -> None:
        with ThreadPoolExecutor(max_workers=min(4, os.cpu_count() or 1)) as pool:
            objects = list(pool.map(self._object, self.sources))
        command: list[str | Path] = [self.linker.path, *objects, *self.link_flags, "-o", output]
        if not self.scripts:
            _run(command, f"linking {self.name}", sees=objects if self.foreign else None, output=output)
            return
        path = output.with_suffix(".ld")
        sees = [*objects, path] if self.foreign else None
        for last, text in enumerate(self.scripts, start=1 - len(self.scripts)):
            path.write_text(text, encoding="utf-8")
            try:
                _run([*command, "-T", path], f"linking {self.name}", sees=sees, output=output)
                return
            except BuildError as error:
                if last == 0 or not OVERFLOW.search(str(error)):
                    raise

    def _object(self, source: Path) -> Path:
        compiler = self.compiler
        if source.suffix in CPP_SUFFIXES and compiler.path == find(Tool.CC):
            compiler = CompilerCommand(require(Tool.CXX), compiler.flags)
        return compile_object(source, self.include_dirs, self.flags, compiler, foreign=self.foreign)


def _host_build(
    sources: Sequence[Path],
    include_dirs: Sequence[Path],
    flags: Sequence[str],
    link_flags: Sequence[str],
    name: str,
    suffix: str,
) -> Path:
    compiler = host_compiler()
    is_cpp = any(source.suffix in CPP_SUFFIXES for source in sources)
    linker = CompilerCommand(require(Tool.CXX)) if is_cpp else compiler
    # Sanitizers and coverage have run-time libraries, so the linker needs their flags too.
    runtime = [flag for flag in flags if flag.startswith(("-fsanitize", "--coverage"))]
    return _Build(sources, include_dirs, flags, compiler, linker, [*runtime, *link_flags], name, suffix).run()


def compile_shared(
    sources: Sequence[Path],
    include_dirs: Sequence[Path],
    flags: Sequence[str],
    name: str,
    link_flags: Sequence[str] = (),
) -> Path:
    """Builds a shared library for this machine, to load with ctypes. `include_dirs` are hashed whole: name big
    directories that don't change with `-isystem` among the flags instead."""
    return _host_build(sources, include_dirs, [*flags, "-fPIC"], ["-shared", *link_flags], name, ".so")


def build_executable(
    sources: Sequence[Path],
    include_dirs: Sequence[Path],
    flags: Sequence[str],
    name: str,
    link_flags: Sequence[str] = (),
) -> Path:
    """Builds a program for this machine."""
    return _host_build(sources, include_dirs, flags, link_flags, name, "")


def build_wasm(
    sources: Sequence[Path], include_dirs: Sequence[Path], flags: Sequence[str], name: str, exports: Sequence[str] = ()
) -> Path:
    """Builds a WebAssembly module that exports its memory, these functions, and those marked as exported in C.

    Its stack comes first in memory, so that an overflow traps instead of overwriting data.
    """
    linker = CompilerCommand(require(Tool.WASM_LD))
    kept = [f"--export={function}" for function in exports]
    link_flags = ["--no-entry", "--gc-sections", "-s", "--stack-first", "-z", f"stack-size={WASM_STACK_BYTES}", *kept]
    library = DEVICE / "wasm"
    built = _Build(
        sources=[*sources, library / "memory.c"],
        include_dirs=[*include_dirs, library],
        flags=flags,
        compiler=wasm_clang(),
        linker=linker,
        link_flags=link_flags,
        name=name,
        suffix=".wasm",
    )
    return built.run()


def build_elf(
    sources: Sequence[Path],
    include_dirs: Sequence[Path],
    flags: Sequence[str],
    linker_script: str | Sequence[str],
    name: str,
    *,
    compiler: CompilerCommand | None = None,
    machine_flags: Sequence[str] | None = None,
    foreign: bool = False,
) -> Path:
    """Builds a firmware image. `linker_script` is a text, or several: the first one whose memories everything fits into
    is used. `foreign` sources are compiled where they can read no files of this machine but each other.

    Linking is always done by arm-none-eabi-gcc, which picks the C library for the core: `machine_flags` are the core's
    flags in its notation, by default the -m flags among `flags`.
    """
    gcc = arm_gcc()
    machine = [flag for flag in flags if flag.startswith("-m")] if machine_flags is None else list(machine_flags)
    link_flags = [*machine, "-nostartfiles", "-Wl,--gc-sections,--nmagic,--no-warn-rwx-segments"]
    scripts = [linker_script] if isinstance(linker_script, str) else linker_script
    return _Build(sources, include_dirs, flags, compiler or gcc, gcc, link_flags, name, ".elf", scripts, foreign).run()
