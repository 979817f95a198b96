"""A JSON Schema and data: the keywords that cortado.base.codec writes, and no others."""

import re
from collections.abc import Callable
from typing import Any

TYPES: dict[str, Callable[[Any], bool]] = {
    "null": lambda data: data is None,
    "boolean": lambda data: isinstance(data, bool),
    "integer": lambda data: isinstance(data, int) and not isinstance(data, bool),
    "number": lambda data: isinstance(data, int | float) and not isinstance(data, bool) and abs(data) < 1e300,
    "string": lambda data: isinstance(data, str),
    "array": lambda data: isinstance(data, list),
    "object": lambda data: isinstance(data, dict),
}
KEYWORDS: dict[str, Callable[[Any, Any], bool]] = {
    "type": lambda wanted, data: TYPES[wanted](data),
    "enum": lambda wanted, data: data in wanted,
    "minimum": lambda wanted, data: not TYPES["number"](data) or data >= wanted,
    "maximum": lambda wanted, data: not TYPES["number"](data) or data <= wanted,
    "exclusiveMinimum": lambda wanted, data: not TYPES["number"](data) or data > wanted,
    "pattern": lambda wanted, data: not isinstance(data, str) or re.search(wanted[:-1] + r"\Z", data) is not None,
    "required": lambda wanted, data: not isinstance(data, dict) or set(wanted) <= set(data),
}
NO_RULES = {"$schema", "$defs", "title", "description", "default"}


def fits(whole: dict[str, Any], data: Any, rules: dict[str, Any] | None = None) -> bool:
    """Whether data are what a JSON Schema says, of the keywords that ours has."""
    rules = whole if rules is None else rules
    inside: dict[str, Callable[[Any], bool]] = {
        "$ref": lambda ref: fits(whole, data, whole["$defs"][ref.removeprefix("#/$defs/")]),
        "anyOf": lambda some: any(fits(whole, data, one) for one in some),
        "items": lambda one: not isinstance(data, list) or all(fits(whole, item, one) for item in data),
        "properties": lambda keys: (
            not isinstance(data, dict) or all(fits(whole, data[name], keys[name]) for name in keys if name in data)
        ),
        "additionalProperties": lambda one: (
            not isinstance(data, dict) or all(fits(whole, item, one) for item in data.values())
        ),
        "propertyNames": lambda one: not isinstance(data, dict) or all(fits(whole, name, one) for name in data),
    }
    return all(
        inside[word](rule) if word in inside else KEYWORDS[word](rule, data)
        for word, rule in rules.items()
        if word not in NO_RULES
    )
