"""Analyses of a graph: facts about nodes, inferred by transfer functions from the facts about their operands.

The meaning of a call for a fact is part of its operator (domain rules, rows of `ops/meaning.py`, patterns); the
transfer function of an analysis looks it up there. This module has the order in which nodes are visited, the storage of
the facts, and the check that rewrites keep them true.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Generic, TypeVar

from torch.fx import Graph, Node

from cortado.ir.facts import FactKey
from cortado.ir.graph import describe

F = TypeVar("F")


class Analysis(ABC, Generic[F]):
    """Facts of one kind, each inferred once, operands first, and stored under `key`."""

    key: FactKey[F]

    @abstractmethod
    def transfer(self, node: Node) -> F:
        """Computes the fact about a node from those about its operands."""

    def contradicts(self, kept: F, found: F) -> bool:
        """Whether the two facts exclude each other: no value can have both."""
        return False

    def of(self, node: Node) -> F:
        """Returns the fact about a node, inferred on first use."""
        if not self.key.noted(node):
            self.key.note(node, self.transfer(node))
        return self.key.must(node)

    def infer(self, graph: Graph) -> None:
        """Infers the facts about all nodes, in the order of the graph."""
        for node in graph.nodes:
            self.of(node)

    def forget(self, nodes: Iterable[Node]) -> None:
        for node in nodes:
            self.key.forget(node)

    def broken(self, graph: Graph) -> Iterator[str]:
        """Describes the calls whose stored fact contradicts the one inferred from their present operands."""
        for node in graph.nodes:
            if node.op == "call_function" and self.key.noted(node):
                kept, found = self.key.must(node), self.transfer(node)
                if self.contradicts(kept, found):
                    yield f"{describe(node)}: {kept}, and {found} by what it reads"


def rewrite_each(nodes: Iterable[Node], rule: Callable[[Node], Node | None]) -> None:
    """Replaces each call, in the order of the graph, by the node that a rule returns; None leaves it alone."""
    for node in [node for node in nodes if node.op == "call_function"]:
        with node.graph.inserting_before(node):
            new = rule(node)
        if new is not None:
            node.replace_all_uses_with(new)
            node.graph.erase_node(node)
