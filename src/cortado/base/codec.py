"""Frozen dataclasses as JSON and back, by their type hints, and the JSON Schema of what is read.

A class says everything about its file once: its keys and their types, the limits of their values (`Annotated` with
`Within` or `Matching`) and what each means (`key`). Data can come from untrusted files: what doesn't fit is a
`CortadoError` that names the place, what was found there and what was expected. Keys that a class doesn't know are
ignored.
"""

import json
import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, replace
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, TypeVar, Union, dataclass_transform, get_args, get_origin, get_type_hints

from cortado.base.errors import CortadoError

T = TypeVar("T")
DRAFT = "https://json-schema.org/draft/2020-12/schema"
_LONGEST_FOUND = 60  # characters of a value that a message shows


# ---- the declaration of a file's class ----------------------------------------------------------------------------


def key(meaning: str, *, default: Any = MISSING, seldom: bool = False) -> Any:
    """Declares a key of the file, with its meaning in one line; `default` is for files written before the key existed,
    and `seldom` omits the key from files if it has that value."""
    return field(default=default, metadata={"meaning": meaning, "seldom": seldom})


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(key,))
def json_class(cls: type[T]) -> type[T]:
    """Makes a class a frozen dataclass whose fields are `key`s: the keys of a JSON object."""
    return dataclass(frozen=True, kw_only=True)(cls)


def filled(cls: type[T], source: Any, **others: Any) -> T:
    """Builds an object with the attributes of `source` of the same names, and `others`."""
    known = {one.name for one in fields(cls)} - set(others)  # type: ignore[arg-type]
    return cls(**{name: getattr(source, name) for name in known if hasattr(source, name)}, **others)


@dataclass(frozen=True)
class Within:
    """The least and the largest value of a number; with `above`, the least itself is excluded."""

    words: str
    low: int
    high: int | None = None
    above: bool = False

    def hold(self, value: float) -> bool:
        enough = value > self.low if self.above else value >= self.low
        return enough and (self.high is None or value <= self.high)

    def schema(self) -> dict[str, Any]:
        least = {"exclusiveMinimum" if self.above else "minimum": self.low}
        return least if self.high is None else {**least, "maximum": self.high}


@dataclass(frozen=True)
class Matching:
    """The pattern that a text must match as a whole."""

    words: str
    pattern: str

    def hold(self, value: str) -> bool:
        return re.fullmatch(self.pattern, value) is not None

    def schema(self) -> dict[str, Any]:
        return {"pattern": f"^(?:{self.pattern})$"}


# ---- conversions -------------------------------------------------------------------------------------------------


def to_json(value: Any) -> Any:
    """Converts a value for json.dumps; keys are in the order of the fields."""
    if isinstance(value, Enum):
        return value.value
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if is_dataclass(value):
        return {item.name: to_json(getattr(value, item.name)) for item in fields(value) if not _left_out(item, value)}
    if isinstance(value, Mapping):
        return {to_json(name): to_json(item) for name, item in value.items()}
    if isinstance(value, tuple):
        return [to_json(item) for item in value]
    raise TypeError(f"no JSON for a {type(value).__name__}")


def _left_out(item: Any, value: Any) -> bool:
    return bool(item.metadata.get("seldom")) and getattr(value, item.name) == item.default


def from_json(cls: type[T], data: Any, where: str = "") -> T:
    """Converts the result of json.loads to a value of the class; raises CortadoError. `where` is the data's place in
    its file."""
    hint: Any = cls
    value: T = _kind(hint).read(data, where)
    return value


def schema(cls: type) -> dict[str, Any]:
    """Returns the JSON Schema of the data that `from_json` takes."""
    classes: dict[str, Any] = {}
    _kind(cls).schema(classes)
    return {"$schema": DRAFT, **classes.pop(cls.__name__), "$defs": classes}


# ---- kinds of values ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Kind(ABC):
    """The JSON form of a type hint; `words` complete the message after "expected"."""

    words: str

    def read(self, data: Any, where: str) -> Any:
        if not self.takes(data):
            raise CortadoError(f"{where or 'it'} is {_found(data)}, expected {self.words}")
        return self.make(data, where)

    @abstractmethod
    def takes(self, data: Any) -> bool:
        """Whether the data are of this kind, whatever they contain."""

    @abstractmethod
    def make(self, data: Any, where: str) -> Any:
        """Builds the value that such data represent."""

    @abstractmethod
    def schema(self, classes: dict[str, Any]) -> dict[str, Any]:
        """Returns the JSON Schema of this type, and adds those of the classes in it to `classes`."""


def _found(data: Any) -> str:
    if isinstance(data, dict | list):
        return "an object" if isinstance(data, dict) else "a list"
    text = json.dumps(data, ensure_ascii=False)
    return text if len(text) <= _LONGEST_FOUND else f"{text[:_LONGEST_FOUND]}..."


@dataclass(frozen=True)
class _Plain(_Kind):
    """A scalar, in JSON too."""

    holds: Callable[[Any], bool]
    facts: Mapping[str, Any]  # its JSON Schema
    convert: Callable[[Any], Any] = lambda data: data

    def takes(self, data: Any) -> bool:
        return self.holds(data)

    def make(self, data: Any, where: str) -> Any:
        return self.convert(data)

    def schema(self, classes: dict[str, Any]) -> dict[str, Any]:
        return dict(self.facts)

    def within(self, limit: Within | Matching) -> "_Plain":
        def holds(data: Any) -> bool:
            return self.holds(data) and limit.hold(data)

        return replace(self, words=limit.words, holds=holds, facts={**self.facts, **limit.schema()})


