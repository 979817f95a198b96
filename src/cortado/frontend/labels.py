"""Names of a classifier's classes: they must fit an output, or nothing would ever be called by them."""

from collections.abc import Sequence

from torch import Tensor
from torch.fx import GraphModule

from cortado.base.errors import CortadoError
from cortado.ir.facts import VALUE


def checked_labels(labels: Sequence[str] | None, module: GraphModule) -> tuple[str, ...] | None:
    """As many names as an output of the captured model has classes, along some dimension."""
    if labels is None:
        return None
    if isinstance(labels, str) or not all(isinstance(name, str) for name in labels):
        raise CortadoError(f"labels={labels!r}: expected a sequence of names, as in labels=('cat', 'dog')")
    shapes = _output_shapes(module)
    if not any(len(labels) in shape for shape in shapes):
        found = ", ".join(str(shape) for shape in shapes)
        raise CortadoError(
            f"found {len(labels)} labels ({', '.join(labels[:3])}{', ...' if len(labels) > 3 else ''}), and outputs of "
            f"shape {found}; expected as many names as there are classes"
        )
    return tuple(labels)


def _output_shapes(module: GraphModule) -> list[list[int]]:
    values = [VALUE.of(node) for node in module.graph.output_node().all_input_nodes]
    return [list(value.shape) for value in values if isinstance(value, Tensor)]
