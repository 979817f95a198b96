"""Claims of the pages, tried: options, element types of state, operators, cycles of int16, the size of all kernels."""

import re
import subprocess
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import cortado
from cortado import Options
from cortado.base.target import BUNDLE_FLAGS, Compiler, from_target_string
from cortado.cli.entry import make_parser
from cortado.models import zoo
from cortado.options import Activations, Artifacts
from cortado.run.toolchain import arm_gcc
from helpers.cli import Run
from helpers.cli_page import commands
from helpers.golden import Golden, generated
from helpers.paths import ROOT

IN_C = Options(artifacts=Artifacts.C)
DOCS = ROOT / "docs"
PAGES = [
    *(ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "SECURITY")),
    *sorted(DOCS.glob("*.md")),
    *sorted((ROOT / "examples").glob("*/README.md")),
]
# Options of compilers, linkers, package managers, other tools and of the scripts in benchmarks/.
FOREIGN = {
    "--above", "--build", "--cask", "--combinations", "--gc-sections", "--header-size", "--install", "--kinds",
    "--language", "--microamps", "--multi", "--networks", "--no-deps", "--no_unaligned_access", "--only", "--opset",
    "--persist", "--rm", "--saved-model", "--seed", "--specs", "--targets", "--version", "--volts",
}  # fmt: skip
OPTION = re.compile(r"(?<![\w-])(--[a-z][\w-]*)")


def options() -> set[str]:
    return {name for _, one in commands(make_parser()) for action in one._actions for name in action.option_strings}


def test_options_that_the_pages_name_exist() -> None:
    known = options() | FOREIGN
    found = {page.name: {name for name in OPTION.findall(page.read_text()) if name not in known} for page in PAGES}
    assert {page: names for page, names in found.items() if names} == {}


def test_every_foreign_option_is_named_somewhere() -> None:
    """The list of exceptions does not outlive them."""
    named = {name for page in PAGES for name in OPTION.findall(page.read_text())}
    assert sorted(FOREIGN - named) == []
    assert sorted(FOREIGN & options()) == []


# ---- state.md -------------------------------------------------------------------------------------------------------


class Average(nn.Module):
    """A moving average: computed from its own last value."""

    mean: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(1, 6))

    def forward(self, x: Tensor) -> Tensor:
        self.mean = 0.9 * self.mean + 0.1 * torch.relu(x)
        return self.mean


class Past(nn.Module):
    """The last samples of a signal, and a count."""

    past: Tensor
    count: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.convolve = nn.Conv1d(6, 4, 3)
        self.register_buffer("past", torch.zeros(1, 6, 3))
        self.register_buffer("count", torch.zeros(1, dtype=torch.int64))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        self.past = torch.cat([self.past[:, :, 1:], x[:, :, None]], 2)
        self.count = self.count + 1
        return self.convolve(self.past), self.count


class Hidden(nn.Module):
    """The hidden state of a recurrent layer."""

    state: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.gru = nn.GRU(6, 4, batch_first=True)
        self.register_buffer("state", torch.zeros(1, 1, 4))

    def forward(self, x: Tensor) -> Tensor:
        y, self.state = self.gru(x[:, None], self.state)
        result: Tensor = y
        return result


@pytest.mark.parametrize(
    ("network", "elements"),
    [(Average, {"mean": "int16"}), (Past, {"past": "int8", "count": "int32"}), (Hidden, {"state": "int8"})],
)
def test_state_has_the_element_that_its_page_says(network: type[nn.Module], elements: dict[str, str]) -> None:
    torch.manual_seed(0)
    steps = [(torch.randn(1, 6),) for _ in range(40)]
    compiled = cortado.compile(network().eval(), steps[0], "cortex-m4", steps, options=IN_C)
    assert {one.name: one.dtype.value for one in compiled.report.state} == elements


# ---- precision.md ---------------------------------------------------------------------------------------------------

