"""Analyses of a graph: facts about nodes that follow, by transfer functions, from the facts about what they read.

What a call means for a fact stands with its operator: rules of domains, rows of `ops/meaning.py`, patterns. An
analysis has the transfer function that asks them; here are the order in which nodes are visited, the place where facts
are kept, and the check that rewrites leave them true.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Generic, TypeVar

from torch.fx import Graph, Node

from cortado.ir.facts import FactKey
from cortado.ir.graph import describe

F = TypeVar("F")


class Analysis(ABC, Generic[F]):
    """Facts of one kind, each inferred once, operands first, and kept under `key`."""

    key: FactKey[F]

    @abstractmethod
    def transfer(self, node: Node) -> F:
        """The fact about a node, from those about the nodes that it reads."""

    def contradicts(self, kept: F, found: F) -> bool:
        """Whether no value can have both facts."""
        return False

    def of(self, node: Node) -> F:
        """The fact about a node."""
        if not self.key.noted(node):
            self.key.note(node, self.transfer(node))
        return self.key.must(node)

    def infer(self, graph: Graph) -> None:
        """Facts about all nodes, in the order of the graph."""
        for node in graph.nodes:
            self.of(node)

    def forget(self, nodes: Iterable[Node]) -> None:
        for node in nodes:
            self.key.forget(node)

    def broken(self, graph: Graph) -> Iterator[str]:
        """The calls whose fact contradicts what follows from what they read now."""
        for node in graph.nodes:
            if node.op == "call_function" and self.key.noted(node):
                kept, found = self.key.must(node), self.transfer(node)
                if self.contradicts(kept, found):
                    yield f"{describe(node)}: {kept}, and {found} by what it reads"


def rewrite_each(nodes: Iterable[Node], rule: Callable[[Node], Node | None]) -> None:
    """Puts what a rule gives in the place of each call, in the order of the graph; None leaves a call alone."""
    for node in [node for node in nodes if node.op == "call_function"]:
        with node.graph.inserting_before(node):
            new = rule(node)
        if new is not None:
            node.replace_all_uses_with(new)
            node.graph.erase_node(node)
