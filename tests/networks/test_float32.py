"""float32 as an element (--activations float32): the same bits on every core, near eager torch, no calibration data."""

import re
import subprocess
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cortado.api import Model, prepare
from cortado.base.errors import CortadoError, CortadoWarning
from cortado.base.system import KERNEL_FILES, KERNEL_FOLDERS
from cortado.base.target import from_target_string
from cortado.options import Options
from cortado.plan.lowered import lowered_graph, reference_outputs
from cortado.plan.planned import moved
from cortado.plan.pricing import lowered
from helpers.cores import THREE, each_core
from helpers.single import decibels

pytestmark = pytest.mark.filterwarnings("ignore:.*no float unit:cortado.base.errors.CortadoWarning")
FLOAT = Options(activations="float32", weights="float32", artifacts="c")  # type: ignore[arg-type]
LEAST = 100.0  # decibels beside eager torch, which adds in another order


class Layers(nn.Module):
    """Convolutions of all kinds, sums and products of every shape, pools, a mean, a linear layer, bounds."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.across = nn.Conv2d(8, 8, 3, stride=2, padding=1, groups=8)
        self.grouped = nn.Conv2d(8, 6, (1, 3), groups=2, bias=False)
        self.signal, self.head = nn.Conv1d(6, 4, 3, dilation=2), nn.Linear(4, 5)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        deep = torch.relu(self.norm(self.first(x)))
        small = F.max_pool2d(self.across(deep) + 1.5, 2) * deep.mean((2, 3), keepdim=True)
        wide = F.relu6(self.grouped(small)) / (2.0 + small[:, :6, :, :2].abs())
        rows = torch.cat([wide.flatten(2), F.pad(wide, (1, 1)).flatten(2)], -1).transpose(1, 2)
        seen = self.signal(rows.transpose(1, 2))
        return self.head(seen.amax(-1)), rows - rows.flip(1), F.avg_pool2d(deep, 3, 2, 1, count_include_pad=False)


def inputs(seed: int) -> tuple[Tensor, ...]:
    return (torch.randn(1, 3, 16, 16, generator=torch.Generator().manual_seed(seed)),)


@pytest.fixture(scope="module")
def layers() -> tuple[nn.Module, Model]:
    torch.manual_seed(1)
    network = Layers().eval()
    return network, prepare(network, inputs(0), options=FLOAT)


def reference(model: Model, given: tuple[Tensor, ...]) -> list[Tensor]:
    program = lowered(model.quantized, from_target_string("cortex-m4"), FLOAT)
    return reference_outputs(lowered_graph(program), given)


def test_every_output_is_near_that_of_eager_torch(layers: tuple[nn.Module, Model]) -> None:
    network, model = layers
    with torch.no_grad():
        for wanted, found in zip(network(*inputs(9)), reference(model, inputs(9)), strict=True):
            assert decibels(wanted, found.reshape(wanted.shape)) > LEAST


@pytest.mark.qemu
@pytest.mark.parametrize("target", each_core(*THREE, here="cortex-m55"))
def test_the_bits_are_the_same_everywhere(layers: tuple[nn.Module, Model], target: str) -> None:
    compiled = layers[1].compile(target, FLOAT)
    (image,) = inputs(3)
    image[0, 0, 0, :3] = torch.tensor([3e38, 1e-41, -3e38])  # infinities and NaN come of it
    assert compiled.run(image).bit_exact
    assert compiled.run(*inputs(4), on="host").bit_exact
    assert {tensor.dtype.value for tensor in (*compiled.report.inputs, *compiled.report.outputs)} == {"float32"}


def test_a_core_without_a_float_unit_is_told_of(layers: tuple[nn.Module, Model]) -> None:
    with pytest.warns(CortadoWarning, match="15 of 22 layers compute in float32, and cortex-m0plus has no float unit"):
        layers[1].compile("cortex-m0plus", FLOAT)


class Filter(nn.Module):
    """A state that is computed from itself, whose bits are kept from call to call."""

    level: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("level", torch.tensor([[0.1, -0.2, 1e-30]]))

    def forward(self, x: Tensor) -> Tensor:
        self.level = self.level * 0.9 + x * 0.1
        return self.level * 2.0


class Summed(nn.Module):
    """State whose new value the same call makes that reads the old one last; and state of which an old value is asked
    for once more."""

    total: Tensor
    scaled: Tensor
    last: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.tensor([[1.0, 2.0, 3.0]]))
        self.register_buffer("scaled", torch.tensor([[0.5]]))
        self.register_buffer("last", torch.tensor([[0.0, 1.0, 0.0]]))

    def forward(self, x: Tensor) -> Tensor:
        before = self.last
        self.total = self.total + x
        self.scaled = torch.minimum(self.scaled * 0.5 + self.total.sum(1, keepdim=True), self.scaled)
        self.last = before - x
        return (self.total * before).cumsum(1) + self.scaled


@pytest.mark.host
def test_state_is_written_where_it_is_read_element_by_element() -> None:
    steps = torch.randn(30, 1, 3, generator=torch.Generator().manual_seed(4))
    compiled = prepare(Summed(), (steps[0],), options=FLOAT).compile("cortex-m4", FLOAT)
    assert compiled.planned is not None
    state = {kept.name: kept for kept in compiled.planned.program.state}
    assert {kept.name for kept in moved(compiled.planned)} == {"last"}, "of the others no copy is needed"
    assert compiled.planned.in_place[state["total"].source] == state["total"].tensor.buffer
    found = compiled.run(steps, on="host")
    eager = Summed()
    wanted = torch.cat([eager(step) for step in steps])
    assert found.bit_exact
    assert decibels(wanted, torch.as_tensor(found.outputs[0]).reshape(wanted.shape)) > LEAST


@pytest.mark.host
def test_state_keeps_its_bits() -> None:
    steps = torch.randn(50, 1, 3, generator=torch.Generator().manual_seed(2))
    compiled = prepare(Filter(), (steps[0],), options=FLOAT).compile("cortex-m4", FLOAT)
    found = compiled.run(steps, on="host")
    eager = Filter()
    wanted = torch.cat([eager(step) for step in steps])
    assert found.bit_exact
    assert decibels(wanted, torch.as_tensor(found.outputs[0]).reshape(wanted.shape)) > LEAST


class Orientation(nn.Module):
    """Madgwick's filter: a quaternion that turns with the gyroscope, and towards what the accelerometer sees."""

    turned: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("turned", torch.tensor([[1.0, 0.0, 0.0, 0.0]]))

    def forward(self, gyro: Tensor, pull: Tensor) -> Tensor:
        down = pull / torch.linalg.norm(pull, dim=1, keepdim=True)
        (w, x, y, z), (gx, gy, gz), (ax, ay, az) = (one.split(1, 1) for one in (self.turned, gyro, down))
        errors = 2 * (x * z - w * y) - ax, 2 * (w * x + y * z) - ay, 1 - 2 * (x * x + y * y) - az
        slope = torch.cat(
            [
                2 * (x * errors[1] - y * errors[0]),
                2 * (z * errors[0] + w * errors[1]) - 4 * x * errors[2],
                2 * (z * errors[1] - w * errors[0]) - 4 * y * errors[2],
                2 * (x * errors[0] + y * errors[1]),
            ],
            1,
        )
        slope = slope / (torch.linalg.norm(slope, dim=1, keepdim=True) + 1e-12)
        rate = torch.cat([-x * gx - y * gy - z * gz, w * gx + y * gz - z * gy, w * gy - x * gz, w * gz + x * gy], 1)
        moved = self.turned + (0.5 * rate - 0.05 * slope) * 0.01
        self.turned = moved / torch.linalg.norm(moved, dim=1, keepdim=True)
        return self.turned


