"""JSON data with one value changed or gone: what damage, or somebody else, makes of a file."""

import random
from collections.abc import Iterator
from typing import Any

VALUES: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    3,
    10**30,
    0.5,
    float("nan"),
    float("inf"),
    "",
    "x",
    [],
    [[]],
    {},
    {"a": 1},
)


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to every value inside, lists and records too."""
    if path:
        yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from leaves(item, (*path, key))


def mutate(data: Any, choice: random.Random) -> str:
    """Changes or removes one value; says which."""
    path = choice.choice(list(leaves(data)))
    place = data
    for key in path[:-1]:
        place = place[key]
    if choice.random() < 0.15:
        del place[path[-1]]
        return f"{path} removed"
    place[path[-1]] = choice.choice(VALUES)
    return f"{path} = {place[path[-1]]!r}"
