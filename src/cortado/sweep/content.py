"""Content hash of a candidate: the model's objects and the code they can reach, inputs, options."""

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
# By which a file imports what no import statement of it names.
DYNAMIC = frozenset({"import_module", "__import__", "exec", "run_path", "run_module", "spec_from_file_location"})


def content_key(task: Task, source: Source) -> str:
    """Returns the key of everything that the figures depend on; nothing where objects are too deep in each other to
    tell."""
    named = _named_file(task) if task.candidates is None else None
    return _key(source, (), named, [task.place.chip, task.place.target, sorted(task.options.items()), task.figures])


def score_key(task: ScoreTask, source: Source, function: Callable[..., Any]) -> str:
    """Returns the key of everything that a candidate's score depends on, but for files that the user's function
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
    """The file of file.py or file.py:function."""
    path = Path(task.folder, task.model.rpartition(":")[0] or task.model)
    return path.resolve() if path.is_file() else None


@functools.cache
def _as_loaded(path: Path) -> bytes:
    """A module is loaded once in a process: what becomes of its file later is none of its code. (The file that a task
    names is run anew for each.)"""
    return path.read_bytes()


@functools.cache
def _package() -> str:
    """Cortado itself."""
    digest = hashlib.sha256()
    for path in sorted(PACKAGE.rglob("*")):
        if path.suffix in (".py", ".json", ".c", ".S", ".h"):
            digest.update(path.read_bytes())
    return digest.hexdigest()


# ---- objects -------------------------------------------------------------------------------------------------------


class _Seen:
    """Objects, whatever they are made of, in a digest; and the files that their code stands in."""

    def __init__(self) -> None:
        self.digest = hashlib.sha256()
        self.files: set[Path] = set()
        self._numbers: dict[int, int] = {}  # of what was met, by id: cycles end there
        self._kept: list[Any] = []  # an id is another object's when the first is gone

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
        except (RuntimeError, TypeError, NotImplementedError):  # without values: what it is makes Cortado refuse it
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
        """Functions and classes are what their file says, and the values that they hold."""
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
            if not _is_installed(base.__module__):  # what was put into it from elsewhere, as another forward
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
                self.note(name)  # hooks lie under numbers that count up
                self.add(list(item.values()) if "hooks" in name and isinstance(item, Mapping) else item)
        else:
            self.note(str(getattr(value, "__qualname__", getattr(value, "__name__", ""))))  # of something built in
            self.add(dict(sorted(getattr(value, "__dict__", {}).items())))
            slots = [name for base in type(value).__mro__ for name in getattr(base, "__slots__", ())]
            self.add([getattr(value, name, None) for name in slots if not name.startswith("__")])

    def _file(self, module: str) -> None:
        path = _path_of(module)
        if path is not None and not module.startswith("torch."):
            self.files.add(path)


def _closure(function: FunctionType) -> list[Any]:
    """The values that a function has from around it; none where one is not there yet."""
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
    """The files, and of the user's all that they import, wherever in them, and so on. A file that imports by other
    means than a statement may reach every file of the user's that is loaded."""
    found: set[Path] = set()
    waiting = list(files)
    loaded = functools.cache(_loaded)  # each is looked for once in a call, and anew in the next
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
    """The modules that a file imports, with the packages that are run on the way; whether it imports by other means."""
    statements, dynamic = _statements(path.read_bytes())
    names: set[str] = set()
    for node in statements:
        names |= set(_names_from(node, path)) if isinstance(node, ast.ImportFrom) else {one.name for one in node.names}
    parts = [name.split(".") for name in names]
    return sorted({".".join(part[:length]) for part in parts for length in range(1, len(part) + 1)}), dynamic


@functools.lru_cache(maxsize=1024)
def _statements(text: bytes) -> tuple[list[ast.Import | ast.ImportFrom], bool]:
    """The import statements of a file, and whether it imports by other means. Kept: most files are those of every
    candidate."""
    try:
        nodes = list(ast.walk(ast.parse(text)))
    except (SyntaxError, ValueError):
        return [], False
    dynamic = any(isinstance(node, ast.Name | ast.Attribute) and _last(node) in DYNAMIC for node in nodes)
    return [node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)], dynamic


def _last(node: ast.Name | ast.Attribute) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr


def _names_from(node: ast.ImportFrom, path: Path) -> Iterator[str]:
    """from a.b import c: c may be a module too. With dots, from the package of the file."""
    package = _package_of(path)
    base = package[: len(package) - (node.level - 1)] if node.level else []
    start = ".".join([*base, *([node.module] if node.module else [])])
    if start:
        yield start
    for alias in node.names:
        yield f"{start}.{alias.name}" if start else alias.name


def _package_of(path: Path) -> list[str]:
    """The package that a file belongs to, by its folders."""
    parts: list[str] = []
    folder = path.parent
    while (folder / "__init__.py").is_file():
        parts.insert(0, folder.name)
        folder = folder.parent
    return parts


def _users(name: str, folder: Path) -> list[Path]:
    """The file of a module, if it is the user's; one that is not loaded yet is looked for as Python would."""
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
    """Every file of the user's that is loaded."""
    paths = [_path_of(name) for name in list(sys.modules)]
    return [path for path in paths if path is not None and not _is_installed_file(path)]


def _is_installed(module: str) -> bool:
    path = _path_of(module)
    return path is None or _is_installed_file(path)


@functools.lru_cache(maxsize=16384)
def _is_installed_file(path: Path) -> bool:
    """Tells whether a file is Python's, an installed package's, or Cortado's."""
    return any(path.is_relative_to(place) for place in _INSTALLED)
