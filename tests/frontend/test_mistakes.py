"""Mistakes of a model's author that torch lets pass: each is right here, or one clear error with its line."""

import inspect
import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from cortado.api import prepare
from cortado.base.errors import CortadoError
from cortado.plan.lowered import reference_outputs
from helpers.single import Expression, Function, far_from_float, images, lower_on, randomize, rejected, seeded

Tensor = torch.Tensor


# ---- control flow and blocks ---------------------------------------------------------------------------------


class Cond(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.cond(x.sum() > 0, lambda y: y + 1, lambda y: y - 1, (x,))


class While(nn.Module):
    def forward(self, x: Tensor) -> Any:
        return torch.while_loop(
            lambda i, y: i < 3, lambda i, y: (i + 1, y * 1.1), (torch.zeros((), dtype=torch.int64), x)
        )


class Map(nn.Module):
    def forward(self, x: Tensor) -> Any:
        return torch._higher_order_ops.map(lambda row: row.relu(), x)  # type: ignore[arg-type, misc]


class Scan(nn.Module):
    def forward(self, x: Tensor) -> Any:
        return torch._higher_order_ops.scan(lambda carry, row: (carry + row, carry * row), x[0], x)[1]


class Autocast(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return (x @ x.mT).float()


class UnderNoGrad(nn.Module):
    def forward(self, x: Tensor) -> Any:
        with torch.no_grad():
            return torch.cond(x.sum() > 0, lambda y: y + 1, lambda y: y - 1, (x,))


class Vmap(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.vmap(lambda row: row.relu())(x)


class Item(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * x.max().item()


class Masked(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x[x > 0]


class Dice(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + torch.rand(4, generator=torch.Generator().manual_seed(0))


class Huge(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x[:1, :1].expand(1 << 20, 1 << 20).sum()


class Diagonal(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return (x * 2).fill_diagonal_(1.0)


@pytest.mark.parametrize(
    ("model", "line", "start", "message"),
    [
        (Cond, 1, "torch.cond at ", "branches on the values of a tensor"),
        (While, 1, "torch.while_loop at ", "is one of torch's loop operators; write it in Python"),
        (Map, 1, "torch.map at ", "is one of torch's loop operators; write it in Python"),
        (Scan, 1, "torch.scan at ", "is one of torch's loop operators; write it in Python"),
        (Autocast, 2, "torch.autocast at ", "makes part of the model compute in another type"),
        (UnderNoGrad, 2, "torch.cond at ", "branches on the values of a tensor"),
        (Vmap, 1, "a transformation of torch.func (vmap, grad) at ", "write the computation itself"),
        (Item, 1, "aten.item.default at ", "turns a tensor's values into a Python number"),
        (Masked, 1, "aten.index.Tensor at ", "gives a tensor whose shape depends on values"),
        (Dice, 1, "aten.rand.generator at ", "uses a Generator, which a compiled model can't hold"),
        (Huge, 1, "aten.expand.default at ", "holds 1,099,511,627,776 values; expected at most 2,147,483,647"),
        (Diagonal, 1, "aten.fill_diagonal_.default at ", "has no form that returns a new tensor"),
    ],
)
def test_what_can_not_be_compiled_is_named_with_its_line(
    model: type[nn.Module], line: int, start: str, message: str
) -> None:
    found = rejected(model(), torch.randn(4, 4))
    number = inspect.getsourcelines(model.forward)[1] + line
    assert found.startswith(f"{start}{__file__}:{number} ("), found
    assert message in found
    assert len(found.splitlines()) == 1


def test_an_autocast_that_is_switched_off_is_no_block() -> None:
    def forward(self: Any, x: Tensor) -> Tensor:
        with torch.autocast("cpu", enabled=False):
            y: Tensor = self.conv(x)
        return y

    model = seeded(Function(forward, conv=nn.Conv2d(3, 4, 3)))
    assert far_from_float(lower_on(model, images()), model) < 3


# ---- tensors and modules of another kind ---------------------------------------------------------------------


def fake_linear() -> nn.Module:
    with FakeTensorMode():
        return nn.Linear(4, 4)


def quantized() -> Tensor:
    return torch.quantize_per_tensor(torch.ones(1, 4), 0.1, 0, torch.qint8)


@pytest.mark.parametrize(
    ("model", "value", "message"),
    [
        (lambda: nn.Linear(4, 4, device="meta"), torch.ones(1, 4), "parameter 'weight' has a shape but no values"),
        (fake_linear, torch.ones(1, 4), "parameter 'weight' has a shape but no values"),
        (nn.ReLU, torch.ones(1, 4, device="meta"), "example input 0 has a shape but no values"),
        (nn.ReLU, torch.ones(1, 4).to_sparse(), "example input 0 is a sparse coo tensor, expected a dense one"),
        (
            lambda: Function(lambda self, x: torch.sparse.mm(self.w, x), w=torch.eye(4).to_sparse()),
            torch.ones(4, 4),
            "parameter 'w' is a sparse coo tensor, expected a dense one",
        ),
        (nn.ReLU, quantized, "example input 0 is quantized (torch.qint8), expected float32"),
        (
            lambda: torch.jit.script(nn.ReLU()),
            torch.ones(1, 4),
            "the model was made by torch.jit; give the torch.nn.Mo",
        ),
        (
            lambda: nn.Sequential(nn.ReLU(), torch.jit.script(nn.ReLU())),
            torch.ones(1, 4),
            "its module '1' was made by torch.jit",
        ),
        (lambda: nn.LazyLinear(4), torch.ones(1, 4), "parameter 'weight' has no shape yet: it belongs to a lazy modu"),
        (lambda: Function(lambda self, x: ()), torch.ones(1, 4), "the model returns nothing, expected a tensor"),
        (lambda: Function(lambda self, x: x, w=torch.ones(1)), 3, "example input 0 must be a tensor, found int"),
    ],
)
@pytest.mark.filterwarnings("ignore")  # torch says that quantized and scripted things are on their way out
def test_what_holds_no_float32_numbers_is_refused(model: Callable[[], nn.Module], value: Any, message: str) -> None:
    assert rejected(model(), value() if callable(value) else value).startswith(message)


def test_a_parameter_without_values_that_nothing_reads_is_no_matter() -> None:
    model = Function(lambda self, x: self.used(x), used=nn.Linear(4, 4), unused=nn.Linear(4, 4, device="meta"))
    x = torch.randn(1, 4)
    found = lower_on(model, [(x,)])
    assert far_from_float(found, model) < 3


WRAPPED: dict[str, Callable[[nn.Module], Any]] = {
    "DataParallel": nn.DataParallel,
    "torch.compile": torch.compile,
    "weight_norm": lambda model: nn.Sequential(nn.utils.parametrizations.weight_norm(model)),
    "hook": lambda model: hooked(model),
}


def hooked(model: nn.Module) -> nn.Module:
    model.register_forward_hook(lambda module, given, result: result * 2)
    return model


@pytest.mark.cases(1)
@pytest.mark.parametrize("name", WRAPPED)
def test_wrapped_modules_are_what_they_wrap(name: str) -> None:
    layer = nn.Linear(6, 4)
    randomize(layer, 3)
    model = WRAPPED[name](layer).eval()
    rng = torch.Generator().manual_seed(1)
    found = lower_on(model, [(torch.randn(1, 6, generator=rng),) for _ in range(3)])
    assert far_from_float(found, model) < 3


@pytest.mark.host
def test_a_mask_of_booleans_may_pass_through() -> None:
    """What no kernel computes with is an input and an output of bytes."""
    model = Function(lambda self, x, mask: (x.relu(), mask))
    x, mask = torch.randn(1, 4), torch.tensor([[True, False, True, True]])
    compiled = prepare(model, (x, mask), [(x, mask)], name="net").compile("cortex-m4")
    for place in ("host", "executorch"):
        checked = compiled.run(x, mask, on=place)
        assert checked.bit_exact
        assert checked.result.samples[0][1].tolist() == mask.tolist()


# ---- in-place changes of shape ---------------------------------------------------------------------------------


@pytest.mark.cases(2)
@pytest.mark.parametrize(
    "change",
    [
        lambda y: y.transpose_(1, 2),
        lambda y: y.swapaxes_(1, 2),
        lambda y: y.squeeze_(0),
        lambda y: y.unsqueeze_(0),
        lambda y: y.t_() if y.dim() == 2 else y.transpose_(0, 1),
        lambda y: y.abs_().add_(1).pow_(torch.full((5,), 2.0)),
    ],
)
def test_in_place_changes_of_shape_are_seen_afterwards(change: Callable[[Tensor], Tensor]) -> None:
    def forward(self: Any, x: Tensor) -> Tensor:
        y = self.linear(x)
        change(y)
        return y * 1.5

    model = seeded(Function(forward, linear=nn.Linear(4, 5)))
    rng = torch.Generator().manual_seed(0)
    found = lower_on(model, [(torch.randn(1, 3, 4, generator=rng),) for _ in range(3)])
    with torch.no_grad():
        assert reference_outputs(found.graph, found.batches[0])[0].shape == model(*found.batches[0]).shape
    assert far_from_float(found, model) < 4


# ---- names -----------------------------------------------------------------------------------------------------


class Named(nn.Module):
    """Modules and parameters under a key, and under one that it might become."""

    def __init__(self, key: str) -> None:
        super().__init__()
        self.key = key
        plain = "".join("_" if letter in '"\\\n\0' else letter for letter in key)
        self.layers = nn.ModuleDict({key: nn.Linear(4, 4), f"{plain}_": nn.Linear(4, 4)})
        self.gains = nn.ParameterDict({key: nn.Parameter(torch.ones(4)), f"{plain}_": nn.Parameter(torch.ones(4))})
        randomize(self, 3)

    def forward(self, x: Tensor) -> Tensor:
        for layer, gain in zip(self.layers.values(), self.gains.values(), strict=True):
            x = layer(x) * gain
        return x


@pytest.mark.cases(3)
@pytest.mark.parametrize("key", ["class", "a\nb", 'a"b', "a'b", "a\\b", "\0", "größe", "a b", "1", "%s", "x]"])
def test_any_key_of_a_module_dict_will_do(key: str) -> None:
    model = Named(key).eval()
    rng = torch.Generator().manual_seed(1)
    found = lower_on(model, [(torch.randn(1, 4, generator=rng),) for _ in range(3)])
    assert found.worst() < 2.001
    assert far_from_float(found, model) < 8


# ---- lines -----------------------------------------------------------------------------------------------------


def helper(x: Tensor) -> Tensor:
    return torch.cumprod(x, 1)


class ByHelper(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return helper(x)


class ByMethod(nn.Module):
    def part(self, x: Tensor) -> Tensor:
        return torch.cumprod(x, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.part(x)


class ByLambda(nn.Module):
    twist = staticmethod(
        lambda x: torch.cumprod(x, 1),
    )

    def forward(self, x: Tensor) -> Tensor:
        return self.twist(x)


def line_of(part: Callable[..., Any], after: int) -> str:
    return f"{__file__}:{inspect.getsourcelines(part)[1] + after} ("


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    ("model", "line"),
    [
        (ByHelper, line_of(helper, 1)),
        (ByMethod, line_of(ByMethod.part, 1)),
        (ByLambda, line_of(ByLambda.twist, 0)),
    ],
    ids=["helper", "method", "lambda"],
)
def test_an_operator_in_a_helper_is_reported_at_the_helpers_line(model: type[nn.Module], line: str) -> None:
    x = torch.randn(2, 4)
    prepared = prepare(nn.Sequential(nn.ReLU(), model()), (x,), [(x,)], name="net")
    with pytest.raises(CortadoError) as caught:
        prepared.compile("cortex-m4")
    assert f"aten.cumprod.default in module '1' at {line}" in str(caught.value)


# ---- masks -----------------------------------------------------------------------------------------------------


class Attention(nn.Module):
    """Causal attention: `masked` is added to the scores of what lies ahead."""

    mask: Tensor

    def __init__(self, masked: float) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(32, 32) for _ in range(3))
        randomize(self, 0)
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.mul_(0.5)
        self.register_buffer("mask", torch.full((16, 16), masked).triu(1))

    def scores(self, x: Tensor) -> Tensor:
        return self.query(x) @ self.key(x).mT / math.sqrt(32)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = (self.scores(x) + self.mask).softmax(-1) @ self.value(x)
        return result


def attention_sqnr(masked: float, batches: Sequence[tuple[Tensor]]) -> float:
    """In decibels, to attention that is masked with -inf."""
    graph, wanted = lower_on(Attention(masked), batches).graph, Attention(-torch.inf)
    signal = noise = 0.0
    for batch in batches:
        with torch.no_grad():
            want = wanted(*batch)
        signal += float(want.square().sum())
        noise += float((reference_outputs(graph, batch)[0] - want).square().sum())
    return 10 * math.log10(signal / noise)


def test_a_mask_costs_no_accuracy_whatever_stands_for_infinity() -> None:
    rng = torch.Generator().manual_seed(1)
    batches = [(torch.randn(1, 16, 32, generator=rng),) for _ in range(4)]
    found = [attention_sqnr(masked, batches) for masked in (-torch.inf, -1e9, -1e4, -100.0)]
    assert min(found) > 28
    assert max(found) - min(found) < 0.1


def test_infinity_that_no_softmax_takes_is_refused_with_its_reader() -> None:
    mask = torch.tensor([0.0, -torch.inf, 0.0, -torch.inf])
    message = rejected(Expression(lambda x, mask: torch.sin(x + mask), mask=mask), torch.randn(2, 4))
    assert message.startswith("aten.sin.default at ")
    assert "some of which stand for infinity (-inf, put there by aten.add.Tensor at " in message