@pytest.mark.qemu
@pytest.mark.parametrize("target", each_core(*THREE, here="cortex-m0plus"))
def test_an_orientation_filter_follows_eager_torch(target: str) -> None:
    rng = torch.Generator().manual_seed(4)
    gyro = torch.randn(1000, 1, 3, generator=rng) * 0.3
    pull = torch.tensor([[0.1, 0.2, 1.0]]) + torch.randn(1000, 1, 3, generator=rng) * 0.05
    found = prepare(Orientation(), (gyro[0], pull[0]), options=FLOAT).compile(target, FLOAT).run(gyro, pull)
    eager = Orientation()
    wanted = torch.cat([eager(*given) for given in zip(gyro, pull, strict=True)])
    assert found.bit_exact
    assert decibels(wanted, torch.as_tensor(found.outputs[0]).reshape(wanted.shape)) > LEAST


class Mixed(nn.Module):
    """int8 layers around a module in float32, and a head in float32 with state, choices and a norm."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Conv2d(3, 8, 3), nn.Conv2d(8, 8, 3)
        self.middle, self.head = nn.Sequential(nn.Conv2d(8, 8, 1), nn.ReLU()), Head()

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.head(torch.relu(self.last(self.middle(torch.relu(self.first(x))))).mean((2, 3)))
        return found


class Head(nn.Module):
    kept: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 4)
        self.register_buffer("kept", torch.zeros(1, 4))

    def forward(self, x: Tensor) -> Tensor:
        y = torch.tanh(self.layer(x))
        self.kept = self.kept * 0.9 + torch.where(y > 0, y.exp(), y) * 0.1
        return self.kept / torch.linalg.norm(self.kept + 1e-3, dim=1, keepdim=True)


@pytest.mark.host
@pytest.mark.filterwarnings("ignore::cortado.base.errors.CortadoWarning")  # few samples
def test_modules_by_name_stay_in_float32() -> None:
    torch.manual_seed(6)
    options = Options(float32=("head.*", "middle.*"), artifacts="c")  # type: ignore[arg-type]
    given = torch.randn(10, 1, 3, 8, 8, generator=torch.Generator().manual_seed(7))
    network = Mixed().eval()
    compiled = prepare(network, (given[0],), [(one,) for one in given], options=options).compile("cortex-m4", options)
    elements = {layer.module: layer.element for layer in compiled.report.layers if layer.macs}
    kinds = {name: None if found is None else found.value for name, found in elements.items()}
    assert kinds == {"first": "int8", "middle.0": "float32", "last": "int8", "head.layer": "float32"}
    assert {one.element and one.element.value for one in compiled.report.layers if one.module == "head"} == {"float32"}
    assert compiled.report.arithmetic == "int8 and float32"
    assert compiled.run(given, on="host").bit_exact


class Weighted(nn.Module):
    """Layers with parameters, and matrices that are none."""

    turn: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 3, groups=4)
        self.cell, self.head = nn.GRU(8, 6, batch_first=True), nn.Linear(6, 5)
        self.register_buffer("turn", torch.randn(6, 6))

    def forward(self, x: Tensor) -> Tensor:
        seen, _ = self.cell(torch.relu(self.second(torch.relu(self.first(x)))).mean(3).transpose(1, 2))
        found: Tensor = self.head(seen[:, -1] @ self.turn)
        return found


@pytest.mark.qemu
@pytest.mark.parametrize("target", each_core(*THREE, here="cortex-m4"))
def test_weights_of_layers_are_codes_unless_they_are_to_be_exact(target: str) -> None:
    torch.manual_seed(11)
    network, given = Weighted().eval(), torch.randn(6, 1, 3, 8, 8, generator=torch.Generator().manual_seed(12))
    with torch.no_grad():
        wanted = torch.cat([network(one) for one in given])
    flash, noise = {}, {}
    for weights in ("int8", "float32"):
        options = Options(activations="float32", artifacts="c", weights=weights)  # type: ignore[arg-type]
        compiled = prepare(network, (given[0],), options=options).compile(target, options)
        found = compiled.run(given)
        assert found.bit_exact
        assert compiled.graph is not None
        assert compiled.report.flash is not None
        flash[weights] = compiled.report.flash.weights_bytes
        noise[weights] = decibels(wanted, torch.as_tensor(found.outputs[0]).reshape(wanted.shape))
        names = {"cortado::float_conv2d": ("weight",), "cortado::float_gru": ("weight_x", "weight_h")}
        stored = {(call.module, name): compiled.graph.constants[call.arguments[name].name].dtype
                  for call in compiled.graph.calls for name in names.get(call.operator, ())}  # fmt: skip
        kept = torch.int8 if weights == "int8" else torch.float32
        layers = [(module, "weight") for module in ("first", "second", "head")]
        paths = [("cell", name) for name in ("weight_x", "weight_h")]
        assert stored == {**dict.fromkeys([*layers, *paths], kept), ("", "weight"): torch.float32}
    assert flash["int8"] < 0.6 * flash["float32"]
    assert 30 < noise["int8"] < LEAST < noise["float32"]


def test_exact_weights_need_layers_in_float32() -> None:
    with pytest.raises(CortadoError, match="--weights float32: no layer is in float32"):
        Options(weights="float32")  # type: ignore[arg-type]


# ---- one operation is one rounding ---------------------------------------------------------------------------------


def _flags(target: str, *more: str) -> list[str]:
    machine = from_target_string(target).compiler_flags()
    return [
        "arm-none-eabi-gcc",
        *machine,
        "-std=gnu11",
        "-O3",
        *more,
        *(f"-I{folder}" for folder in KERNEL_FOLDERS),
        "-c",
    ]


SOURCES = [name for name in KERNEL_FILES if fnmatch(name, "*_f32*.c") and "quantize" not in name]


@pytest.mark.parametrize("source", SOURCES)
def test_no_flag_of_a_build_fuses_a_product_and_a_sum(source: str, tmp_path: Path) -> None:
    """GCC contracts by default; the source itself forbids it."""
    made = tmp_path / "made.o"
    target = "cortex-m55" if "__mve" in source else "cortex-m4"
    subprocess.run([*_flags(target, "-ffp-contract=fast"), KERNEL_FILES[source], "-o", made], check=True)
    code = subprocess.run(["arm-none-eabi-objdump", "-d", made], capture_output=True, text=True, check=True).stdout
    assert "Disassembly" in code
    assert re.search(r"\bv(fma|fms|fnma|fnms|mla|mls)", code) is None
    fast = [*_flags(target, "-ffast-math"), str(KERNEL_FILES[source]), "-o", str(made)]
    done = subprocess.run(fast, capture_output=True, text=True, check=False)
    assert "need IEEE arithmetic" in done.stderr


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"int16": "head"}, "--activations float32 and --int16"),
        ({"weights": "int4"}, "--weights int4 and --activations float32"),
        ({"artifacts": "pte"}, "float32 tensors are for the C bundle"),
        ({"precision": "auto", "min_sqnr": 40.0}, "--precision auto and --activations float32"),
        ({"linear": "per-tensor"}, "--activations float32 and --linear per-tensor"),
        ({"float32": "head"}, "--activations float32 and --float32"),
    ],
)
def test_what_speaks_of_codes_is_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(CortadoError, match=words):
        Options(**{"activations": "float32", **given})


def test_state_alone_has_no_float32() -> None:
    with pytest.raises(CortadoError, match="--state float32: expected int8 or int16"):
        Options(state="float32")  # type: ignore[arg-type]


# ---- rows and streams ------------------------------------------------------------------------------------------------


class Heard(nn.Module):
    """Sensors over time: windows of them, the largest, and a mean beside it."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.head = nn.Conv1d(3, 5, 5), nn.Conv1d(5, 4, 3, dilation=2), nn.Linear(4, 2)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        heard = torch.tanh(self.second(torch.relu(self.first(x))))
        return self.head(heard.amax(2)), heard.mean(2)


