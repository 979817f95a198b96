"""Learning by gradients: forward, backward and the optimizer's step as one graph, with its parameters as state.

Everything that depends on the named parameters is the head, and the rest is a frozen backbone: the module is exported,
and its graph is cut between them. `make_fx` over `torch.func.grad_and_value` of the head gives gradients as plain ATen
calls, followed by the optimizer as plain torch code; the compiler sees an ordinary method. Parameters and momentum are
buffers that `learn` changes, so they are float32 state, and everything computed from them is float32 too.
"""

import copy
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import grad_and_value
from torch.fx import Graph, GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn import functional

from cortado.base.errors import CortadoError

Loss = Callable[[Tensor, Tensor], Tensor]  # from the module's output and a target to one number


class _CrossEntropy(torch.autograd.Function):
    """Cross entropy with the gradient for probabilities: their sum is 1, and is not computed."""

    @staticmethod
    def forward(scores: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        logs = functional.log_softmax(scores, -1)
        return -(logs * target).sum(-1).mean(), logs

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: tuple[Tensor, Tensor]) -> None:
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(output[1], inputs[1])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        logs, target = ctx.saved_tensors
        each = logs.numel() // logs.shape[-1]
        found = logs.exp() - target
        return (found if each == 1 else found / each) * gradients[0], None


def cross_entropy(scores: Tensor, target: Tensor) -> Tensor:
    """Cross entropy with probabilities as targets, one-hot or not, which sum to 1: the mean over the batch. Others are
    refused where they are seen; for these there is `weighted_cross_entropy`."""
    found: Tensor = _CrossEntropy.apply(scores, target)[0]
    return found


def weighted_cross_entropy(scores: Tensor, target: Tensor) -> Tensor:
    """Cross entropy with any numbers as targets, such as one-hot rows times the weight of an example."""
    return -(functional.log_softmax(scores, -1) * target).sum(-1).mean()


def squared_error(found: Tensor, target: Tensor) -> Tensor:
    """Returns the mean of squared differences."""
    difference = found - target
    return (difference * difference).mean()


@dataclass(frozen=True)
class SGD:
    """Stochastic gradient descent as torch.optim.SGD computes it, after clip_grad_norm_ if `clip` is given. Without
    `lr`, the learning rate is an input of `learn`, after the target."""

    lr: float | None = None
    momentum: float = 0.0
    weight_decay: float = 0.0
    clip: float | None = None

    def __post_init__(self) -> None:
        given = {"lr": self.lr, "momentum": self.momentum, "weight_decay": self.weight_decay, "clip": self.clip}
        for name, value in given.items():
            if value is not None and not (isinstance(value, int | float) and 0 <= value < float("inf")):
                raise CortadoError(f"SGD: {name} is {value!r}, expected a number that is not negative")

    def step(
        self, parameters: Sequence[Tensor], gradients: Sequence[Tensor], speeds: Sequence[Tensor], lr: Tensor | float
    ) -> tuple[list[Tensor], list[Tensor]]:
        """Returns new parameters and, with momentum, new momenta."""
        if self.clip is not None:
            squares = [(one * one).sum() for one in gradients]
            norm = torch.sqrt(sum(squares[1:], squares[0]))
            # clip / norm, at most 1
            scale = torch.full_like(norm, self.clip) / torch.clamp(norm + 1e-6, min=self.clip)
            gradients = [one * scale for one in gradients]
        if self.weight_decay:
            gradients = [one + self.weight_decay * old for one, old in zip(gradients, parameters, strict=True)]
        if self.momentum:
            gradients = [old * self.momentum + one for one, old in zip(gradients, speeds, strict=True)]
        moved = [old - lr * one for one, old in zip(gradients, parameters, strict=True)]
        return moved, list(gradients) if self.momentum else []


PLAIN = SGD(lr=0.01)
NEARLY = 1e-3  # of 1: more than the rounding error of a sum of probabilities


def _check_probabilities(target: Tensor) -> None:
    """Refuses targets for which cross_entropy's gradient would differ from torch's."""
    sums = target.sum(-1).flatten()
    wrong = sums[(sums - 1.0).abs() > NEARLY]
    if len(wrong):
        raise CortadoError(
            f"a target of cross_entropy sums to {float(wrong[0]):.4g}, expected probabilities, which sum to 1: divide "
            "it by its sum, or give loss=weighted_cross_entropy, which takes any numbers"
        )


