"""A chip behind a GDB server: every board the emulator has, faults as they are, and servers that misbehave."""

import json
import re
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import cast

import numpy as np
import pytest

from cortado.api import Model
from cortado.artifact.opened import Artifact
from cortado.base.chips import CHIPS as KNOWN_CHIPS
from cortado.base.chips import chip_memory
from cortado.base.errors import CortadoError
from cortado.base.target import CortexM, from_target_string
from cortado.options import Artifacts, Options
from cortado.run.silicon import gdb, probe
from cortado.run.silicon.gdb import ProbeLost
from cortado.run.silicon.place import CycleCounter, FlashWalk, probe_place
from cortado.run.silicon.probe import Interrupted, ProbeFault, ProbeRun, check_core, check_features, check_ram
from helpers.cli import Run
from helpers.gdb_servers import CHIPS, Chip, between, emulated, free_port, silent_server
from models.tiny import sample

pytestmark = [pytest.mark.qemu, pytest.mark.xdist_group("gdb")]
BY_NAME = {chip.machine: chip for chip in CHIPS}
NETDUINO = BY_NAME["netduinoplus2"]
LOADING = b"$M8000000,"  # what GDB asks to write the first bytes of the flash
SENT, DROPPED = 30, 32_000  # samples, and after how many bytes of answers a server in front hangs up among them
QUICK = ("microbit", "stm32vldiscovery", "netduinoplus2", "mps3-an547")


@pytest.fixture(scope="module")
def artifacts(tiny: Model, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Artifact]:
    """The tiny network for each core that a board has."""
    folder, options = tmp_path_factory.mktemp("probe"), Options(artifacts=Artifacts.C)
    targets = {chip.target for chip in CHIPS}
    return {target: tiny.compile(target, options).save(folder / target) for target in targets}


def on(port: int, chip: Chip = NETDUINO, more: str = "") -> str:
    return f"gdb:localhost:{port}?flash={chip.flash}&ram={chip.ram}{more}"


def samples(count: int) -> list[list[np.ndarray]]:
    return [[sample(seed).numpy()] for seed in range(count)]


# ---- boards --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "chip",
    [pytest.param(chip, marks=[] if chip.machine in QUICK else [pytest.mark.slow]) for chip in CHIPS],
    ids=lambda chip: chip.machine,
)
def test_every_board_gives_the_references_bits(chip: Chip, artifacts: Mapping[str, Artifact]) -> None:
    with emulated(chip.machine) as port:
        found = artifacts[chip.target].run(samples(3), on(port, chip))
    assert found.bit_exact
    seen = found.result.silicon
    assert seen is not None
    assert seen.core == chip.target
    assert seen.counter is CycleCounter.SYSTICK  # the emulator's DWT does not count
    assert seen.first is not None
    assert seen.first > 0
    assert found.result.stack_bytes is not None
    assert 100 < found.result.stack_bytes < 1024


def test_a_firmware_in_ram_alone(artifacts: Mapping[str, Artifact]) -> None:
    with emulated(NETDUINO.machine) as port:
        found = artifacts["cortex-m4"].run(samples(1), f"gdb:{port}?ram=0x20000000:128K&load=ram")
    assert found.bit_exact
    assert found.result.silicon is not None
    assert found.result.silicon.memory == "code and weights in RAM at 0x20000000"


def test_rows_that_are_pushed_and_any_core(tiny: Model, tmp_path: Path) -> None:
    options = Options(artifacts=Artifacts.C, input_rows=True)
    artifact = tiny.compile("cortex-m", options).save(tmp_path / "rows")
    with emulated("microbit") as port:
        assert artifact.run(samples(2), on(port, BY_NAME["microbit"])).bit_exact


