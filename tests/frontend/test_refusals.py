"""Models that can't be compiled: one clear error that names the node, the line and the reason."""

import inspect
import sys
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cortado.api import Options, prepare
from cortado.base.errors import CortadoError, NotInteger
from cortado.base.target import from_target_string
from cortado.options import Activations, Artifacts
from helpers.single import Function, images, rejected

TABLE = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))


def test_a_norm_of_another_order_is_refused() -> None:
    message = refusal(Function(lambda self, x: x.norm(p=3, dim=-1)), (2, 8))
    assert "aten.linalg_vector_norm.default" in message


# ---- what isn't supported ------------------------------------------------------------------------------------


class Running(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.cumprod(x, dim=1)


class Cell(nn.Module):
    def __init__(self, cell: nn.Module) -> None:
        super().__init__()
        self.cell = cell

    def forward(self, x: Tensor) -> Tensor:
        y = self.cell(x)
        return y if isinstance(y, Tensor) else y[0]


def first_line(model: type[nn.Module]) -> str:
    """Where the body of a model's forward begins, as the error prints it."""
    return f"{__file__}:{inspect.getsourcelines(model.forward)[1] + 1}"


def refusal(model: nn.Module, shape: Sequence[int]) -> str:
    """The message of a model that can't be compiled; the line for its first operator."""
    rng = torch.Generator().manual_seed(0)
    batches = [(torch.randn(*shape, generator=rng),) for _ in range(2)]
    prepared = prepare(model, batches[0], batches, name="net")
    with pytest.raises(CortadoError) as caught:
        prepared.compile(from_target_string("cortex-m55"))
    return str(caught.value)


def test_an_unsupported_operator_is_named_with_its_line_and_module() -> None:
    body = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), Running())
    message = refusal(Function(lambda self, x: self.body(x), body=body), (1, 8))
    line = next(line for line in message.splitlines() if "aten.cumprod" in line)
    assert "in module 'body.2'" in line
    assert first_line(Running) in line
    assert "torch.cumprod(x, dim=1)" in line
    assert "aten.linear" not in message