class Trainable(nn.Module):
    """A network whose head learns on the device; made by `trainable`."""

    def __init__(self, cut: "_Cut", optimizer: SGD, loss: Loss, target: Tensor, replay: "Replay | None") -> None:
        super().__init__()
        self.backbone, self.head, self.optimizer = cut.backbone, cut.head, optimizer
        self.names = [_buffer_name(name) for name in cut.parameters]
        self.speeds = [f"{name}_momentum" for name in self.names] if optimizer.momentum else []
        for name, value in zip(self.names, cut.parameters.values(), strict=True):
            self.register_buffer(name, value.detach().clone())
        for name, value in zip(self.speeds, cut.parameters.values(), strict=False):
            self.register_buffer(name, torch.zeros_like(value))
        self.replay = replay
        self.examples, self.target, self.loss = cut.examples, target, loss
        with torch.no_grad():
            features = self.backbone(*cut.examples)
        if replay is not None:
            features, target = replay(features, target)
            replay.at.zero_()
        self.step = _step_graph(self, features, target, loss)

    def answer(self, *inputs: Tensor) -> Tensor:
        """Returns the module's output with the parameters learned."""
        found: Tensor = self.head(*self._state(self.names), *self.backbone(*inputs))
        return found

    def teach(self, *inputs: Tensor) -> Tensor:
        """Runs one optimizer step on inputs and their target; returns the loss before the step."""
        count = len(self.examples)
        features, target, rates = self.backbone(*inputs[:count]), inputs[count], inputs[count + 1 :]
        if self.replay is not None:
            features, target = self.replay(features, target)
        if self.loss is cross_entropy and not torch.compiler.is_exporting():
            _check_probabilities(target)
        loss, *new = self.step(*features, target, *self._state(self.names), *self._state(self.speeds), *rates)
        for name, value in zip((*self.names, *self.speeds), new, strict=True):
            setattr(self, name, value)
        return loss.reshape(1)

    def _state(self, names: Sequence[str]) -> list[Tensor]:
        return [getattr(self, name) for name in names]

    def methods(self) -> dict[str, tuple[Tensor, ...]]:
        """Methods with example inputs, as `compile_methods` takes them."""
        rate = () if self.optimizer.lr is not None else (torch.full((1,), 0.01),)
        return {"forward": self.examples, "learn": (*self.examples, self.target, *rate)}

    def calls(self, inputs: Sequence[tuple[Tensor, ...]], targets: Sequence[Tensor], lr: float = 0.01) -> list[Any]:
        """Returns calls for calibration: every input is learned, then classified."""
        rate = () if self.optimizer.lr is not None else (torch.full((1,), lr),)
        pairs = zip(inputs, targets, strict=True)
        return [call for x, target in pairs for call in (("learn", *x, target, *rate), ("forward", *x))]


class Replay(nn.Module):
    """Stored features to be remembered, in flash: each step adds the next `rows` of them to the new input, in turn, so
    that an order with alternating classes is balanced."""

    at: Tensor

    def __init__(self, features: Tensor, targets: Tensor, rows: int) -> None:
        super().__init__()
        self.features, self.targets = (nn.Embedding.from_pretrained(one.flatten(1)) for one in (features, targets))
        self.rows, self.count = rows, len(features)
        self.register_buffer("at", torch.zeros(1, dtype=torch.int32))

    def forward(self, features: Sequence[Tensor], target: Tensor) -> tuple[list[Tensor], Tensor]:
        """Returns the features and targets of a step, and advances to the next ones."""
        (new,) = features
        rows = (self.at + torch.arange(self.rows, dtype=torch.int32)) % self.count
        self.at = (self.at + self.rows) % self.count
        kept = self.features(rows).reshape(self.rows, *new.shape[1:])
        return [torch.cat([new, kept])], torch.cat([target, self.targets(rows)])


# ---- the graphs ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Cut:
    """A module split in two: the backbone, which depends on no trained parameter, and the head, which takes the
    parameters and then the backbone's results."""

    backbone: GraphModule
    head: GraphModule
    parameters: Mapping[str, Tensor]
    examples: tuple[Tensor, ...]


def _cut(module: nn.Module, examples: tuple[Tensor, ...], expression: str) -> _Cut:
    module = copy.deepcopy(module).eval().requires_grad_(False)
    named = dict(module.named_parameters())
    chosen = {name: value for name, value in named.items() if re.fullmatch(expression, name)}
    if not chosen:
        raise CortadoError(
            f"parameters={expression!r} matches none of the module's: {', '.join(named) or 'it has none'}"
        )
    with torch.no_grad():
        program = torch.export.export(module, examples, strict=False)
    whole = program.module(check_guards=False)
    assert isinstance(whole, GraphModule)
    after: set[Node] = set()
    for node in whole.graph.nodes:
        if (node.op == "get_attr" and node.target in chosen) or any(one in after for one in node.all_input_nodes):
            after.add(node)
    output = whole.graph.output_node()
    (given,) = torch.utils._pytree.tree_leaves(output.args)
    if given not in after or (given.op == "get_attr"):
        raise CortadoError(
            f"no output depends on the parameters {expression!r}; name the parameters of a layer that is used"
        )
    head = [node for node in whole.graph.nodes if node in after and node is not output]
    border = list(
        dict.fromkeys(one for node in head for one in node.all_input_nodes if one not in after and one.op != "get_attr")
    )
    trained = [name for name in chosen if any(node.op == "get_attr" and node.target == name for node in head)]
    return _Cut(
        _part(whole, [], [node for node in whole.graph.nodes if node not in after], border),
        _part(whole, [*trained, *border], head, [given], single=True),
        {name: chosen[name] for name in trained},
        examples,
    )


