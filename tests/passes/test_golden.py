"""Each pass on its own: tiny models, the graph before and after as golden files, and both of them executed."""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import ExportedProgram

from cortado.base.target import from_target_string
from cortado.frontend.capture.export import capture
from cortado.frontend.quantize.convert import Quantized, as_float, quantize
from cortado.ir.graph import outputs
from cortado.ir.passes import Level
from cortado.options import InputLayout, LinearWeights
from cortado.passes import PIPELINE, CortexMPass, CortexMPassManager
from cortado.passes.clean_up import CleanUp
from cortado.passes.constant_channels import ConstantChannels
from cortado.passes.dead_channels import DeadChannels
from cortado.passes.fold_qparams import FoldQParams, FuseActivations
from cortado.passes.frames import FramesAsRows
from cortado.passes.lower import Lower
from cortado.passes.move_transposes import MoveTransposes, NhwcInputs
from cortado.passes.signals import SignalsAsRows
from cortado.passes.time_windows import LastSteps, TimeWindows
from cortado.passes.updates import Updates
from cortado.plan.lowered import lowered_graph, reference_outputs
from helpers.golden import Golden
from helpers.graphs import graph_text, run_real
from helpers.paths import GOLDEN
from helpers.single import EVERY_VALUE, Function, tensors
from models.tiny import Thinned, dyadic

FOLDER = GOLDEN / "passes"
M4 = from_target_string("cortex-m4")
Forward = Callable[..., Any]


@dataclass(frozen=True)
class Case:
    """A model and the pass it is for. Weights and inputs are exact in float32: the same graph on every machine."""

    of: type[CortexMPass]
    forward: Forward
    shapes: tuple[tuple[int, ...], ...]
    parts: dict[str, Tensor | nn.Module]
    linear: LinearWeights

    @property
    def name(self) -> str:
        return self.forward.__name__.replace("_", "-")

    def inputs(self) -> tuple[Tensor, ...]:
        return tuple(dyadic(*shape, unit=2.0 ** -(4 + number)) for number, shape in enumerate(self.shapes))

    def quantized(self) -> Quantized:
        model = Function(self.forward, **self.parts).eval()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.copy_(dyadic(*parameter.shape, unit=2.0**-6))
        captured = capture(model, self.inputs())
        if self.of in (Updates, FramesAsRows):  # passes of float32
            return as_float(captured, self.inputs(), [self.inputs()])
        return quantize(captured, self.inputs(), [self.inputs()], EVERY_VALUE)

    def manager(self, program: ExportedProgram, passes: Sequence[type[CortexMPass]]) -> CortexMPassManager:
        """With all that the pass is asked for by."""
        layout = InputLayout.NHWC if self.of is NhwcInputs else InputLayout.MODEL
        stream = self.of in (FramesAsRows, SignalsAsRows, TimeWindows)
        return CortexMPassManager(program, passes, M4, linear=self.linear, input_layout=layout, stream=stream)


CASES: list[Case] = []


def case(
    of: type[CortexMPass],
    *shapes: tuple[int, ...],
    linear: LinearWeights = LinearWeights.PER_CHANNEL,
    **parts: Tensor | nn.Module,
) -> Callable[[Forward], Forward]:
    def note(forward: Forward) -> Forward:
        CASES.append(Case(of, forward, shapes, parts, linear))
        return forward

    return note


IMAGE = (1, 2, 4, 4)
ROW = (1, 4)


def weights(*sizes: int) -> Tensor:
    return torch.empty(sizes)  # gets its numbers with the layers'


# ---- fold-qparams --------------------------------------------------------------------------------------------------


@case(FoldQParams, IMAGE, conv=nn.Conv2d(2, 3, 1))
def weights_per_channel(m: Any, x: Tensor) -> Tensor:
    """Weights and bias become integers with a scale for each output channel."""
    return m.conv(x)


@case(FoldQParams, ROW, ROW)
def one_scale_for_both(m: Any, x: Tensor, y: Tensor) -> Tensor:
    """What minimum compares has one scale, so no rescaling stays."""
    return torch.minimum(x, y)


