"""The tools of `make fuzz`: journal, shrinker, repros, hostile names, damaged folders, interrupts, the page."""

import json
import subprocess
import sys
import warnings
from pathlib import Path
from random import Random

import numpy as np
import pytest

from cortado.api import prepare
from cortado.artifact.opened import Artifact
from cortado.base.errors import CortadoError
from cortado.base.target import from_target_string
from cortado.models.sources import load_calibration, load_model
from cortado.run.bundle_info import IO, BundleInfo
from fuzz import shrink
from fuzz.blocks import BLOCKS
from fuzz.campaign import TOGETHER, Wanted
from fuzz.families import Family
from fuzz.hostile import check_folder, check_names, draw_name
from fuzz.interrupts import run_disturbed
from fuzz.journal import ROOT, Journal, totals
from fuzz.oracles import TARGETS, Choices, Kind
from fuzz.outcome import Outcome, reason
from fuzz.page import COMBINED, PAGE, SUMMARY, page
from fuzz.recipe import Recipe, Shape
from helpers.cores import each_core
from helpers.golden import Golden

# ---- journal -------------------------------------------------------------------------------------------------------


def test_a_campaign_goes_on_where_it_stopped(tmp_path: Path) -> None:
    few = dict.fromkeys(Family, 0) | {Family.NETWORKS: 3}
    wanted = Wanted(first=100, networks=few, boards=0, ptes=0, jobs=1)
    journal = Journal(tmp_path / "journal.jsonl")
    journal.add(Outcome(seed, host=True).as_json() for seed in (100, 101))
    with journal.path.open("a") as file:
        file.write('{"seed": 102, "ho')  # the machine went down here
    again = Journal(journal.path)
    assert again.seeds == {(Family.NETWORKS, 100), (Family.NETWORKS, 101)}
    assert next(wanted.chunks(again)) == (Family.NETWORKS, [*range(102, 100 + TOGETHER)])
    again.add([Outcome(103, host=True).as_json()])
    assert next(wanted.chunks(again), None) is None
    assert totals(again.lines)["host"] == 3


def test_refusals_count_together() -> None:
    text = "aten.relu_.default in module 'layers.5' at /a/b.py:66 (return f(x)) writes into memory that 'x' shares"
    assert reason(text) == "aten.relu_.default writes into memory that '...' shares"


