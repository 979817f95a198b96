"""`--memory` and `--place`: what the summary and the report say, running the result, and mistakes."""

from dataclasses import replace
from pathlib import Path

import pytest

from cortado.artifact.opened import Artifact
from cortado.base.chips import find_chip
from cortado.base.errors import CortadoError
from cortado.base.regions import Region, WeightPlacement, places_of, regions_of
from cortado.base.target import ALIGNED_ONLY, Machine
from cortado.options import Options
from cortado.run import runner
from helpers.cli import Run, compile_tiny, refused

pytestmark = pytest.mark.usefixtures("here")


@pytest.mark.qemu
def test_memories_and_sections_are_in_the_summary_and_the_report(run: Run, tmp_path: Path) -> None:
    options = ("--memory", "dtcm=64,sram=1K", "--place", "classifier=external", "--place", "features.*=flash2")
    done = compile_tiny(run, "-t", "cortex-m7", "-o", tmp_path / "two", *options)
    assert done.code == 0, done.err
    report = Artifact.open(tmp_path / "two").report
    memory, flash = report.memory, report.flash
    assert memory is not None
    assert flash is not None
    fast, slow = memory.regions
    assert (fast.name, fast.size_bytes, slow.name, slow.size_bytes) == ("dtcm", 64, "sram", 1024)
    assert fast.bytes + slow.bytes == memory.arena_bytes
    assert {one.name for region in memory.regions for one in region.buffers} >= {report.inputs[0].node}
    assert report.options.place == ("classifier=external", "features.*=flash2")
    assert [section.name for section in flash.sections] == ["external", "flash2"]
    assert sum(section.bytes for section in flash.sections) == flash.weights_bytes
    assert f"dtcm: {100 * fast.bytes / 64:.1f}% of 64 bytes" in done.out
    assert f"{flash.sections[0].bytes:,} bytes of the constants in section .cortado.external" in done.out
    assert any(text.startswith("--memory and --place: in the C bundle only") for text in report.pte_limits)
    artifact = Artifact.open(tmp_path / "two")
    assert artifact.run([artifact.example()], check_stores=True).bit_exact
    layers = run("validate", tmp_path / "two", "--per-layer")
    assert layers.code == 0, layers.err


@pytest.mark.qemu
def test_device_memory_has_code_that_accesses_nothing_unaligned(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "two"
    done = compile_tiny(run, "-t", "cortex-m7", "--memory", "dtcm=64,psram=1K:device", "-o", folder)
    assert done.code == 0, done.err
    artifact = Artifact.open(folder)
    memory = artifact.report.memory
    assert memory is not None
    assert [region.device for region in memory.regions] == [False, True]
    assert " ".join(ALIGNED_ONLY) in (folder / "CMakeLists.txt").read_text()
    assert artifact.run([artifact.example()]).bit_exact
    with pytest.raises(CortadoError, match=r"unaligned accesses fault in device memory \(psram\)"):
        runner.build(folder, replace(artifact.info, aligned_only=False), Machine.MPS2_AN500)
    with pytest.raises(CortadoError, match="add -mno-unaligned-access"):
        runner.build(folder, artifact.info, Machine.MPS2_AN500, ("-munaligned-access",))


def test_a_chip_has_memories_of_its_own(run: Run, tmp_path: Path) -> None:
    assert regions_of("auto", find_chip("stm32h743")) == (
        Region("dtcm", 128 * 1024),
        Region("axi", 512 * 1024),
        Region("sram1_3", 288 * 1024),
        Region("sram4", 64 * 1024),
    )
    done = compile_tiny(run, "-t", "cortex-m7", "--memory", "auto", "-o", tmp_path / "none")
    refused(done, "--memory auto takes the memories of a chip; name one with --chip")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--memory", "dtcm"), "'dtcm' is not a memory; expected NAME=BYTES, as in dtcm=64K"),
        (("--memory", "dtcm=64X"), "'64X' is not a size"),
        (("--memory", "psram=1M:slow"), "the memory psram is marked as 'slow'; expected nothing after its size, or "),
        (("--memory", "dtcm=0"), "the memory dtcm has 0 bytes; expected 1 or more"),
        (("--memory", "a b=1K"), "'a b' can't be the name of a memory"),
        (("--memory", "register=1K"), "'register' can't be the name of a memory"),
        (("--memory", "a=1K,A=2K"), "found the memories a, a; expected 1 to 8 of different names"),
        (("--memory", ","), "found the memories (none)"),
        (("--memory", "a=1K", "--input-rows"), "--memory and --input-rows: rows that come one by one"),
        (("--memory", "a=1K", "--stream", "2"), "--memory and --stream: rows that come one by one"),
        (
            ("--memory", "a=1K", "--package", "zephyr"),
            "--memory and --package: the examples of a package have an arena in",
        ),
        (("--memory", "a=1K", "--artifacts", "pte"), "--memory is for the C bundle, and --artifacts pte"),
        (("--place", "external"), "'external' does not place anything; expected REGEX=SECTION"),
        (("--place", "a(=external"), "'a(' is not a regular expression"),
        (("--place", ".*=two words"), "'two words' can't be the name of a section"),
        (("--place", "nothing.*=external"), "'nothing.*' matches no layer, so nothing goes to external"),
        (("--memory", "a=16,b=32"), "tiny does not fit the memories a=16, b=32 on cortex-m4: "),
    ],
)
def test_mistakes(run: Run, options: tuple[str, ...], message: str) -> None:
    refused(compile_tiny(run, "-t", "cortex-m4", *options), message)


def test_options_in_python_may_be_texts_mappings_and_values() -> None:
    regions = (Region("dtcm", 65_536), Region("sram", 262_144))
    for given in ("DTCM=64K, sram=256K", {"dtcm": "64K", "sram": 262_144}, regions):
        assert Options(memory=given).memory == regions  # type: ignore[arg-type]
    assert places_of("a.*=x") == places_of([WeightPlacement("a.*", "x")]) == (WeightPlacement("a.*", "x"),)
    assert Options(memory=regions, chip=find_chip("stm32h743")).ram_limit is None
    with pytest.raises(CortadoError, match="memory=12 does not name memories"):
        Options(memory=12)  # type: ignore[arg-type]