@case(FoldQParams, ROW, ROW)
def another_scale(m: Any, x: Tensor, y: Tensor) -> Tensor:
    """A sigmoid has a scale of its own: a quantize stays in front of cat, as the change of scale that it is."""
    return torch.cat([torch.sigmoid(x), y * -8.0], 1)


@case(FoldQParams, ROW, c=weights(4))
def a_constant_operand(m: Any, x: Tensor) -> Tensor:
    """A constant that is an operand becomes codes with one scale."""
    return x + m.c


@case(FoldQParams, ROW)
def a_call_in_float(m: Any, x: Tensor) -> Tensor:
    """No integer operator takes cumprod: its borders stay, and lower will refuse it."""
    return torch.relu(torch.cumprod(x, 1))


# ---- fuse-activations ----------------------------------------------------------------------------------------------


@case(FuseActivations, IMAGE, conv=nn.Conv2d(2, 2, 3))
def relu_behind_a_convolution(m: Any, x: Tensor) -> Tensor:
    """The relu becomes the convolution's bounds."""
    return torch.relu(m.conv(x))


@case(FuseActivations, ROW, layer=nn.Linear(4, 2))
def relu6_behind_a_linear_layer(m: Any, x: Tensor) -> Tensor:
    """Both bounds."""
    return nn.functional.relu6(m.layer(x))


@case(FuseActivations, ROW, ROW)
def clamp_of_a_sum(m: Any, x: Tensor, y: Tensor) -> Tensor:
    """Any clamp between two numbers."""
    return torch.clamp(x + y, -0.5, 0.25)


@case(FuseActivations, ROW, layer=nn.Linear(4, 4))
def two_readers(m: Any, x: Tensor) -> Tensor:
    """The result holds what was there before the relu too, so the relu stays."""
    y = m.layer(x)
    return torch.cat([torch.relu(y), y], 1)


@case(FuseActivations, IMAGE)
def no_kernel_that_clamps(m: Any, x: Tensor) -> Tensor:
    """A pool has no bounds: the relu stays, and becomes a table."""
    return torch.relu(nn.functional.max_pool2d(x, 2))


# ---- lower ---------------------------------------------------------------------------------------------------------


@case(Lower, IMAGE, conv=nn.Conv2d(2, 3, 3, padding=1))
def convolution(m: Any, x: Tensor) -> Tensor:
    """NHWC inside, with a transpose at each side; weights OHWI; factors for each channel."""
    return torch.relu(m.conv(x))


@case(Lower, IMAGE, conv=nn.Conv2d(2, 2, 3, groups=2))
def depthwise_convolution(m: Any, x: Tensor) -> Tensor:
    """An operator of its own."""
    return m.conv(x)


@case(Lower, ROW, layer=nn.Linear(4, 2))
def linear_per_channel(m: Any, x: Tensor) -> Tensor:
    """A convolution over one pixel: that operator has factors for each channel."""
    return m.layer(x)


@case(Lower, ROW, linear=LinearWeights.PER_TENSOR, layer=nn.Linear(4, 2))
def linear_per_tensor(m: Any, x: Tensor) -> Tensor:
    """The linear operator, which has one factor for all channels."""
    return m.layer(x)


@case(Lower, (2, 3))
def a_transpose_of_the_models_own(m: Any, x: Tensor) -> Tensor:
    """Data movement is exact."""
    return x.t()


@case(Lower, ROW)
def a_function_of_one_element(m: Any, x: Tensor) -> Tensor:
    """A table of 256 entries."""
    return torch.abs(x)


@case(Lower, ROW, ROW)
def change_of_scale(m: Any, x: Tensor, y: Tensor) -> Tensor:
    """The quantize that fold-qparams left becomes a table, and is one with the sigmoid's."""
    return torch.cat([torch.sigmoid(x), y * -8.0], 1)


# ---- move-transposes -----------------------------------------------------------------------------------------------


@case(MoveTransposes, IMAGE, first=nn.Conv2d(2, 3, 1), second=nn.Conv2d(3, 2, 1))
def cancel_between_kernels(m: Any, x: Tensor) -> Tensor:
    """What one convolution transposes back, the next transposes again: neither stays."""
    return m.second(m.first(x))