SHAPES: list[Shape] = [(), (1,), (3, 4), (2, 3, 5), (1, 2, 1, 1), (2, 3, 4, 5), (1, 2, 3, 4, 5)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_block_that_takes_a_shape_can_be_drawn_for_it(shape: Shape) -> None:
    for block in BLOCKS.values():
        if block.fits(*([shape] * block.sources)):
            for seed in range(4):
                block.draw(Random(seed), shape)


# ---- shrinking -----------------------------------------------------------------------------------------------------


def fails_with(block: str) -> object:
    def check(recipe: Recipe, choices: object, places: object) -> Outcome:
        wrong = any(layer.block == block for layer in recipe.layers)
        return Outcome(recipe.seed, kind=Kind.HOST.name if wrong else "", what="it is wrong")

    return check


def test_a_failing_network_is_made_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from fuzz.draw import draw_recipe

    warnings.simplefilter("ignore")
    for seed in range(3):
        recipe = draw_recipe(seed)
        block = recipe.layers[len(recipe.layers) // 2].block
        monkeypatch.setattr(shrink, "check_recipe", fails_with(block))
        small, outcome = shrink.shrink(recipe, Choices(), Kind.HOST, checks=200)
        assert len(small.layers) <= 2
        assert block in {layer.block for layer in small.layers}
        assert len(small.outputs) == 1
        path = shrink.write_repro(tmp_path, small, Choices(), outcome, seed)
        scope: dict[str, object] = {}
        lines = path.read_text().split("recipe = ")[1].split("options = ")[0]
        exec(f"from fuzz.recipe import Layer, Recipe\nrecipe = {lines}", scope)
        assert scope["recipe"] == small


@pytest.mark.slow
def test_a_repro_runs_by_itself(tmp_path: Path) -> None:
    """This one is right: it says so with its exit code."""
    from fuzz.recipe import Layer

    recipe = Recipe(((1, 4),), (Layer("activation", (0,), {"kind": "tanh"}),), (1,), 0)
    path = tmp_path / "repro.py"
    path.write_text(shrink.repro_source(recipe, Choices(), Kind.HOST, "nothing\nis wrong", 0))
    done = subprocess.run([sys.executable, "-W", "ignore", path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


# ---- names and folders ---------------------------------------------------------------------------------------------


@pytest.fixture
def _inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a name makes a shell write would lie here."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.cases(1)
@pytest.mark.host
@pytest.mark.usefixtures("_inside")
@pytest.mark.parametrize("seed", range(4))
def test_hostile_names(seed: int, tmp_path: Path) -> None:
    check_names(seed, tmp_path / "named")


@pytest.mark.host
@pytest.mark.slow
@pytest.mark.usefixtures("_inside")
@pytest.mark.parametrize("number", range(1, 7))
def test_many_hostile_names(number: int, tmp_path: Path) -> None:
    for seed in range(10 * number, 10 * number + 10):
        check_names(seed, tmp_path / str(seed))


def test_hostile_names_are_drawn() -> None:
    from random import Random

    drawn = "".join(draw_name(Random(seed)) for seed in range(200))
    assert all(piece in drawn for piece in ("*/", '"', "\\", "\n", "</script>", "größe", "$("))


@pytest.mark.host
def test_damaged_folders(tiny_artifact: Artifact, tmp_path: Path) -> None:
    damaged = [check_folder(seed, tiny_artifact.folder, tmp_path / str(seed)) for seed in range(12)]
    assert len({what.split()[0] for what in damaged}) >= 3


@pytest.mark.host
@pytest.mark.slow
@pytest.mark.parametrize("number", range(1, 11))
def test_many_damaged_folders(number: int, tiny_artifact: Artifact, tmp_path: Path) -> None:
    for seed in range(100 * number, 100 * number + 40):
        check_folder(seed, tiny_artifact.folder, tmp_path / str(seed))


# ---- interrupts ----------------------------------------------------------------------------------------------------

# A network of one byte: what it reads below the stack pointer is gone when an interrupt came in between.
BELOW_STACK = """#include "below.h"

void *below_input(void *arena, int i) { (void)i; return arena; }
const void *below_output(const void *arena, int i) { (void)i; return arena; }

int below_run(void *arena)
{
    for (volatile int n = 0; n < 20000; n++) {
        unsigned got = 0;
        __asm__ volatile(
            "sub sp, #32\\n str %1, [sp, #16]\\n add sp, #32\\n nop\\n nop\\n nop\\n nop\\n nop\\n nop\\n nop\\n nop\\n"
            "sub sp, #32\\n ldr %0, [sp, #16]\\n add sp, #32\\n"
            : "=l"(got) : "l"(1u) : "memory");
        if (got != 1u) {
            *(unsigned char *)arena = 99;
        }
    }
    return 0;
}
"""
BELOW_HEADER = """#include <stdint.h>
#define BELOW_ARENA_BYTES 16
#define BELOW_ARENA_ALIGN 16
typedef uint8_t below_arena_t[BELOW_ARENA_BYTES] __attribute__((aligned(BELOW_ARENA_ALIGN)));
void *below_input(void *arena, int i);
const void *below_output(const void *arena, int i);
int below_run(void *arena);
"""


def below(target: str, run: str = BELOW_STACK) -> tuple[dict[str, str], BundleInfo]:
    byte = (IO("x", (1,), "int8"),)
    return {"below.c": run, "below.h": BELOW_HEADER}, BundleInfo("below", from_target_string(target), byte, byte)


@pytest.mark.qemu
@pytest.mark.parametrize(("target", "board"), [("cortex-m0plus", "mps2-an385"), ("cortex-m55", "mps3-an547")])
def test_interrupts_find_code_that_does_not_survive_them(target: str, board: str) -> None:
    files, info = below(target)
    feeds = [[np.array([7], np.int8)]]
    assert run_disturbed(files, info, feeds, board)[0][0].tolist() == [99]


@pytest.mark.qemu
def test_a_run_without_interrupts_is_no_proof() -> None:
    files, info = below("cortex-m4", BELOW_STACK.replace("20000", "2"))
    with pytest.raises(CortadoError, match="run reported an error"):
        run_disturbed(files, info, [[np.array([7], np.int8)]], "mps2-an386", least=100)


SMALL_NETWORKS = (
    "ds_cnn",
    "kws_stream",
    "kws_gru",
    "imu_lstm",
    "resnet8",
    "mobilenet_v1_025",
    "deep_autoencoder",
    "ecg_conv1d",
    "mobilenet_tiny",
    "mobilenet_v1_pruned",
    "unet_small",
)


def disturbed_zoo(name: str, target: str, board: str, folder: Path) -> None:
    """At least a thousand interrupts, and the same bits."""
    source = load_model(name)
    model = prepare(source.model, source.example_inputs, load_calibration("random", source), name=name)
    artifact = model.compile(target).save(folder)
    feeds, expected = artifact.reference([artifact.example()])[:2]
    files = {path.relative_to(folder).as_posix(): path.read_text() for path in folder.rglob("*.[chS]")}
    found = run_disturbed(files, artifact.info, feeds, board, least=100)
    for got, want in zip(found[0], expected[0], strict=True):
        assert np.array_equal(got, want)


@pytest.mark.qemu
@pytest.mark.parametrize("target", each_core("cortex-m4", "cortex-m55", here="cortex-m55"))
def test_interrupts_change_no_bit(target: str, tmp_path: Path) -> None:
    disturbed_zoo("ds_cnn", target, TARGETS[target], tmp_path / "ds_cnn")


@pytest.mark.qemu
@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", SMALL_NETWORKS)
def test_interrupts_change_no_bit_of_the_zoo(name: str, target: str, tmp_path: Path) -> None:
    disturbed_zoo(name, target, TARGETS[target], tmp_path / name)


# ---- the page ------------------------------------------------------------------------------------------------------


def test_the_page_of_counts_is_written_from_the_campaign(golden: Golden) -> None:
    """docs/testing.md says what the campaigns' summaries say; `make fuzz-page` writes both."""
    golden(ROOT / PAGE, page(*(json.loads((ROOT / name).read_text()) for name in (SUMMARY, COMBINED))))