def test_layers_without_an_integer_form_are_refused_by_name() -> None:
    class Given(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell = nn.LSTM(8, 4, proj_size=3, batch_first=True)

        def forward(self, x: Tensor) -> Tensor:
            y, _ = self.cell(x, (x[:, :1, :3], x[:, :1, :4]))
            return y * 1.0

    message = refusal(Given(), (1, 5, 8))
    _, line, *hint = message.splitlines()  # one line: none for each of the results
    assert "aten.lstm" in line
    assert len(hint) <= 1
    assert "in module 'cell'" in line
    assert "(y, _ = self.cell(x, (x[:, :1, :3], x[:, :1, :4]))): has projections (proj_size)" in line


# ---- numbers that are not finite float32 ---------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_numbers_other_than_float32_are_refused(dtype: torch.dtype) -> None:
    name, x = str(dtype).removeprefix("torch."), torch.randn(1, 4)
    layer = nn.Sequential(nn.Linear(4, 4))
    assert rejected(layer, x.to(dtype)).startswith(f"example input 0 is {name}, expected float32; give x.float()")
    message = rejected(nn.Sequential(nn.Linear(4, 4)).to(dtype), x)
    assert message.startswith(f"parameter '0.weight' is {name}, expected float32; convert the model with model.float()")


def test_a_buffer_in_float64_is_named() -> None:
    layer = nn.BatchNorm1d(4)
    layer.running_mean = torch.zeros(4, dtype=torch.float64)
    assert rejected(layer, torch.randn(2, 4)).startswith("buffer 'running_mean' is float64, expected float32")


@pytest.mark.parametrize(("value", "name"), [(torch.nan, "NaN"), (torch.inf, "infinity"), (-torch.inf, "infinity")])
def test_weights_that_are_not_finite_are_named(value: float, name: str) -> None:
    model = nn.Sequential(nn.ReLU(), nn.Linear(4, 4))
    with torch.no_grad():
        model[1].bias[2] = value  # type: ignore[operator]
    assert rejected(model, torch.randn(1, 4)).startswith(f"parameter '1.bias' holds {name}, expected finite numbers")


def test_a_parameter_that_nothing_reads_may_be_anything() -> None:
    model = Function(lambda self, x: self.used(x), used=nn.Linear(4, 4), unused=nn.Linear(4, 4).double())
    with torch.no_grad():
        model.unused.weight.fill_(torch.nan)  # type: ignore[operator,union-attr]
    prepare(model, (torch.randn(1, 4),), [(torch.randn(1, 4),)], name="net")


class LogOfNegatives(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.log(x - 100) @ x.mT


def test_an_activation_that_is_never_finite_is_named_with_its_line() -> None:
    message = rejected(LogOfNegatives(), torch.randn(1, 4))
    assert f"at {first_line(LogOfNegatives)} (return torch.log(x - 100) @ x.mT)" in message
    assert "calibration saw only NaN or infinity" in message


# ---- inputs and outputs --------------------------------------------------------------------------------------


def test_outputs_that_are_no_tensors_are_refused() -> None:
    message = rejected(Function(lambda self, x: (x.relu(), 3)), torch.randn(1, 4))
    assert message == "the model's outputs must be tensors: output 1 is 3; return tensors only"
    message = rejected(Function(lambda self, x: None), torch.randn(1, 4))
    assert message == "the model returns nothing, expected a tensor or several"


def unsupported(model: nn.Module, *inputs: Tensor) -> str:
    """The message of a model that can't be lowered."""
    with pytest.raises(NotInteger) as caught:
        prepare(model, inputs, [inputs], name="net").compile(from_target_string("cortex-m4"))
    return str(caught.value)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda self, x, w: F.conv_transpose2d(x, w[:3]), "needs constant weights"),
        (lambda self, x, w: F.conv2d(x, torch.ones(4, 3, 3, 3), w[:, 0, 0, 0]), "needs a constant bias, got the res"),
    ],
)
def test_weights_that_are_an_input_are_refused(function: Callable[..., Tensor], message: str) -> None:
    found = unsupported(Function(function), torch.randn(1, 3, 8, 8), torch.randn(4, 3, 3, 3))
    assert message in found
    assert "quantized_decomposed" not in found


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda self, x, i: x * torch.gcd(i, i + 1), "no integer operator for it"),
        (lambda self, x, i: x.scatter_reduce(1, i % 4, x, "amax"), "no integer operator for it"),  # positions stay
        (
            lambda self, x, i: F.max_pool1d(x[None], 2, 1, 1, 2, return_indices=True),
            "gives positions that are used",
        ),
        (lambda self, x, i: F.embedding(i, x.reshape(4, 1)), "needs a constant table, got reshape"),
        (
            lambda self, x, i: torch.ops.aten.embedding_bag(TABLE, i.reshape(-1), i[0, :1])[2],
            "gives sizes or offsets of its bags that are used",
        ),
    ],
)
def test_what_no_kernel_does_with_whole_numbers_is_refused_by_its_reason(
    function: Callable[..., Tensor], reason: str
) -> None:
    assert reason in unsupported(Function(function), torch.randn(1, 4), torch.tensor([[0, 1, 2, 1]]))


# ---- what forward raises ---------------------------------------------------------------------------------------