@case(MoveTransposes, IMAGE, conv=nn.Conv2d(2, 2, 3, padding=1))
def move_past_tables_to_the_borders(m: Any, x: Tensor) -> Tensor:
    """A table takes any order; beside an input or output a transpose costs the C bundle nothing."""
    return torch.abs(m.conv(torch.abs(x)))


@case(MoveTransposes, IMAGE, conv=nn.Conv2d(2, 3, 3), layer=nn.Linear(12, 2))
def into_constants(m: Any, x: Tensor) -> Tensor:
    """Flattened pixels in another order are other columns of the weights."""
    return m.layer(m.conv(x).flatten(1))


@case(MoveTransposes, IMAGE, conv=nn.Conv2d(2, 2, 1), c=weights(1, 2, 4, 4))
def constant_operands_are_laid_anew(m: Any, x: Tensor) -> Tensor:
    """The sum works in the convolution's order, and its constant is stored in it."""
    return m.conv(x) + m.c


@case(MoveTransposes, ROW, first=nn.Linear(4, 3), second=nn.Linear(3, 2))
def views_of_views(m: Any, x: Tensor) -> Tensor:
    """To a row and back to a pixel: nothing is left between the layers."""
    return m.second(m.first(x))


# ---- clean-up ------------------------------------------------------------------------------------------------------


@case(CleanUp, ROW, layer=nn.Linear(4, 2))
def constants_nothing_reads(m: Any, x: Tensor) -> Tensor:
    """The float weights and their scales go."""
    return m.layer(x)


@case(CleanUp, ROW, first=nn.Linear(4, 4), second=nn.Linear(4, 4))
def equal_constants(m: Any, x: Tensor) -> Tensor:
    """Two layers with the same weights hold them once."""
    return m.second(m.first(x))


@case(CleanUp, ROW, layer=nn.Linear(4, 2))
def equal_calls(m: Any, x: Tensor) -> Tensor:
    """The same layer on the same input is computed once."""
    return torch.cat([m.layer(x), m.layer(x)], 1)


@case(CleanUp, IMAGE)
def a_table_that_changes_nothing(m: Any, x: Tensor) -> Tensor:
    """A relu of what is not negative any more."""
    return torch.relu(nn.functional.max_pool2d(torch.relu(x), 2))


@case(CleanUp, ROW, c=weights(*ROW))
def calls_on_constants(m: Any, x: Tensor) -> Tensor:
    """The constant gets its new shape now."""
    return torch.stack([x, m.c])


# ---- dead-channels -------------------------------------------------------------------------------------------------


@case(DeadChannels, IMAGE, first=Thinned(), second=nn.Conv2d(8, 2, 1))
def zero_filters(m: Any, x: Tensor) -> Tensor:
    """Four of eight channels hold one code: they go, and what the second layer made of it is in its bias."""
    return m.second(torch.relu(m.first(x)))


@case(DeadChannels, IMAGE, first=Thinned(), second=nn.Conv2d(8, 2, 3, padding=1))
def behind_a_pool(m: Any, x: Tensor) -> Tensor:
    """A code that stands for 0 adds nothing at the border either."""
    return m.second(torch.max_pool2d(m.first(x), 2))


@case(DeadChannels, IMAGE, first=Thinned(), second=nn.Conv2d(8, 2, 1), third=nn.Conv2d(8, 3, 1))
def for_two_layers(m: Any, x: Tensor) -> Tensor:
    """Both read less."""
    y = m.first(x)
    return torch.cat([m.second(y), m.third(y)], 1)


@case(DeadChannels, IMAGE, first=Thinned(), second=nn.Conv2d(8, 2, 1))
def read_by_others(m: Any, x: Tensor) -> tuple[Tensor, Tensor]:
    """An output has them all."""
    y = m.first(x)
    return y, m.second(y)


# ---- constant-channels ---------------------------------------------------------------------------------------------


@case(ConstantChannels, IMAGE, layer=Thinned())
def filters_of_zeros(m: Any, x: Tensor) -> Tensor:
    """Four of eight channels of an output hold one code: a factor of 1/4, and no weights."""
    return m.layer(x)


@case(ConstantChannels, IMAGE, layer=Thinned())
def below_a_clamp(m: Any, x: Tensor) -> Tensor:
    """Their code is the one that stands for 0.25."""
    return torch.clamp(m.layer(x), 0.25, 1.0)