def test_a_profile_has_what_the_chip_counted_beside_the_model(
    artifacts: Mapping[str, Artifact], run: Run, tmp_path: Path
) -> None:
    folder = shutil.copytree(artifacts["cortex-m4"].folder, tmp_path / "tiny")
    with emulated(NETDUINO.machine) as port:
        words = ("--on", f"gdb:localhost:{port}", "--chip", "stm32f405", "--save", "--contribute", tmp_path / "c.json")
        found = run("profile", folder, *words, "--json").json
    measured = found["measured"]
    assert measured["first_cycles"] > 0
    assert len(measured["later_cycles"]) == 3
    assert measured["clock_hz"] is None or measured["clock_hz"] > 0  # a busy machine can't tell
    assert " instructions in a row: " in measured["words"]
    cycles = [layer["measured_cycles"] for layer in found["layers"]]
    assert min(cycles) >= 0 < max(cycles)  # the emulator's clock is this machine's: a small layer may take no tick
    contributed = json.loads((tmp_path / "c.json").read_text())
    assert "tiny" not in json.dumps(contributed)
    assert [step["measured_cycles"] for step in contributed["steps"]] == [
        layer["measured_cycles"] for layer in found["layers"]
    ]
    report = Artifact.open(folder, trust=True).report
    assert report.profile is not None
    assert report.profile.measured is not None
    assert report.profile.measured.first_cycles == measured["first_cycles"]
    assert "on the chip" in (folder / "report.html").read_text()
    least = min(measured["first_cycles"], *measured["later_cycles"])
    assert f"{least:,}" in run("compare", folder, folder).out


def test_wait_states_are_told_as_found() -> None:
    """A flash of two wait states and 16-byte lines, one behind a cache, and one as fast as RAM."""
    told = {FlashWalk(first=164, again=164, ram=132): "flash takes 0.5 extra cycles for four bytes",
            FlashWalk(first=260, again=132, ram=132): "flash takes 2.0 extra cycles for four bytes",
            FlashWalk(first=132, again=132, ram=132): "no wait states observed"}  # fmt: skip
    for walk, words in told.items():
        assert walk.words.startswith(f"{words} (128 instructions in a row: {walk.first} cycles from flash, ")
        assert walk.words.endswith(f"{walk.again} again, {walk.ram} from RAM)")


