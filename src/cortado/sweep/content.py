"""Content hash of a candidate: the model's objects and the code they can reach, inputs, and options."""

import ast
import functools
import hashlib
import importlib.util
import json
import os
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
import torch
from torch._ops import OpOverload, OpOverloadPacket
from torch.fx import GraphModule

from cortado import __version__
from cortado.base.system import PACKAGE
from cortado.models.sources import Source
from cortado.sweep.rows import ScoreTask, Task

PLAIN = (int, float, complex, str, bytes, type(None), type(Ellipsis), range, slice, torch.dtype, torch.device)
# The names by which a file imports modules without an import statement.
DYNAMIC = frozenset({"import_module", "__import__", "exec", "run_path", "run_module", "spec_from_file_location"})


def content_key(task: Task, source: Source) -> str:
    """Returns the cache key, which covers everything that the figures depend on; empty if objects are nested too
    deeply."""
    named = _named_file(task) if task.candidates is None else None
    return _key(source, (), named, [task.place.chip, task.place.target, sorted(task.options.items()), task.figures])


def score_key(task: ScoreTask, source: Source, function: Callable[..., Any]) -> str:
    """Returns the cache key of a candidate's score, which covers everything but the files that the user's function
    reads."""
    return _key(source, (function,), None, ["score", task.score.rpartition(":")[2]])


def _key(source: Source, code: Sequence[Any], named: Path | None, asked: Sequence[Any]) -> str:
    seen = _Seen()
    try:
        seen.add(source.model)
    except RecursionError:
        return ""
    seen.add((tuple(source.example_inputs), *code))
    for path in sorted(reached(seen.files if named is None else {*seen.files, named})):
        seen.note(path.name, path.read_bytes() if path == named else _as_loaded(path))
    seen.note(json.dumps([__version__, torch.__version__, _package(), *asked]))
    return seen.digest.hexdigest()


def _named_file(task: Task) -> Path | None:
    """Returns the file in file.py or file.py:function."""
    path = Path(task.folder, task.model.rpartition(":")[0] or task.model)
    return path.resolve() if path.is_file() else None


@functools.cache
def _as_loaded(path: Path) -> bytes:
    """Returns a module's source as loaded: later changes to its file do not affect the process. (The file that a task
    names is run anew for each task.)"""
    return path.read_bytes()


@functools.cache
def _package() -> str:
    """Returns a hash of Cortado itself."""
    digest = hashlib.sha256()
    for path in sorted(PACKAGE.rglob("*")):
        if path.suffix in (".py", ".json", ".c", ".S", ".h"):
            digest.update(path.read_bytes())
    return digest.hexdigest()


# ---- objects -------------------------------------------------------------------------------------------------------


class _Seen:
    """A digest of arbitrary objects, which also collects the files that contain their code."""

    def __init__(self) -> None:
        self.digest = hashlib.sha256()
        self.files: set[Path] = set()
        self._numbers: dict[int, int] = {}  # of the objects visited, by id: they end cycles
        self._kept: list[Any] = []  # keeps objects alive, since ids are reused

    def note(self, *parts: str | bytes) -> None:
        for part in parts:
            data = part.encode() if isinstance(part, str) else part
            self.digest.update(len(data).to_bytes(8, "little"))
            self.digest.update(data)

    def add(self, value: Any) -> None:
        if isinstance(value, PLAIN):
            self.note(type(value).__name__, repr(value))
            return
        if id(value) in self._numbers:
            self.note("again", str(self._numbers[id(value)]))
            return
        self._numbers[id(value)] = len(self._numbers)
        self._kept.append(value)
        if isinstance(value, torch.Tensor | np.ndarray | np.generic):
            self._tensor(value)
        elif isinstance(value, Mapping | Sequence | set | frozenset):
            self._collection(value)
        elif isinstance(value, type | FunctionType | functools.partial) or hasattr(value, "__func__"):
            self._code(value)
        else:
            self._object(value)

    def _tensor(self, value: Any) -> None:
        self.note(type(value).__name__, str(value.dtype), str(tuple(value.shape)))
        try:
            if isinstance(value, torch.Tensor):
                value = value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
            self.note(value.tobytes())
        except (RuntimeError, TypeError, NotImplementedError):  # without values: Cortado will refuse it
            self.note("no values")

    def _collection(self, value: Any) -> None:
        self.note(type(value).__qualname__, str(len(value)))
        if isinstance(value, Mapping):
            for key, item in value.items():
                self.add(key)
                self.add(item)
        elif isinstance(value, set | frozenset):
            self.note(*sorted(repr(item) if isinstance(item, PLAIN) else str(type(item)) for item in value))
        else:
            for item in value:
                self.add(item)

    def _code(self, value: Any) -> None:
        """Adds functions and classes by their file and the values that they hold."""
        if isinstance(value, functools.partial):
            self.add((value.func, value.args, value.keywords))
            return
        if hasattr(value, "__func__"):
            self.add((value.__func__, value.__self__))
            return
        self.note(f"{value.__module__}.{value.__qualname__}")
        self._file(value.__module__)
        if isinstance(value, FunctionType):
            self.note(value.__code__.co_code, str(value.__code__.co_names))
            self.add((value.__defaults__, value.__kwdefaults__, _closure(value)))
            return
        for base in value.__mro__:
            self._file(base.__module__)
            if not _is_installed(base.__module__):  # methods assigned from elsewhere, as a replaced forward
                functions = {name: one for name, one in vars(base).items() if isinstance(one, FunctionType)}
                self.add({name: functions[name] for name in sorted(functions)})

    def _object(self, value: Any) -> None:
        self.add(type(value))
        if isinstance(value, OpOverload | OpOverloadPacket):
            self.note(str(value))
        elif isinstance(value, GraphModule):
            self.note(value.code)
            self.add([*value.named_parameters(), *value.named_buffers(), *value.named_children()])
        elif isinstance(value, Enum):
            self.note(value.name)
        elif isinstance(value, ModuleType):
            self.note(value.__name__)
            self._file(value.__name__)
        elif isinstance(value, torch.nn.Module):
            for name, item in sorted(vars(value).items()):
                self.note(name)  # hooks have increasing numbers as keys
                self.add(list(item.values()) if "hooks" in name and isinstance(item, Mapping) else item)
        else:
            self.note(str(getattr(value, "__qualname__", getattr(value, "__name__", ""))))  # for built-in objects
            self.add(dict(sorted(getattr(value, "__dict__", {}).items())))
            slots = [name for base in type(value).__mro__ for name in getattr(base, "__slots__", ())]
            self.add([getattr(value, name, None) for name in slots if not name.startswith("__")])

    def _file(self, module: str) -> None:
        path = _path_of(module)
        if path is not None and not module.startswith("torch."):
            self.files.add(path)