CORES = ("cortex-m0plus", "cortex-m4", "cortex-m55")
NETWORKS = ("ds_cnn", "resnet8", "deep_autoencoder", "kws_gru")
PRECISION = DOCS / "precision.md"


def cycles_row(name: str) -> str:
    """Cycles of a network in int16 relative to int8, on each core."""
    network, cells = zoo.get(name), []
    for core in CORES:
        narrow, wide = (
            cortado.estimate(
                network.build().eval(),
                network.example_inputs(),
                target=core,
                options=Options(activations=activations, state=Activations.INT8),
            ).cycles
            for activations in (Activations.INT8, Activations.INT16)
        )
        cells.append(f"{wide / narrow:.1f}")
    return f"| {name} | {' | '.join(cells)} |"


@pytest.mark.slow
def test_the_cycles_of_int16_are_those_of_the_estimates(golden: Golden) -> None:
    head = "| network | Cortex-M0+ | Cortex-M4 | Cortex-M55 |\n|---|---:|---:|---:|\n"
    table = head + "\n".join(cycles_row(name) for name in NETWORKS) + "\n"
    golden(PRECISION, generated(PRECISION.read_text(), "int16 cycles", table))


def test_the_network_that_int16_costs_most_is_in_the_table() -> None:
    assert cycles_row("kws_gru") in PRECISION.read_text()


# ---- updates.md -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("core", ["cortex-m55", "cortex-m4"])
def test_all_kernels_take_the_flash_that_the_page_says(run: Run, core: str, tmp_path: Path) -> None:
    assert run("kernels", "--all", "--target", core, "-o", tmp_path).code == 0
    elf = tmp_path / "all.elf"
    sources = sorted([*(tmp_path / "loader").glob("*.c"), *(tmp_path / "kernels" / "src").glob("*.[cS]")])
    includes = [f"-I{tmp_path}/kernels/{folder}" for folder in ("include", "src")]
    roots = [f"-Wl,-u,{name}" for name in ("cortado_thunks", "cortado_image_run", "cortado_image_reset")]
    flags = [*from_target_string(core).compiler_flags(Compiler.GCC), *BUNDLE_FLAGS, "-ffunction-sections", *includes]
    link = ["-nostartfiles", "--specs=nosys.specs", "-Wl,--gc-sections", *roots, "-Wl,-e,cortado_image_open"]
    subprocess.run([arm_gcc().path, *flags, "-O2", *sources, *link, "-o", elf], check=True)
    sizes = subprocess.run(["arm-none-eabi-size", elf], capture_output=True, text=True, check=True).stdout
    taken = sum(map(int, sizes.splitlines()[1].split()[:2])) / 1000
    number = core.removeprefix("cortex-m").upper()
    text = (DOCS / "updates.md").read_text()
    (told,) = re.findall(rf"([\d.]+) KB(?: of flash)? on a Cortex-M{number}", text)
    assert float(told) == pytest.approx(taken, rel=0.03)


# ---- coming-from-executorch.md --------------------------------------------------------------------------------------


class Rows(nn.Module):
    """What the page's last table says that Cortado takes, but for the LSTM."""

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        averaged = nn.functional.avg_pool2d(x, 3, 2, ceil_mode=True)
        largest = nn.functional.max_pool2d(x, 3, 2, padding=1, ceil_mode=True)
        smooth = nn.functional.gelu(x) + nn.functional.gelu(x, approximate="tanh")
        return averaged, largest, smooth, x / (y * y + 1), x @ y[0, 0]


def test_what_executorchs_main_adds_is_in_the_pte_of_operators() -> None:
    torch.manual_seed(0)
    data = [(torch.randn(1, 3, 10, 10), torch.randn(1, 3, 10, 10)) for _ in range(40)]
    compiled = cortado.compile(Rows(), data[0], "cortex-m4", data)
    assert compiled.report.pte is not None