class Raises(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        raise ValueError("no such thing")


class ToNumpy(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.from_numpy(x.numpy() * 2)


class WrongShape(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x @ torch.ones(5, 5)


class Branches(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + 1 if x.sum() > 0 else x - 1


@pytest.mark.parametrize(
    ("model", "what"),
    [
        (Raises, "ValueError: no such thing at "),
        (ToNumpy, "RuntimeError: .numpy() is not supported"),
        (WrongShape, "RuntimeError: "),
        (Branches, "it branches on the values of a tensor at "),
    ],
)
def test_what_forward_raises_comes_with_its_line(
    model: type[nn.Module], what: str, capfd: pytest.CaptureFixture[str]
) -> None:
    message = rejected(model(), torch.randn(1, 4))
    assert message.startswith(f"torch.export can't capture this model: {what}")
    assert f" at {first_line(model)} (" in message
    assert len(message.splitlines()) == 1
    assert capfd.readouterr().err == ""


class Packs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gru = nn.GRU(4, 3, batch_first=True)

    def forward(self, x: Tensor) -> Any:
        return self.gru(nn.utils.rnn.pack_padded_sequence(x, torch.tensor([5]), batch_first=True))[1]


class WritesData(nn.Module):
    last: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("last", torch.zeros(1, 4))

    def forward(self, x: Tensor) -> Tensor:
        self.last.data.copy_(x + self.last)
        return self.last * 2


def test_sequences_that_are_packed_are_refused_by_name() -> None:
    message = rejected(Packs(), torch.randn(1, 5, 4))
    assert "can't capture this model: it packs sequences in module 'gru' at " in message
    assert "give the layer the padded tensor itself" in message


def test_a_buffer_that_is_changed_through_its_data_is_refused_with_what_to_do() -> None:
    assert "write to that directly, as in self.h.copy_(value)" in rejected(WritesData(), torch.randn(1, 4))


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning")
def test_an_encoder_that_leaves_padding_out_is_named() -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 8, batch_first=True)
    model = Function(
        lambda self, x, hidden: self.encoder(x, src_key_padding_mask=hidden), encoder=nn.TransformerEncoder(layer, 1)
    )
    message = rejected(model.eval(), torch.randn(1, 4, 8), torch.tensor([[False, False, True, True]]))
    assert message.endswith("make it with enable_nested_tensor=False")


def test_a_call_of_torchs_own_module_has_no_line_of_ours() -> None:
    message = unsupported(nn.PairwiseDistance(p=3.0), torch.randn(2, 4), torch.randn(2, 4))
    assert "aten.pairwise_distance.default: supported in some forms only" in message


def test_layers_that_do_not_fit_are_named() -> None:
    """There may be no line of the user's."""
    message = rejected(nn.Sequential(nn.Linear(4, 2), nn.Sequential(nn.ReLU(), nn.Linear(4, 2))), torch.randn(1, 4))
    assert message.startswith("torch.export can't capture this model: RuntimeError: ")
    assert " in module '1.1'" in message


def test_what_forward_itself_prints_is_kept(capfd: pytest.CaptureFixture[str]) -> None:
    def loud(self: Any, x: Tensor) -> Tensor:
        print("loud", file=sys.stderr)
        return x.relu()

    prepare(Function(loud), (torch.randn(1, 4),), [(torch.randn(1, 4),)], name="net")
    assert "loud\n" in capfd.readouterr().err


# ---- hints -----------------------------------------------------------------------------------------------------

HINT = "--allow-float (allow_float=True in Options)"


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    ("function", "operator", "hinted"),
    [
        (lambda self, x: torch.lgamma(x), "aten.lgamma", False),
        (lambda self, x: torch.logcumsumexp(x, -1), "aten.logcumsumexp", True),
        (lambda self, x: torch.atan2(x, x.flip(-1)), "aten.atan2", True),
    ],
)
def test_the_hint_is_given_only_where_it_helps(function: Callable[..., Tensor], operator: str, hinted: bool) -> None:
    model, x = Function(function), torch.randn(2, 8)
    message = unsupported(model, x)
    assert message.startswith("can't run in integer arithmetic:\n  ")
    assert operator in message
    assert (HINT in message) == hinted
    allowed = Options(allow_float=True, artifacts=Artifacts.C)
    if hinted:
        made = prepare(model, (x,), [(x,)], name="net", options=allowed).compile("cortex-m4", allowed)
        assert made.run(x, on="host").bit_exact
    else:
        with pytest.raises(NotInteger, match="can't run in integer arithmetic"):
            prepare(model, (x,), [(x,)], name="net", options=allowed).compile("cortex-m4", allowed)


def test_what_was_to_be_float32_is_not_said_to_be_integers() -> None:
    options, x = Options(activations=Activations.FLOAT32, artifacts=Artifacts.C), torch.randn(2, 8)
    with pytest.raises(NotInteger, match=r"^can't run in float32:\n  aten\.lgamma"):
        prepare(Function(lambda self, x: torch.lgamma(x)), (x,), name="net", options=options).compile(
            "cortex-m4", options
        )


def test_a_batch_norm_without_statistics_is_refused() -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4, track_running_stats=False))
    message = rejected(model, *images()[0])
    assert message.startswith("aten.batch_norm.default in module '1'")
    assert "has no running statistics" in message