def _buffer_name(parameter: str) -> str:
    """Returns the name of a parameter's buffer: 2.weight, as in a Sequential, is no identifier."""
    name = parameter.replace(".", "_")
    return name if name.isidentifier() else f"layer_{name}"


def _part(
    whole: GraphModule,
    inputs: Sequence[Node | str],
    nodes: Sequence[Node],
    outputs: Sequence[Node],
    *,
    single: bool = False,
) -> GraphModule:
    """Extracts some nodes of a graph as a graph; `inputs` are nodes, or names of parameters."""
    graph, copies, given = Graph(), {}, {}
    for one in inputs:
        if isinstance(one, Node):
            copies[one] = graph.placeholder(one.name)
        else:
            given[one] = graph.placeholder(_buffer_name(one))
    for node in nodes:
        if node.op == "get_attr" and node.target in given:
            copies[node] = given[str(node.target)]
            continue
        for one in node.all_input_nodes:
            if one not in copies:  # a constant of the other part
                copies[one] = graph.node_copy(one)
        copies[node] = graph.node_copy(node, lambda one: copies[one])
    found = tuple(copies[one] for one in outputs)
    graph.output(found[0] if single else found)
    graph.eliminate_dead_code()
    return GraphModule(whole, graph)


def _step_graph(taught: Trainable, features: Sequence[Tensor], target: Tensor, loss: Loss) -> GraphModule:
    """Traces one step to plain ATen calls: loss, new parameters and new momenta from features, a target, parameters,
    momenta and, if it is an input, a learning rate."""
    given, count = len(features), len(taught.names)
    optimizer = taught.optimizer

    def step(*values: Tensor) -> tuple[Tensor, ...]:
        inputs, wanted, state = values[:given], values[given], values[given + 1 :]
        parameters, speeds, rates = (
            state[:count],
            state[count : count + len(taught.speeds)],
            state[count + len(taught.speeds) :],
        )

        def lost(parameters: Sequence[Tensor]) -> Tensor:
            return loss(taught.head(*parameters, *inputs), wanted)

        gradients, value = grad_and_value(lost)(parameters)
        lr = rates[0] if rates else optimizer.lr
        assert lr is not None
        moved, faster = optimizer.step(parameters, gradients, speeds, lr)
        return (value, *moved, *faster)

    rate = () if optimizer.lr is not None else (torch.full((1,), 0.01),)
    values = (*features, target, *taught._state(taught.names), *taught._state(taught.speeds), *rate)
    try:
        traced = make_fx(step, tracing_mode="fake", _allow_non_fake_inputs=True)(*(one.detach() for one in values))
    except Exception as error:
        raise CortadoError(f"the gradients can't be captured: {str(error).splitlines()[0]}") from error
    return traced


def trainable(
    module: nn.Module,
    parameters: str = "head.*",
    loss: Loss = cross_entropy,
    optimizer: SGD = PLAIN,
    *,
    examples: tuple[Tensor, ...],
    target: Tensor,
    replay: tuple[Tensor, Tensor] | None = None,
    replayed: int = 1,
) -> Trainable:
    """Returns a network that trains the parameters of these names on the device: learn(inputs, target) makes one step
    of the optimizer and returns the loss, forward(inputs) returns the outputs. The rest is frozen.

    `examples` and `target` are the inputs and the target of one step, like the example inputs of `learn`. `replay` are
    inputs and targets along the first dimension that must not be forgotten, in an order in which classes alternate:
    their features are stored in flash, and every step includes `replayed` of them."""
    cut = _cut(module, tuple(examples), parameters)
    kept = None
    if replay is not None:
        inputs, targets = replay
        found = [cut.backbone(inputs[number : number + 1]) for number in range(len(inputs))]
        if len(cut.examples) != 1 or any(len(one) != 1 for one in found):
            raise CortadoError("replay is for a module of one input whose head reads one tensor; leave it out")
        kept = Replay(torch.cat([one for (one,) in found]).detach(), targets, replayed)
    names = [*inspect.signature(module.forward).parameters][: len(cut.examples)]
    return _with_methods(names, optimizer)(cut, optimizer, loss, target, kept).eval()


def _with_methods(inputs: Sequence[str], optimizer: SGD) -> type[Trainable]:
    """Returns a subclass whose forward and learn have the module's own input names."""

    def forward(self: Trainable, *values: Tensor) -> Tensor:
        return self.answer(*values)

    def learn(self: Trainable, *values: Tensor) -> Tensor:
        return self.teach(*values)

    rate = () if optimizer.lr is not None else ("lr",)
    for method, names in ((forward, inputs), (learn, (*inputs, "target", *rate))):
        kinds = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in ("self", *names)]
        method.__signature__ = inspect.Signature(kinds)  # type: ignore[attr-defined]
    return type("Trainable", (Trainable,), {"forward": forward, "learn": learn})
