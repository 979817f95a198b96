"""Islands of float32: calls that no integer operator takes, between a dequantize and a quantize (--allow-float)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from torch.fx import Graph, Node

from cortado.base.errors import NotInteger, Refused, Reject
from cortado.frontend.capture.export import Captured
from cortado.frontend.precision.elements import note_calls
from cortado.frontend.rewrite.decompose import has_float32
from cortado.ir.facts import ORIGIN
from cortado.ir.graph import copied, describe, module_path, source_line
from cortado.ir.matching import MATCH, not_taken
from cortado.options import Artifacts, Options

_Found = TypeVar("_Found")


@dataclass(frozen=True)
class Island:
    """A call of the model that is computed in float32, and why no integer operator takes it."""

    name: str  # of the call, in the captured graph
    operator: str
    module: str | None
    source: str | None
    reason: str


def with_islands(captured: Captured, attempt: Callable[[Captured], _Found]) -> tuple[_Found, tuple[Island, ...]]:
    """Runs `attempt` on a captured model, putting the calls that it refuses in float32 until it succeeds. Raises the
    first refusal if float32 does not help."""
    names = {node.name: node for node in captured.module.graph.nodes}
    for node in names.values():
        ORIGIN.note(node, node.name)
    found: dict[str, Island] = {}
    first: Refused | None = None
    while True:
        module = copied(captured.module)
        note_calls(module.graph, found)
        try:
            return attempt(replace(captured, module=module)), tuple(found.values())
        except Refused as error:
            first = first or error
            more = {name: island for name, island in _refused(error, names).items() if name not in found}
            if not more:
                raise first from None
            found |= more


def check_taken(graph: Graph) -> None:
    """Refuses a graph with unmatched calls before it is calibrated."""
    refused = {node: match.reason for node in graph.nodes if isinstance(match := MATCH.of(node), Reject)}
    if refused:
        raise not_taken(refused)


def _refused(error: Refused, names: dict[str, Node]) -> dict[str, Island]:
    """Returns the calls of the captured graph that a refusal is about."""
    reasons = error.reasons if isinstance(error, NotInteger) else [str(error)] * len(error.nodes)
    found: dict[str, Island] = {}
    for node, reason in zip(error.nodes, reasons, strict=True):
        origin = names.get(ORIGIN.of(node) or "")
        if origin is not None and origin.op == "call_function":
            text = reason.removeprefix(describe(node)).lstrip(": ")
            island = Island(origin.name, str(origin.target), module_path(origin), source_line(origin), text)
            found.setdefault(origin.name, island)
    return found


def islands_hint(nodes: Sequence[Node], options: Options) -> str:
    """Returns a hint at float32 in the C bundle, if it has operators for all these calls."""
    known = bool(nodes) and all(has_float32(node) for node in nodes)
    if not known or options.allow_float or not options.has_codes or options.artifacts is Artifacts.PTE:
        return ""
    return (
        "\n--allow-float (allow_float=True in Options) computes this in float32 in the C bundle, and in a .pte where "
        "ExecuTorch has a float kernel for it; --activations float32 all of the network"
    )