class Bands(nn.Module):
    """A linear layer over all rows, flattened, and sums over time alone."""

    def __init__(self) -> None:
        super().__init__()
        self.bands, self.head = nn.Conv2d(1, 3, 3), nn.Linear(3 * 10 * 5, 4)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        seen = torch.sigmoid(self.bands(x))
        return self.head(seen.permute(0, 2, 3, 1).flatten(1)), seen.sum(2)


@pytest.mark.qemu
@pytest.mark.parametrize(("network", "sizes"), [(Heard, (3, 20)), (Bands, (1, 12, 7))])
def test_a_stream_gives_what_every_window_alone_does(network: type[nn.Module], sizes: tuple[int, ...]) -> None:
    torch.manual_seed(3)
    net, options = network().eval(), Options(activations="float32", weights="float32", artifacts="c", stream=2)  # type: ignore[arg-type]
    compiled = prepare(net, (torch.zeros(1, *sizes),), options=options).compile("cortex-m4", options)
    length, row = sizes[1], torch.Size((sizes[0], *sizes[2:]))
    rows = torch.randn(length + 15, *row, generator=torch.Generator().manual_seed(4))
    found = compiled.stream(rows.numpy())
    for one, other in zip(found.every, compiled.stream(rows.numpy(), on="host").every, strict=True):
        assert one.tobytes() == other.tobytes()
    assert (found.ends.start, found.ends.step) == (length - 1, 1)
    for number, end in enumerate(found.ends):
        window = rows[end - length + 1 : end + 1].movedim(0, 1)[None]
        exact = reference_outputs(compiled.graph, (window,))  # type: ignore[arg-type]
        with torch.no_grad():
            for every, wanted, near in zip(found.every, exact, net(window), strict=True):
                assert every[number].tobytes() == wanted.numpy().tobytes()
                assert decibels(near, torch.from_numpy(every[number]).reshape(near.shape)) > LEAST


