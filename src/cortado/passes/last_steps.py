"""last-steps: a recurrent layer of which only what comes last is read gives only that."""

from typing import Any, ClassVar

from torch.fx import GraphModule, Node

from cortado.ir.facts import TWIN
from cortado.ir.graph import fake_mode_of, shape, sole_user
from cortado.ir.op import operator_of
from cortado.ops import _recurrent as recurrent
from cortado.ops.gru import GRU
from cortado.ops.lstm import LSTM
from cortado.ops.reshape import VIEW
from cortado.ops.rnn import RNN
from cortado.ops.slice import SLICE
from cortado.passes.base import ContextPass
from cortado.passes.lower import add_operator_call, add_view
from cortado.passes.verify import Level

LAYERS = (GRU, LSTM, RNN)


class LastSteps(ContextPass):
    """The states before it lie in scratch, in two rows that take turns, and not in a tensor of all steps."""

    name: ClassVar[str] = "last-steps"
    level_before: ClassVar[Level] = Level.LOWERED
    level_after: ClassVar[Level] = Level.LOWERED

    def run(self, module: GraphModule) -> bool:
        found = [(node, _last_read(node)) for node in module.graph.nodes if operator_of(node.target) in LAYERS]
        reads = [(node, read) for node, read in found if read is not None]
        mode = fake_mode_of(module.graph)
        assert mode is not None
        for node, read in reads:
            operator = operator_of(node.target)
            assert operator is not None
            with module.graph.inserting_before(read):
                layer = add_operator_call(node, mode, operator, {**node.kwargs, "last": True})
                TWIN.take(layer, read)
                read.replace_all_uses_with(add_view(read, mode, layer, shape(read)))
        module.graph.eliminate_dead_code()
        return bool(reads)


def _last_read(layer: Node) -> Node | None:
    """The slice that is all that reads a layer, if it is of the step that comes last."""
    batch, steps = shape(layer)[:2]
    user, dim = sole_user(layer), 1
    if user is not None and batch == 1 and operator_of(user.target) is VIEW:
        sizes = shape(user)
        dim = next((axis for axis, size in enumerate(sizes) if size > 1), 0)
        user = sole_user(user) if sizes[dim] == steps else None
    if user is None or operator_of(user.target) is not SLICE or layer.kwargs["last"]:
        return None
    arguments: Any = user.kwargs
    taken = slice(arguments["start"], arguments["end"])
    return user if arguments["dim"] == dim and taken == recurrent.final(layer.kwargs, steps) else None
