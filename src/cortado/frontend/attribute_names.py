"""Names for what PT2E adds to a module.

PT2E looks for a free name by counting up from zero, for every observer, scale and zero point again: with many layers
that takes longer than all else that it does.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import torch

Name = Callable[[torch.nn.Module], str]
_FUNCTION = "get_new_attr_name_with_prefix"
_PLACES: tuple[Any, ...] = tuple(
    import_module(name) for name in ("torch.ao.quantization.fx.prepare", "torchao.quantization.pt2e.utils")
)


@contextmanager
def counted_on() -> Iterator[None]:
    """Inside, counting goes on where it ended the last time; the names are the same."""
    before = [getattr(place, _FUNCTION) for place in _PLACES]
    ended: dict[tuple[torch.nn.Module, str], int] = {}

    def named(prefix: str) -> Name:
        text = prefix.replace(".", "_")

        def name(module: torch.nn.Module) -> str:
            number = ended.get((module, text), 0)
            while hasattr(module, f"{text}{number}"):
                number += 1
            ended[module, text] = number
            return f"{text}{number}"

        return name

    for place in _PLACES:
        setattr(place, _FUNCTION, named)
    try:
        yield
    finally:
        for place, function in zip(_PLACES, before, strict=True):
            setattr(place, _FUNCTION, function)