@dataclass(frozen=True)
class _Optional(_Kind):
    item: _Kind

    def takes(self, data: Any) -> bool:
        return data is None or self.item.takes(data)

    def make(self, data: Any, where: str) -> Any:
        return None if data is None else self.item.make(data, where)

    def schema(self, classes: dict[str, Any]) -> dict[str, Any]:
        return {"anyOf": [self.item.schema(classes), {"type": "null"}]}


@dataclass(frozen=True)
class _List(_Kind):
    item: _Kind

    def takes(self, data: Any) -> bool:
        return isinstance(data, list)

    def make(self, data: Any, where: str) -> tuple[Any, ...]:
        return tuple(self.item.read(item, f"{where}[{position}]") for position, item in enumerate(data))

    def schema(self, classes: dict[str, Any]) -> dict[str, Any]:
        return {"type": "array", "items": self.item.schema(classes)}


@dataclass(frozen=True)
class _Map(_Kind):
    """An object with any keys of one kind."""

    name: _Kind
    item: _Kind

    def takes(self, data: Any) -> bool:
        return isinstance(data, dict)

    def make(self, data: Any, where: str) -> dict[Any, Any]:
        names = {name: self.name.read(name, f"a key of {where}") for name in data}
        return {names[name]: self.item.read(item, f"{where}[{_found(name)}]") for name, item in data.items()}

    def schema(self, classes: dict[str, Any]) -> dict[str, Any]:
        items = {"type": "object", "additionalProperties": self.item.schema(classes)}
        return items if self.name is _TEXT else {**items, "propertyNames": self.name.schema(classes)}


@dataclass(frozen=True)
class _Key:
    """A field of a dataclass."""

    name: str
    kind: _Kind
    meaning: str
    default: Any  # MISSING if the key is required

    def schema(self, classes: dict[str, Any]) -> dict[str, Any]:
        facts = {"description": self.meaning, **self.kind.schema(classes)}
        return facts if self.default is MISSING else {**facts, "default": to_json(self.default)}


@dataclass(frozen=True)
class _Object(_Kind):
    """A dataclass."""

    cls: type
    keys: tuple[_Key, ...]

    def takes(self, data: Any) -> bool:
        return isinstance(data, dict)

    def make(self, data: Any, where: str) -> Any:
        values = {}
        for item in self.keys:
            place = f"{where}.{item.name}" if where else item.name
            if item.name in data:
                values[item.name] = item.kind.read(data[item.name], place)
            elif item.default is MISSING:
                raise CortadoError(f"{place} is missing, expected {item.kind.words}")
        return self.cls(**values)

    def schema(self, classes: dict[str, Any]) -> dict[str, Any]:
        name = self.cls.__name__
        if name not in classes:
            classes[name] = {"title": name, "description": self.cls.__doc__, "type": "object"}
            classes[name]["properties"] = {item.name: item.schema(classes) for item in self.keys}
            classes[name]["required"] = [item.name for item in self.keys if item.default is MISSING]
        return {"$ref": f"#/$defs/{name}"}


# ---- from type hints to kinds -------------------------------------------------------------------------------------


def _is_whole(data: Any) -> bool:
    return isinstance(data, int) and not isinstance(data, bool)


def _is_number(data: Any) -> bool:
    """Whether this is a number, but neither NaN nor infinite, nor an integer that no float can hold."""
    return (_is_whole(data) or isinstance(data, float)) and abs(data) <= sys.float_info.max


_TEXT = _Plain("a text", lambda data: isinstance(data, str), {"type": "string"})
_PLAIN: Mapping[Any, _Plain] = {
    str: _TEXT,
    bool: _Plain("true or false", lambda data: isinstance(data, bool), {"type": "boolean"}),
    int: _Plain("an integer", _is_whole, {"type": "integer"}),
    float: _Plain("a number", _is_number, {"type": "number"}, float),
}


@cache
def _kind(hint: Any) -> _Kind:
    if hint in _PLAIN:
        return _PLAIN[hint]
    if isinstance(hint, type) and is_dataclass(hint):
        return _Object(f"an object ({hint.__name__})", hint, _keys(hint))
    if isinstance(hint, type) and issubclass(hint, Enum):
        words = [member.value for member in hint]
        facts = {"type": "string", "enum": words}
        return _Plain(f"one of {', '.join(words)}", lambda data: isinstance(data, str) and data in words, facts, hint)
    return _kind_of_generic(hint)


def _kind_of_generic(hint: Any) -> _Kind:
    if not get_args(hint):
        raise TypeError(f"no JSON for {hint}")
    origin, (first, *others) = get_origin(hint), get_args(hint)
    kind = _kind(first)
    if origin is Annotated and isinstance(kind, _Plain):
        for limit in others:
            kind = kind.within(limit)
        return kind
    if origin in (Union, UnionType) and others == [NoneType]:
        return _Optional(f"{kind.words}, or null", kind)
    if origin is tuple and others == [...]:
        return _List(f"a list; each item is {kind.words}", kind)
    if origin is Mapping:
        item = _kind(others[0])
        return _Map(f"an object; each value is {item.words}", kind, item)
    raise TypeError(f"no JSON for {hint}")


def _keys(cls: Any) -> tuple[_Key, ...]:
    hints = get_type_hints(cls, include_extras=True)
    return tuple(
        _Key(item.name, _kind(hints[item.name]), item.metadata["meaning"], item.default) for item in fields(cls)
    )