@case(ConstantChannels, IMAGE, layer=Thinned(groups=2))
def filters_of_a_depthwise_layer(m: Any, x: Tensor) -> Tensor:
    """Its channels are the last axis of the weights."""
    return m.layer(x)


@case(ConstantChannels, IMAGE, layer=Thinned())
def filters_of_a_transposed_layer(m: Any, x: Tensor) -> Tensor:
    """What each pixel of the input adds to one channel is nothing."""
    return nn.functional.conv_transpose2d(x, m.layer.weight.transpose(0, 1))


# ---- last-steps ----------------------------------------------------------------------------------------------------


# With relu, whose values are exact; two steps, so that their sums are, too.


@case(LastSteps, (1, 2, 4), layer=nn.RNN(4, 2, batch_first=True, nonlinearity="relu"))
def the_last_output(m: Any, x: Tensor) -> Tensor:
    """The step before it is not kept."""
    return m.layer(x)[0][:, -1]


@case(LastSteps, (1, 2, 4), layer=nn.RNN(4, 2, batch_first=True, nonlinearity="relu"))
def the_final_state(m: Any, x: Tensor) -> Tensor:
    """It comes beside the outputs, and is the last of them."""
    return m.layer(x)[1]


@case(LastSteps, (2, 1, 4), layer=nn.RNN(4, 2, nonlinearity="relu"))
def time_first(m: Any, x: Tensor) -> Tensor:
    """Through the view that puts the steps in front."""
    return m.layer(x)[0][-1]


@case(LastSteps, (2, 2, 4), layer=nn.RNN(4, 2, batch_first=True, bidirectional=True, nonlinearity="relu"))
def both_directions_of_a_batch(m: Any, x: Tensor) -> Tensor:
    """Each way has its own end."""
    return torch.cat([m.layer(x)[1][0], m.layer(x)[1][1]], 1)


# ---- nhwc-inputs ---------------------------------------------------------------------------------------------------


@case(NhwcInputs, IMAGE, conv=nn.Conv2d(2, 3, 1))
def an_image_as_a_camera_gives_it(m: Any, x: Tensor) -> Tensor:
    """The permute that restores the model's order comes behind the quantize."""
    return m.conv(x)