def _closure(function: FunctionType) -> list[Any]:
    """Returns the values in a function's closure; None for one that is not set yet."""
    found = []
    for cell in function.__closure__ or ():
        try:
            found.append(cell.cell_contents)
        except ValueError:
            found.append(None)
    return found


# ---- files ---------------------------------------------------------------------------------------------------------

_INSTALLED = tuple(
    {Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib", "purelib", "platlib")}
) + (PACKAGE.resolve(),)


def reached(files: Iterable[Path]) -> set[Path]:
    """Returns the files and, transitively, all user files that they import anywhere. A file with dynamic imports may
    reach every user file that is loaded."""
    found: set[Path] = set()
    waiting = list(files)
    loaded = functools.cache(_loaded)  # computed once per call
    users = functools.cache(_users)
    while waiting:
        path = waiting.pop()
        if path in found:
            continue
        found.add(path)
        if path.suffix == ".py" and not _is_installed_file(path):
            names, dynamic = _imports(path)
            waiting += [one for name in names for one in users(name, path.parent)] + (loaded() if dynamic else [])
    return found


def _imports(path: Path) -> tuple[list[str], bool]:
    """Returns the modules that a file imports, including their parent packages, and whether it has dynamic imports."""
    statements, dynamic = _statements(path.read_bytes())
    names: set[str] = set()
    for node in statements:
        names |= set(_names_from(node, path)) if isinstance(node, ast.ImportFrom) else {one.name for one in node.names}
    parts = [name.split(".") for name in names]
    return sorted({".".join(part[:length]) for part in parts for length in range(1, len(part) + 1)}), dynamic


@functools.lru_cache(maxsize=1024)
def _statements(text: bytes) -> tuple[list[ast.Import | ast.ImportFrom], bool]:
    """Returns the import statements of a file, and whether it has dynamic imports. Cached, since candidates share most
    files."""
    try:
        nodes = list(ast.walk(ast.parse(text)))
    except (SyntaxError, ValueError):
        return [], False
    dynamic = any(isinstance(node, ast.Name | ast.Attribute) and _last(node) in DYNAMIC for node in nodes)
    return [node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)], dynamic


def _last(node: ast.Name | ast.Attribute) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr


def _names_from(node: ast.ImportFrom, path: Path) -> Iterator[str]:
    """Yields the modules that a from-import may load: in `from a.b import c`, c can be a module too. Relative ones
    start at the file's package."""
    package = _package_of(path)
    base = package[: len(package) - (node.level - 1)] if node.level else []
    start = ".".join([*base, *([node.module] if node.module else [])])
    if start:
        yield start
    for alias in node.names:
        yield f"{start}.{alias.name}" if start else alias.name


def _package_of(path: Path) -> list[str]:
    """Returns the package of a file, derived from its folders."""
    parts: list[str] = []
    folder = path.parent
    while (folder / "__init__.py").is_file():
        parts.insert(0, folder.name)
        folder = folder.parent
    return parts


def _users(name: str, folder: Path) -> list[Path]:
    """Returns the file of a module if it is the user's; one that is not loaded yet is searched for as Python would."""
    path = _path_of(name)
    if path is None and name not in sys.modules:
        outer = folder
        while (outer / "__init__.py").is_file():
            outer = outer.parent
        path = next((one for place in (folder, outer) if (one := _beside(name, place)) is not None), None)
    return [path] if path is not None and not _is_installed_file(path) else []


def _beside(name: str, folder: Path) -> Path | None:
    base = folder.joinpath(*name.split("."))
    found = [path for path in (base.with_suffix(".py"), base / "__init__.py") if path.is_file()]
    return found[0].resolve() if found else _specified(name)


def _specified(name: str) -> Path | None:
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError, AttributeError):
        return None
    return Path(spec.origin).resolve() if spec is not None and spec.has_location and spec.origin else None


def _path_of(module: str) -> Path | None:
    path = getattr(sys.modules.get(module), "__file__", None)
    return None if path is None or not os.path.isfile(path) else _resolved(path)


@functools.lru_cache(maxsize=16384)
def _resolved(path: str) -> Path:
    return Path(path).resolve()


def _loaded() -> list[Path]:
    """Returns all user files that are loaded."""
    paths = [_path_of(name) for name in list(sys.modules)]
    return [path for path in paths if path is not None and not _is_installed_file(path)]


def _is_installed(module: str) -> bool:
    path = _path_of(module)
    return path is None or _is_installed_file(path)


@functools.lru_cache(maxsize=16384)
def _is_installed_file(path: Path) -> bool:
    """Returns whether a file belongs to Python, an installed package, or Cortado."""
    return any(path.is_relative_to(place) for place in _INSTALLED)
