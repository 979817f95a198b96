"""How a program went: which blocks of instructions followed which, how often, in which step."""

from dataclasses import dataclass

BEFORE = -1  # the step of what runs before the first


@dataclass(frozen=True)
class BasicBlock:
    """Instructions that run one after the other, as the emulator translates them."""

    address: int
    instructions: int


@dataclass(frozen=True)
class Edge:
    """`count` times block `after` ran right after block `before` (None: the very first), in this step."""

    step: int
    before: BasicBlock | None
    after: BasicBlock
    count: int


@dataclass(frozen=True)
class Flow:
    """The edges of one run between the markers."""

    edges: tuple[Edge, ...]