def test_ram_that_takes_no_code_leaves_the_wait_states_unknown(
    artifacts: Mapping[str, Artifact], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fault there costs nothing else that was measured."""
    artifact, real = artifacts["cortex-m4"], probe._Session.command

    def command(session: probe._Session, number: int, argument: int = 0) -> probe._Mail:
        if (number, argument) == (probe.WALK, 1):
            raise ProbeFault("BusFault")
        return real(session, number, argument)

    monkeypatch.setattr(probe._Session, "command", command)
    with emulated(NETDUINO.machine) as port:
        run = ProbeRun(artifact.folder, artifact.info, ["step"] * len(artifact.report.layers), on(port), timed=True)
        seen = run.run([[np.zeros(one.shape, one.dtype) for one in artifact.info.inputs]]).silicon
    assert seen is not None
    assert seen.walk is None
    assert len(seen.later) == 3


# ---- faults --------------------------------------------------------------------------------------------------------

FAULTS = {
    "bus": (
        "*(volatile int *)0x90000000u = 1;",
        r"(BusFault|HardFault) on gdb:.* at call_\w+\+0x\w+ \(0x\w+\) in step ",
    ),
    "undefined": ('__asm__ volatile("udf #0");', r"UsageFault .*in step \d \(.*an undefined instruction"),
    "overflow": (
        "volatile uint8_t big[100000]; big[0] = 1; big[99999] = big[0];",
        r"stack overflow on gdb:.*in step \d ",
    ),
    "endless": (  # where it is met may be in the tick of the probe's clock
        'for (;;) { __asm__ volatile("nop"); }',
        r"did not finish within 2 s \(--timeout\): it is (at call_|in its exception 15 handler).*in step \d ",
    ),
}


def broken(artifact: Artifact, body: str, folder: Path, seconds: float = 2.0, place: str = "") -> ProbeRun:
    """The bundle with a statement in the function that calls its first kernel."""
    shutil.copytree(artifact.folder, folder)
    source = folder / "tiny.c"
    text = source.read_text()
    at = text.index("{\n", text.index("static void call_")) + 2
    source.write_text(f"{text[:at]}    {body}\n{text[at:]}")
    names = [step.name for step in artifact.store_rules().steps]
    return ProbeRun(folder, artifact.info, names, place, seconds=seconds)


@pytest.mark.parametrize("kind", FAULTS)
def test_faults_are_told_with_their_step_and_address(
    kind: str, artifacts: Mapping[str, Artifact], tmp_path: Path
) -> None:
    artifact, (body, message) = artifacts["cortex-m4"], FAULTS[kind]
    feeds = [artifact.feed(samples(1)[0])]
    with emulated(NETDUINO.machine) as port:
        place = on(port)
        with pytest.raises(ProbeFault, match=message):
            broken(artifact, body, tmp_path / "broken", place=place).run(feeds)


def test_a_fault_of_a_core_without_fault_registers(artifacts: Mapping[str, Artifact], tmp_path: Path) -> None:
    chip, artifact = BY_NAME["microbit"], artifacts["cortex-m0"]
    with emulated(chip.machine) as port:
        place = on(port, chip)
        with pytest.raises(ProbeFault, match=r"HardFault on gdb:.* at call_.*in step 0 "):
            broken(artifact, '__asm__ volatile("udf #0");', tmp_path / "broken", place=place).run(
                [artifact.feed(samples(1)[0])]
            )


def test_another_core_is_refused_before_anything_is_loaded(artifacts: Mapping[str, Artifact]) -> None:
    with emulated("mps2-an385") as port, pytest.raises(CortadoError, match=r"has a cortex-m3 \(CPUID 0x410fc231\)"):
        artifacts["cortex-m4"].run(samples(1), on(port))
    assert check_core(0x410CC601, from_target_string("cortex-m0"), "x") is CortexM.M0PLUS
    with pytest.raises(CortadoError, match="is not a known Cortex-M"):
        check_core(0, from_target_string("cortex-m4"), "x")


def test_memory_that_is_not_there_is_told(artifacts: Mapping[str, Artifact]) -> None:
    wrong = Chip("netduinoplus2", "cortex-m4", "0x30000000:1M", "0x20000000:128K")
    with emulated(NETDUINO.machine) as port, pytest.raises(CortadoError, match=r"could not be loaded|did not verify"):
        artifacts["cortex-m4"].run(samples(1), on(port, wrong))
    small = Chip("netduinoplus2", "cortex-m4", "0x08000000:1M", "0x20000000:1K")
    with (
        emulated(NETDUINO.machine) as port,
        pytest.raises(CortadoError, match=r"its RAM \(--ram\) of 1,024 bytes .*too"),
    ):
        artifacts["cortex-m4"].run(samples(1), on(port, small))


# ---- before anything is loaded -------------------------------------------------------------------------------------

FULL = {0xE000ED6C: 0x01111131, 0xE000EF40: 0x10110021, 0xE000EF44: 0x12100211}  # ID_ISAR3, MVFR0 and MVFR1 of an M55
WITHOUT = {"dsp": {0xE000ED6C: 0x01111110}, "fpu": {0xE000EF40: 0}, "mve": {0xE000EF44: 0x12100011}}


@pytest.mark.parametrize(
    ("target", "without", "told"),
    [
        ("cortex-m4", "fpu", r"has no floating-point unit, which cortex-m4 uses.*--target cortex-m4\+nofp"),
        ("cortex-m4+nofp", "fpu", None),
        ("cortex-m33", "dsp", r"has no DSP instructions, which cortex-m33 uses.*--target cortex-m33\+nodsp"),
        ("cortex-m55", "mve", r"has no vector instructions.*which cortex-m55 uses.*--target cortex-m55\+nomve"),
        ("cortex-m85+nomve", "fpu", r"has no floating-point unit, which cortex-m85\+nomve uses"),
        ("cortex-m7", "dsp", None),  # it always has them
        ("cortex-m33+nodsp", "dsp", None),
        ("cortex-m33+nodsp", "fpu", None),
        ("cortex-m55+nomve", "mve", None),
        ("cortex-m7", "mve", None),
    ],
)
def test_what_an_implementer_left_out_is_told_before_anything_runs(target: str, without: str, told: str | None) -> None:
    config = from_target_string(target)
    registers = {**FULL, **WITHOUT[without]}
    if told is None:
        check_features(registers.__getitem__, config, config.cpu, "gdb")
        return
    with pytest.raises(CortadoError, match=told):
        check_features(registers.__getitem__, config, config.cpu, "gdb")


def test_features_are_asked_of_the_chip(artifacts: Mapping[str, Artifact], monkeypatch: pytest.MonkeyPatch) -> None:
    """An M4 without a floating-point unit, by its registers: nothing is loaded."""
    real = gdb.Gdb.word
    monkeypatch.setattr(gdb.Gdb, "word", lambda self, at: 0 if at == 0xE000EF40 else real(self, at))
    monkeypatch.setattr(gdb.Gdb, "open", lambda self, elf: pytest.fail("it was loaded"))
    with emulated(NETDUINO.machine) as port, pytest.raises(CortadoError, match="has no floating-point unit"):
        artifacts["cortex-m4"].run(samples(1), on(port))


class Memory:
    """The words behind a debugger; addresses beyond `size` are the first ones again."""

    def __init__(self, size: int) -> None:
        self.size, self.words = size, dict[int, bytes]()

    def write(self, address: int, data: bytes) -> None:
        self.words[address % self.size] = data

    def word(self, address: int) -> int:
        return int.from_bytes(self.words[address % self.size], "little")


@pytest.mark.parametrize("size", [1 << 10, 20 << 10, 1 << 20])
def test_ram_that_is_there_twice_is_too_small(size: int) -> None:
    place = probe_place(f"gdb?ram=0x20000000:{size}&load=ram")
    check_ram(cast(gdb.Gdb, Memory(1 << 28)), place)
    with pytest.raises(CortadoError, match=rf"has no RAM of {size:,} bytes at 0x20000000 \(the word at "):
        check_ram(cast(gdb.Gdb, Memory(1 << (size - 1).bit_length() - 1)), place)


def test_ram_that_is_not_there_is_told_before_anything_is_loaded(
    artifacts: Mapping[str, Artifact], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gdb.Gdb, "open", lambda self, elf: pytest.fail("it was loaded"))
    large = Chip("netduinoplus2", "cortex-m4", "0x08000000:1M", "0x20000000:1M")
    with (
        emulated(NETDUINO.machine) as port,
        pytest.raises(CortadoError, match=r"has no RAM of 1,048,576 bytes at 0x20000000 .*--ram ORIGIN:SIZE"),
    ):
        artifacts["cortex-m4"].run(samples(1), on(port, large))


# ---- servers -------------------------------------------------------------------------------------------------------


def test_a_server_that_refuses_or_says_nothing_is_one_sentence(artifacts: Mapping[str, Artifact], run: Run) -> None:
    port = free_port()
    done = run("run", artifacts["cortex-m4"].folder, "--on", f"gdb:localhost:{port}", "--chip", "stm32f405")
    assert done.code == 2
    assert f"no GDB server answers at localhost:{port}" in done.err
    with silent_server() as port, pytest.raises(ProbeLost, match=r"no GDB server answers|did not answer in time"):
        artifacts["cortex-m4"].run(samples(1), on(port))


def test_a_probe_that_is_lost_leaves_what_was_measured(artifacts: Mapping[str, Artifact]) -> None:
    artifact, given = artifacts["cortex-m4"], samples(SENT)
    with (
        emulated(NETDUINO.machine) as behind,
        between(behind, drop_after=DROPPED) as port,
        pytest.raises(Interrupted, match=r"was lost .*, after \d+ of 30 samples") as caught,
    ):
        artifact.run(given, on(port))
    assert 0 < len(caught.value.made) < SENT
    expected = artifact.reference(given)[1]
    assert all(np.array_equal(made[0], wanted[0]) for made, wanted in zip(caught.value.made, expected, strict=False))


@pytest.mark.parametrize("command", ["evaluate", "validate"])
def test_a_probe_that_is_lost_is_no_wrong_result(
    command: str, artifacts: Mapping[str, Artifact], run: Run, tmp_path: Path
) -> None:
    """What ran is right, and there is no more of it: exit code 2, with the result."""
    data, labels = tmp_path / "x.npy", tmp_path / "y.npy"
    np.save(data, np.concatenate([sample[0] for sample in samples(SENT)]))
    np.save(labels, np.zeros(SENT, np.int64))
    given = ("--data", data, "--labels", labels) if command == "evaluate" else ("--inputs", data)
    with emulated(NETDUINO.machine) as behind, between(behind, drop_after=DROPPED) as port:
        place = ("--on", f"gdb:localhost:{port}", "--flash", NETDUINO.flash, "--ram", NETDUINO.ram)
        done = run(command, artifacts["cortex-m4"].folder, *given, *place)
    assert done.code == 2
    assert re.search(r"cortado: gdb:localhost:\d+: (\d+) of \1 bit-exact, then lost: ", done.err)
    assert "then lost" in done.out
    assert "NOT bit-exact" not in done.out


@pytest.mark.parametrize("command", ["run", "evaluate", "validate", "profile"])
def test_a_server_that_falls_silent_while_loading_is_given_up(
    command: str, artifacts: Mapping[str, Artifact], run: Run, tmp_path: Path
) -> None:
    """After --timeout, which every command has that runs on a chip."""
    np.save(tmp_path / "x.npy", samples(1)[0][0])
    np.save(tmp_path / "y.npy", np.zeros(1, np.int64))
    given = ("--data", tmp_path / "x.npy", "--labels", tmp_path / "y.npy") if command == "evaluate" else ()
    begin = time.monotonic()
    with emulated(NETDUINO.machine) as behind, between(behind, silent_at=LOADING) as port:
        place = ("--on", f"gdb:localhost:{port}", "--flash", NETDUINO.flash, "--ram", NETDUINO.ram, "--timeout", "2")
        done = run(command, artifacts["cortex-m4"].folder, *given, *place)
    assert done.code == 2
    assert "the GDB server did not answer in time (loading the firmware; --timeout says how long)" in done.err
    assert time.monotonic() - begin < 90


def test_a_slow_server_is_waited_for(artifacts: Mapping[str, Artifact]) -> None:
    with emulated(NETDUINO.machine) as behind, between(behind, delay=0.01) as port:
        assert artifacts["cortex-m4"].run(samples(2), on(port)).bit_exact


# ---- what is said on the command line ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gdb", "the chip's memories are not known"),
        ("gdb:here:there", "names no GDB server; expected gdb, gdb:PORT or gdb:HOST:PORT"),
        ("gdb:localhost:3333?ram=128K", "--ram 128K: expected ORIGIN:SIZE"),
        ("gdb?chip=rp2040", "code can't be run from rp2040's flash by a debugger alone: .*--load ram"),
        ("gdb?chip=stm32n657", "the addresses of stm32n657's memories are not known here"),
        ("gdb?chip=stm32f405&load=disk", "--load disk: expected flash or ram"),
        ("gdb?flash=0xFFFFFFF0:1M&ram=0x20000000:1K", "outside of a 32-bit address space"),
    ],
)
def test_places_that_are_none_are_refused(text: str, message: str) -> None:
    with pytest.raises(CortadoError, match=message):
        probe_place(text)


def test_chips_are_known_by_their_memories() -> None:
    found = probe_place("gdb:board.local:50000?chip=stm32h743")
    assert (found.host, found.port, found.ram.origin, found.code.length) == ("board.local", 50000, 0x24000000, 2 << 20)
    assert probe_place("gdb?chip=pico&load=ram").code == probe_place("gdb?chip=pico&load=ram").ram
    known = [name for name, chip in KNOWN_CHIPS.items() if name not in ("stm32n657",) and _known(chip.name)]
    assert len(known) > 45


def _known(name: str) -> bool:
    try:
        chip_memory(KNOWN_CHIPS[name])
    except CortadoError:
        return False
    return True


def test_settings_of_a_chip_without_one_are_refused(artifacts: Mapping[str, Artifact], run: Run) -> None:
    done = run("run", artifacts["cortex-m4"].folder, "--ram", "0x20000000:128K")
    assert done.code == 2
    assert "--ram is for a chip behind a debug probe: add --on gdb" in done.err