@pytest.mark.qemu
def test_rows_of_float32_are_pushed() -> None:
    """Pixels with their channels last, as the first layer reads them; what becomes codes can't come so."""
    torch.manual_seed(5)
    net = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 2, 3, stride=2)).eval()
    given = torch.randn(1, 3, 12, 9)
    options = Options(activations="float32", artifacts="c", input_rows=True, selftest=True)  # type: ignore[arg-type]
    compiled = prepare(net, (given,), options=options).compile("cortex-m4", options)
    assert compiled.report.inputs[0].layout == (0, 2, 3, 1)
    assert compiled.run(given).bit_exact
    codes = Options(io="float", artifacts="c", input_rows=True)  # type: ignore[arg-type]
    with pytest.raises(CortadoError, match="are quantized all at once; expected --io int8"):
        prepare(net, (given,), torch.randn(40, 3, 12, 9), options=codes).compile("cortex-m4", codes)


@pytest.mark.host
def test_values_go_back_to_where_a_pool_found_them() -> None:
    class Back(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            values, places = F.max_pool2d(x, 2, return_indices=True)
            return F.max_unpool2d(values, places, [2, 2])

    given = torch.randn(1, 2, 6, 8, generator=torch.Generator().manual_seed(6))
    found = prepare(Back(), (given,), options=FLOAT).compile("cortex-m4", FLOAT).run(given, on="host")
    assert found.bit_exact
    assert torch.equal(torch.as_tensor(found.outputs[0]), Back()(given))