@case(NhwcInputs, IMAGE, ROW)
def an_image_and_a_row(m: Any, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """What is no image stays as it is."""
    return torch.relu(x), torch.relu(y)


@case(NhwcInputs, IMAGE, IMAGE)
def two_images(m: Any, x: Tensor, y: Tensor) -> Tensor:
    """Each has a permute of its own."""
    return x + y


@case(NhwcInputs, IMAGE, conv=nn.Conv2d(2, 2, 1))
def an_image_that_is_read_twice(m: Any, x: Tensor) -> Tensor:
    """One permute for all that read the same codes."""
    return m.conv(x) + x


# ---- frames-as-rows ------------------------------------------------------------------------------------------------

SAMPLES = (1, 12)


@case(FramesAsRows, SAMPLES, w=weights(4, 3))
def frames_of_two_hops(m: Any, x: Tensor) -> Tensor:
    """A frame is two blocks of the signal side by side."""
    return (x.unfold(1, 4, 2) @ m.w)[:, -1]


@case(FramesAsRows, SAMPLES, w=weights(5, 3))
def frames_that_end_within_a_block(m: Any, x: Tensor) -> Tensor:
    """The hop is three samples, a frame five: the last column of its two blocks is left out."""
    return (x.unfold(1, 5, 3) @ m.w)[:, -1]


@case(FramesAsRows, SAMPLES, w=weights(4, 3))
def a_factor_before_frames(m: Any, x: Tensor) -> Tensor:
    """A call on each sample is also a call on each block."""
    return ((x * 0.5).unfold(1, 4, 2) @ m.w)[:, -1]


@case(FramesAsRows, SAMPLES, w=weights(4, 3))
def frames_of_a_difference(m: Any, x: Tensor) -> Tensor:
    """Neighbouring samples lie in two blocks, so nothing is changed."""
    return ((x[:, 1:] - x[:, :-1]).unfold(1, 4, 2) @ m.w)[:, -1]


@case(FramesAsRows, SAMPLES, w=weights(4, 3), v=weights(5, 3))
def frames_of_two_kinds(m: Any, x: Tensor) -> Tensor:
    """Their hops differ, so nothing is changed."""
    return (x.unfold(1, 4, 2) @ m.w)[:, -1] + (x.unfold(1, 5, 3) @ m.v)[:, -1]


# ---- signals-as-rows -----------------------------------------------------------------------------------------------

SIGNAL = (1, 2, 6)


@case(SignalsAsRows, SIGNAL, conv=nn.Conv1d(2, 3, 3))
def a_convolution_over_time(m: Any, x: Tensor) -> Tensor:
    """Its window is 3 high instead of 3 wide."""
    return m.conv(x)[:, :, -1]


@case(SignalsAsRows, SIGNAL, conv=nn.Conv1d(2, 2, 3, stride=2, padding=2, dilation=2, groups=2))
def stride_padding_and_dilation(m: Any, x: Tensor) -> Tensor:
    """What was of the width is of the height."""
    return torch.relu(m.conv(x))[:, :, -1]


@case(SignalsAsRows, SIGNAL, conv=nn.Conv1d(2, 2, 1))
def a_pool_and_a_join(m: Any, x: Tensor) -> Tensor:
    """Channels are still the last dimension, time is now the second."""
    return nn.functional.max_pool1d(torch.cat([m.conv(x), x], 1), 2)[:, :, -1]


@case(SignalsAsRows, SIGNAL, conv=nn.Conv1d(2, 4, 3), layer=nn.Linear(4, 3))
def a_mean_over_time(m: Any, x: Tensor) -> Tensor:
    """What is behind it has no time, and is as it was."""
    return m.layer(torch.relu(m.conv(x)).mean(2))


@case(SignalsAsRows, SIGNAL, layer=nn.RNN(2, 3, batch_first=True, nonlinearity="relu"))
def steps_of_a_sequence(m: Any, x: Tensor) -> Tensor:
    """A recurrent layer takes no column: nothing is changed."""
    return m.layer(x.transpose(1, 2))[0]


# ---- time-windows --------------------------------------------------------------------------------------------------


@case(TimeWindows, SIGNAL, conv=nn.Conv1d(2, 3, 3), layer=nn.Linear(12, 2))
def a_linear_layer_over_a_signal(m: Any, x: Tensor) -> Tensor:
    """It reads four rows of three channels as a convolution with one window."""
    return m.layer(torch.relu(m.conv(x)).flatten(1))


@case(TimeWindows, IMAGE, conv=nn.Conv2d(2, 3, 3), layer=nn.Linear(12, 2))
def a_linear_layer_over_an_image(m: Any, x: Tensor) -> Tensor:
    """Of rows with several pixels."""
    return m.layer(torch.relu(m.conv(x)).flatten(1))


@case(TimeWindows, IMAGE, conv=nn.Conv2d(2, 3, 3), a=nn.Linear(12, 2), b=nn.Linear(12, 2))
def two_linear_layers(m: Any, x: Tensor) -> tuple[Tensor, Tensor]:
    """Each has its own window over the same rows."""
    y = torch.relu(m.conv(x)).flatten(1)
    return m.a(y), m.b(y)


@case(TimeWindows, SIGNAL, layer=nn.Linear(12, 2))
def a_linear_layer_over_the_input(m: Any, x: Tensor) -> Tensor:
    """The input is no image, and has no rows to read one by one."""
    return m.layer(x.transpose(1, 2).reshape(1, 12))


@case(TimeWindows, (1, 2, 1, 4), conv=nn.Conv2d(2, 3, 1), layer=nn.Linear(12, 2))
def a_single_row(m: Any, x: Tensor) -> Tensor:
    """There are no rows to read one by one."""
    return m.layer(torch.relu(m.conv(x)).flatten(1))


# ---- updates -------------------------------------------------------------------------------------------------------


@case(Updates, ROW, ROW)
def a_step_of_descent(m: Any, x: Tensor, gradient: Tensor) -> Tensor:
    """A tensor less a part of another is one call."""
    return x - torch.abs(gradient) * 0.5


@case(Updates, (3, 4), (3, 1), ROW)
def an_outer_product(m: Any, x: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """A gradient that is a product of a column and a row is never whole in memory."""
    return x - (a @ b) * 0.25


@case(Updates, ROW, ROW, ROW)
def with_momentum(m: Any, x: Tensor, momentum: Tensor, gradient: Tensor) -> tuple[Tensor, Tensor]:
    """What is left of the last steps is a second call, which the first one reads."""
    kept = momentum * 0.5 + gradient
    return x - kept * 0.25, kept


@case(Updates, (3, 1), ROW)
def squares_of_an_outer_product(m: Any, a: Tensor, b: Tensor) -> Tensor:
    """The sum of squares of a column times a row is a product of two sums."""
    return (a @ b).square().sum().reshape(1, 1)


@case(Updates, ROW, ROW)
def a_sum_of_products(m: Any, x: Tensor, y: Tensor) -> Tensor:
    """The sum of the products of two tensors is a row times a column."""
    return (x * y).sum().reshape(1, 1)


# ---- the tests -----------------------------------------------------------------------------------------------------


def values(program: ExportedProgram, level: Level) -> list[Tensor]:
    """What a graph computes of its example."""
    assert program.example_inputs is not None
    inputs = program.example_inputs[0]
    if level is Level.QUANTIZED:
        return run_real(program, inputs)
    return reference_outputs(lowered_graph(program), inputs)


def steps(program: ExportedProgram) -> list[float]:
    """The scales of the outputs of a lowered graph."""
    return [float(node.kwargs["scale"]) for node in outputs(program)]  # type: ignore[arg-type]


def equal(found: Sequence[Tensor], wanted: Sequence[Tensor], most: Sequence[float] | None = None) -> bool:
    """The same numbers, or no further apart than one step of each."""
    pairs = zip(found, wanted, most or [0.0] * len(found), strict=True)
    return all(x.shape == y.shape and float((x - y).abs().max()) <= 1.001 * step for x, y, step in pairs)


@pytest.mark.parametrize("chosen", CASES, ids=lambda chosen: f"{chosen.of.name}-{chosen.name}")
def test_a_pass_on_its_own(chosen: Case, golden: Golden) -> None:
    """The same values before and after; lower may round otherwise than float arithmetic, by one step."""
    quantized, inputs = chosen.quantized(), chosen.inputs()
    program, place = quantized.program(), PIPELINE.index(chosen.of)
    assert equal(run_real(program, inputs), tensors(quantized.converted(*inputs)))  # the yardstick itself
    chosen.manager(program, PIPELINE[:place]).transform()
    before, wanted = graph_text(program, chosen.of is CleanUp), values(program, chosen.of.level_before)
    chosen.manager(program, [chosen.of]).transform()
    found = values(program, chosen.of.level_after)
    about = inspect.cleandoc(chosen.forward.__doc__ or "")
    text = f"{chosen.of.name}: {about}\n\n# before\n{before}\n# after\n{graph_text(program, chosen.of is CleanUp)}"
    golden(FOLDER / chosen.of.name / f"{chosen.name}.txt", text)
    assert equal(found, wanted, steps(program) if chosen.of is Lower else None)


def test_every_pass_has_its_cases_and_every_file_its_case() -> None:
    assert {cls for cls in PIPELINE if sum(chosen.of is cls for chosen in CASES) >= 4} == set(PIPELINE)
    files = {path.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("*.txt")}
    assert files == {f"{chosen.of.name}/{chosen.name}.txt" for chosen in CASES}


def test_something_happens_in_every_case() -> None:
    """But for those that show what a pass leaves alone."""
    idle = {
        "read-by-others",
        "two-readers",
        "no-kernel-that-clamps",
        "steps-of-a-sequence",
        "a-single-row",
        "a-linear-layer-over-the-input",
        "frames-of-a-difference",
        "frames-of-two-kinds",
    }
    for chosen in CASES:
        before, after = (FOLDER / chosen.of.name / f"{chosen.name}.txt").read_text().split("\n# after\n")
        same = before.split("# before\n")[1] == after
        assert same == (chosen.name in idle), chosen.name
