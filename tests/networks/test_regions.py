"""An arena in several memories, and weights in sections of their own: the same bits, each memory within its size."""

from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import torch

from cortado.api import compile as compile_model
from cortado.artifact.budget import in_regions
from cortado.base.errors import CortadoError
from cortado.base.regions import places_of, regions_of
from cortado.base.target import Machine, from_target_string
from cortado.memory.spread import Room
from cortado.options import Border, Optimize, Options
from cortado.plan.over_regions import heat, over_regions
from cortado.plan.planned import Planned
from cortado.plan.request import Feeding, program_of
from cortado.plan.schedule import Schedules
from cortado.run.board import AddressRange, find_board
from cortado.run.bundle_info import BundleInfo
from cortado.run.elf import Image, load_image
from cortado.run.runner import HOST, RUNTIME_CHECKS, build
from helpers.cores import each_core
from helpers.networks import graph_of, networks, planned, run_bundle
from helpers.paths import ROOT
from helpers.stateful import STATEFUL

# The first memory is smaller than the whole arena of each.
MEMORIES = {"ds_cnn": "dtcm=2K,sram=6K", "resnet8": "dtcm=12K,sram=40K"}
PLACES = {"ds_cnn": ["blocks.1.*=external"], "resnet8": ["classifier=flash2", r"stages\.2.*=external"]}
BOARDS = {"cortex-m7": Machine.MPS2_AN500, "cortex-m55": Machine.MPS3_AN547}


@cache
def in_memories(name: str, target: str) -> Planned:
    rooms = [Room(region.name, region.bytes) for region in regions_of(MEMORIES[name], None)]
    found = over_regions(planned(name, target, Optimize.BALANCED), rooms)
    assert isinstance(found, Planned)
    return found


def linked(folder: Path, found: Planned) -> Image:
    """What is built of a folder, as the run before left it in the cache."""
    regions = tuple(region.name for region in found.regions)
    target = found.program.target
    info = BundleInfo(found.program.name, target, (), (), regions=regions)
    return load_image(build(folder, info, BOARDS[target.target_string]))


def mean_heat(found: Planned, buffers: Iterable[str]) -> float:
    used, names = heat(found), frozenset(buffers)
    own = [buffer for buffer in found.problem.buffers if buffer.name in names]
    return sum(used[one.name] * one.size for one in own) / sum(one.size for one in own)


@pytest.mark.cases(1)
@pytest.mark.parametrize("target", BOARDS)
@pytest.mark.parametrize("name", networks(list(MEMORIES)))
def test_each_memory_is_within_its_size_and_the_first_has_what_is_used_most(name: str, target: str) -> None:
    whole, found = planned(name, target, Optimize.BALANCED), in_memories(name, target)
    fast, slow = found.regions
    assert 0 < fast.bytes <= fast.room < whole.plan.peak
    assert 0 < slow.bytes <= slow.room
    assert (fast.start, slow.start, found.plan.peak) == (0, fast.bytes, fast.bytes + slow.bytes)
    assert fast.buffers | slow.buffers == {buffer.name for buffer in found.problem.buffers}
    assert not fast.buffers & slow.buffers
    assert mean_heat(found, fast.buffers) > mean_heat(found, slow.buffers)
    for buffer in found.problem.buffers:
        region, at = found.region_of(buffer.name), found.plan.offsets[buffer.name]
        assert region.start <= at
        assert at + buffer.size <= region.start + region.bytes


@pytest.mark.cases(1)
@pytest.mark.qemu
@pytest.mark.parametrize("target", each_core(*BOARDS, here="cortex-m7"))
@pytest.mark.parametrize("name", networks(list(MEMORIES)))
def test_boards_with_two_memories_give_the_same_bits_and_store_nothing_elsewhere(
    tmp_path: Path, name: str, target: str
) -> None:
    found, board = in_memories(name, target), find_board(BOARDS[target])
    run_bundle(tmp_path, found, 2, places=places_of(PLACES[name]))
    image = linked(tmp_path, found)
    assert board.big is not None
    for region, memory in zip(found.regions, (board.ram, board.big), strict=True):
        piece = image.require(f"arena_{region.name}")
        assert piece.size == region.bytes
        assert lies(piece.address, piece.size, memory)
    text = (tmp_path / f"{name}_data.c").read_text()
    constants = [symbol for symbol in image.symbols if f" {symbol.name}[" in text]
    outside = [symbol for symbol in constants if lies(symbol.address, symbol.size, board.big)]
    assert sum(symbol.size for symbol in outside) > 1000
    for symbol in constants:
        head = text[text.index(f" {symbol.name}[") :].partition("= {")[0]
        assert ("CORTADO_WEIGHTS_" in head) == (symbol in outside), symbol.name


def lies(address: int, size: int, memory: AddressRange) -> bool:
    return memory.origin <= address and address + size <= memory.end


@pytest.mark.slow
@pytest.mark.xdist_group("network resnet8")
def test_the_message_of_the_documents_example_is_what_a_user_reads() -> None:
    config = from_target_string("cortex-m7")
    schedules = Schedules(program_of("resnet8", graph_of("resnet8", "cortex-m7"), config, Border.INT8, Feeding()))
    options = Options(memory=regions_of("dtcm=4K,sram=8K", None))
    with pytest.raises(CortadoError) as caught:
        in_regions(schedules, schedules.best(options.optimize), options)
    message, text = str(caught.value), (ROOT / "docs" / "memory-planning.md").read_text()
    assert "\n".join(f"    {line}" for line in f"cortado: {message}".splitlines()) in text


@pytest.mark.qemu
@pytest.mark.xdist_group("network ds_cnn")
def test_the_checks_build_has_its_guards_in_both_memories(tmp_path: Path) -> None:
    found = in_memories("ds_cnn", "cortex-m55")
    with pytest.raises(CortadoError, match=r"check failed: .* wrote past the end of buffer"):
        run_spoiled(tmp_path, found)


def run_spoiled(folder: Path, found: Planned) -> None:
    """The bundle whose last step's output is said to be a byte shorter than it is."""
    output = found.program.outputs[0].buffer
    shorter = tuple(one if one.name != output else replace(one, size=one.size - 1) for one in found.problem.buffers)
    spoiled = replace(found, problem=replace(found.problem, buffers=shorter))
    run_bundle(folder, spoiled, 1, flags=(RUNTIME_CHECKS,))


@pytest.mark.cases(1)
@pytest.mark.host
@pytest.mark.qemu
@pytest.mark.xdist_group("state")
@pytest.mark.parametrize("name", ["ring", "delay"])
def test_state_lasts_in_the_memory_that_it_is_in(tmp_path: Path, name: str) -> None:
    one = STATEFUL[name]
    steps = one.steps(24, seed=3)
    torch.manual_seed(0)
    options = Options(memory=regions_of("tiny=48,rest=1K", None), sequence=12)
    compiled = compile_model(one.model(), (steps[:1],), "cortex-m7", steps, name=name, options=options)
    artifact = compiled.save(tmp_path / name)
    regions = artifact.report.memory.regions if artifact.report.memory else ()
    assert all(0 < region.bytes <= region.size_bytes for region in regions)
    assert {state.region for state in artifact.report.state} <= {region.name for region in regions}
    samples = [[step[None].numpy()] for step in steps]
    for flags in ((), (RUNTIME_CHECKS,)):
        assert artifact.run(samples, flags=flags, check_stores=not flags, sequence=12).bit_exact
    assert artifact.run(samples[:2], HOST).bit_exact
