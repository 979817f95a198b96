"""A bundle run on a chip through its debug probe: checked, loaded with its firmware, fed and read by GDB, with
faults explained."""

import struct
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from cortado.base.arrays import ArrayType
from cortado.base.errors import CortadoError
from cortado.base.system import DEVICE
from cortado.base.target import BUNDLE_FLAGS, Compiler, CortexM, CortexMTargetConfig, Isa
from cortado.run import toolchain
from cortado.run.bundle_info import BundleInfo, untyped
from cortado.run.elf import Image, load_image
from cortado.run.harness import push_source
from cortado.run.qemu import BoardFaultError
from cortado.run.runner import WARNINGS, RunResult, bundle_includes, bundle_sources, split_outputs
from cortado.run.silicon.gdb import Gdb, GdbRefused, ProbeLost
from cortado.run.silicon.place import (
    CycleCounter,
    FlashWalk,
    ProbePlace,
    Silicon,
    StepCycles,
    probe_place,
    without_overhead,
)
from cortado.run.toolchain import BuildError

RESET, RUN, AGAIN, PUSH, SPIN, WALK = range(1, 7)  # device/probe.h
_MAGIC, _NO_STEP = 0x0C047AD0, 0xFFFFFFFF
_CPUID, _STOP = 0xE000ED00, "cortado_probe_stop"
_WORDS = (
    *("magic", "command", "argument", "status", "counter", "cycles", "overhead", "stack", "step", "caches", "row"),
    *("fault", "pc", "lr", "sp", "cfsr", "hfsr", "mmfar", "bfar"),
)
STOP_SECONDS, LOAD_SECONDS = 60.0, 300.0
SILENT_SECONDS = 60.0  # while GDB loads, which reports every section; erasing a large flash takes half of that
LATER_RUNS = 3
_SPINS = (100_000, 3_000_000)  # cycles; the difference of both is timed
_EXCEPTIONS = {2: "NMI", 3: "HardFault", 4: "MemManage fault", 5: "BusFault", 6: "UsageFault", 7: "SecureFault"}
_REASONS = (  # bits of CFSR
    (0, "an instruction was fetched where none may be executed"),
    (1, "data access to forbidden memory"),
    (4, "stacking an exception accessed forbidden memory"),
    (8, "an instruction could not be fetched"),
    (9, "a load or store accessed no memory"),
    (10, "a buffered store accessed no memory"),
    (12, "stacking an exception accessed no memory"),
    (16, "an undefined instruction"),
    (17, "not in Thumb state"),
    (19, "the instruction's coprocessor or FPU is disabled"),
    (20, "the stack's limit was passed"),
    (24, "an unaligned access"),
    (25, "a division by zero"),
)
_STACK_BITS = 1 << 4 | 1 << 12 | 1 << 20


class ProbeFault(BoardFaultError):
    """The chip faulted, or did not answer."""


class Interrupted(CortadoError):
    """The probe was lost during a run. `made`: the outputs of the samples before."""

    def __init__(self, message: str, made: list[list[ArrayType]]) -> None:
        super().__init__(message)
        self.made = made


@dataclass(frozen=True)
class _Mail:
    """The words that chip and debugger share."""

    words: dict[str, int]

    def __getattr__(self, name: str) -> int:
        return self.words[name]


class _Session:
    """A firmware on a chip, halted where it waits for a command."""

    def __init__(self, gdb: Gdb, place: ProbePlace, image: Image, steps: Sequence[str], seconds: float) -> None:
        self.gdb, self.place, self.image, self.steps, self.seconds = gdb, place, image, steps, seconds
        self.box = image.require("cortado_probe").address

    def start(self, elf: Path) -> None:
        """Loads the firmware, verifies the memory against the file, and runs to the first stop."""
        gdb = self.gdb
        gdb.open(elf)
        try:
            gdb.command("-target-download", LOAD_SECONDS, "loading the firmware", SILENT_SECONDS)
        except GdbRefused as error:
            raise CortadoError(
                f"the firmware could not be loaded to {self.place.name} ({error}); does the chip have memory at "
                f"{self.place.code.origin:#010x} and {self.place.ram.origin:#010x}, and is the flash unlocked?"
            ) from None
        self._verify()
        stop = self.image.require(_STOP).address
        gdb.console("delete breakpoints")
        gdb.command(f"-break-insert -h *{stop:#x}")
        for register, value in (("xpsr", 0x01000000), ("xPSR", 0x01000000)):
            if gdb.register(register) is not None:
                gdb.console(f"set ${register} = {value:#x}")
        gdb.console(f"set $pc = {self.image.require('cortado_reset_handler').address:#x}")
        mail = self._go(self.seconds)
        if mail.magic != _MAGIC:
            raise ProbeFault(f"the firmware on {self.place.name} did not start: {self._whereabouts()}")

    def _verify(self) -> None:
        said = self.gdb.console("compare-sections", LOAD_SECONDS, "comparing memory with the firmware")
        if "MIS-MATCHED" in said:
            wrong = next(line for line in said.splitlines() if "MIS-MATCHED" in line)
            raise ProbeFault(
                f"the contents of {self.place.name} are not what was loaded ({wrong.strip('~').strip(chr(34))}): the "
                "flash did not verify. Is it protected, worn out, or of a different size than stated?"
            )

    def mail(self) -> _Mail:
        data = self.gdb.read(self.box, 4 * len(_WORDS))
        return _Mail(dict(zip(_WORDS, struct.unpack(f"<{len(_WORDS)}I", data), strict=True)))

    def command(self, command: int, argument: int = 0) -> _Mail:
        self.gdb.write(self.box + 4, struct.pack("<II", command, argument))
        return self._go(self.seconds)

    def _go(self, seconds: float) -> _Mail:
        self.gdb.resume()
        if not self.gdb.stopped(seconds):
            if not self.gdb.interrupt():
                raise ProbeLost(f"{self.place.name} did not answer within {seconds:g} s, and could not be stopped")
            raise ProbeFault(
                f"{self.place.name} did not finish within {seconds:g} s (--timeout): {self._whereabouts()}"
            )
        mail = self.mail()
        if mail.fault:
            raise ProbeFault(self._fault(mail))
        if self._pc() != self.image.require(_STOP).address:
            raise ProbeFault(f"{self.place.name} stopped on its own: {self._whereabouts()}")
        return mail

    def _pc(self) -> int:
        return (self.gdb.register("pc") or 0) & ~1

    # ---- what went wrong --------------------------------------------------------------------------------------------

    def _step(self, mail: _Mail) -> str:
        if mail.step == _NO_STEP or mail.step >= len(self.steps):
            return "outside of any layer"
        return f"in step {mail.step} ({self.steps[mail.step]})"

    def _whereabouts(self) -> str:
        mail, status = self.mail(), (self.gdb.register("xpsr") or self.gdb.register("xPSR") or 0) & 0x1FF
        name = f"in its {_EXCEPTIONS.get(status, f'exception {status}')} handler, " if status else ""
        return f"it is {name}at {self.image.place(self._pc())}, {self._step(mail)}"

    def _fault(self, mail: _Mail) -> str:
        limit, top = (self.image.require(name).address for name in ("cortado_stack_limit", "cortado_handler_stack_top"))
        overflow = mail.cfsr & _STACK_BITS or not limit <= mail.sp < top
        kind = "stack overflow" if overflow else _EXCEPTIONS.get(mail.fault, f"exception {mail.fault}")
        reasons = [text for bit, text in _REASONS if mail.cfsr >> bit & 1]
        at = f" at {self.image.place(mail.pc & ~1)} ({mail.pc:#010x})" if mail.pc else ""
        address = next(
            (f", address {a:#010x}" for a, b in ((mail.bfar, 15), (mail.mmfar, 7)) if mail.cfsr >> b & 1), ""
        )
        why = f": {', '.join(reasons)}" if reasons else ""
        registers = f"CFSR {mail.cfsr:#010x}, HFSR {mail.hfsr:#010x}, SP {mail.sp:#010x}, LR {mail.lr:#010x}"
        return f"{kind} on {self.place.name}{at} {self._step(mail)}{address}{why} ({registers})"

    # ---- samples ----------------------------------------------------------------------------------------------------

    def places(self, count: int) -> tuple[int, ...]:
        data = self.gdb.read(self.image.require("cortado_probe_places").address, 4 * count)
        return struct.unpack(f"<{count}I", data)

    def clock(self) -> int | None:
        """Measures the core's clock against this machine's, from the difference of two waits, each the shortest of
        three."""
        (short, few), (long, many) = (min(self._spin(cycles) for _ in range(3)) for cycles in _SPINS)
        return round((many - few) / (long - short)) if long - short > 0.005 else None

    def _spin(self, cycles: int) -> tuple[float, int]:
        start = time.monotonic()
        counted = self.command(SPIN, cycles).cycles
        return time.monotonic() - start, counted

    def walk(self) -> FlashWalk | None:
        """Compares the cost of instructions in flash and in RAM; runs last, since the chip's RAM may not be
        executable."""
        if self.place.in_ram:
            return None
        try:
            return FlashWalk(*(self.command(WALK, in_ram).cycles for in_ram in (0, 0, 1)))
        except ProbeFault:
            return None

    def step_cycles(self, mail: _Mail) -> tuple[StepCycles, ...]:
        found = self.image.find("step_cycles")
        if found is None:
            return ()
        count = len(self.steps)
        words = struct.unpack(f"<{2 * count}I", self.gdb.read(found.address, 8 * count))
        return without_overhead(words[:count], words[count:], mail.overhead)


@dataclass(frozen=True)
class ProbeRun:
    """A run through a probe: a bundle and the names of its steps, the place, and whether cycles are counted."""

    folder: Path
    info: BundleInfo
    steps: Sequence[str]
    on: str
    seconds: float | None = None
    timed: bool = False

    def run(
        self,
        samples: Sequence[Sequence[ArrayType]],
        sequence: int | None = None,
        progress: Callable[[int], None] = lambda done: None,
    ) -> RunResult:
        """Runs all samples in one session. With `timed`, the first runs again, and once more with each step watched."""
        place = probe_place(self.on)
        with self._connected(place) as (gdb, core, cpuid):
            target = self.info.target if self.info.target.cpu is not CortexM.ANY else CortexMTargetConfig(core)
            watched = [] if self.timed else [PROFILE]
            session = self._started(gdb, place, target, watched)
            made, cycles, stack = self._samples(session, samples, sequence, progress)
            seen = self._silicon(session, core, cpuid, cycles[:1])
            if self.timed and samples:
                seen = self._timed(gdb, session, place, target, samples[0], seen)
            return RunResult(place.name, made, stack_bytes=stack, silicon=seen)

    @contextmanager
    def _connected(self, place: ProbePlace) -> Iterator[tuple[Gdb, CortexM, int]]:
        """Yields the chip, halted, after checking that its core is the target's."""
        with Gdb(self.seconds) as gdb:
            gdb.connect(place.host, place.port)
            for command in ("monitor reset halt", "monitor halt"):
                with suppress(GdbRefused):  # a server without that command has halted the chip by itself
                    gdb.console(command)
            gdb.stops.clear()
            cpuid = gdb.word(_CPUID)
            core = check_core(cpuid, self.info.target, place.name)
            check_features(gdb.word, self.info.target, core, place.name)
            for address, value in place.writes:
                gdb.write(address, value.to_bytes(4, "little"))
            check_ram(gdb, place)
            yield gdb, core, cpuid

    def _started(self, gdb: Gdb, place: ProbePlace, target: CortexMTargetConfig, flags: Sequence[str]) -> _Session:
        elf = build_probe(self.folder, self.info, target, place, flags)
        session = _Session(gdb, place, load_image(elf), self.steps, self.seconds or STOP_SECONDS)
        session.start(elf)
        return session

    def _samples(
        self,
        session: _Session,
        samples: Sequence[Sequence[ArrayType]],
        sequence: int | None,
        progress: Callable[[int], None],
    ) -> tuple[list[list[ArrayType]], list[int], int]:
        made: list[list[ArrayType]] = []
        cycles, stack = [], 0
        try:
            for number, sample in enumerate(samples):
                begins = number == 0 if sequence is None else number % sequence == 0
                if self.info.row_bytes or (self.info.state and begins):
                    session.command(RESET)
                data, mails = (self._rows if self.info.row_bytes else self._whole)(session, sample)
                made += split_outputs(data, self.info, 1)
                cycles.append(sum(mail.cycles for mail in mails))
                stack = max(stack, *(mail.stack for mail in mails))
                progress(number + 1)
        except ProbeLost as error:
            raise Interrupted(f"{error}, after {len(made)} of {len(samples)} samples", made) from None
        return made, cycles, stack

    def _whole(self, session: _Session, sample: Sequence[ArrayType]) -> tuple[bytes, list[_Mail]]:
        places = session.places(len(self.info.inputs) + len(self.info.outputs))
        for address, tensor in zip(places, sample, strict=False):
            session.gdb.write(address, np.ascontiguousarray(tensor).tobytes())
        mail = session.command(RUN)
        if mail.status:
            raise ProbeFault(f"{self.info.name}_run on {session.place.name} returned {mail.status}, expected 0")
        return self._outputs(session, places[len(self.info.inputs) :]), [mail]

    def _rows(self, session: _Session, sample: Sequence[ArrayType]) -> tuple[bytes, list[_Mail]]:
        data, size = np.ascontiguousarray(sample[0]).tobytes(), self.info.row_bytes
        places, found, mails = session.places(len(self.info.outputs)), b"", []
        for start in range(0, len(data), size):
            session.gdb.write(session.mail().row, data[start : start + size])
            mails.append(session.command(PUSH))
            if mails[-1].status > 1:
                status = mails[-1].status - (1 << 32)
                raise ProbeFault(f"{self.info.name}_push on {session.place.name} returned {status}, expected 0 or 1")
            if mails[-1].status == 1:
                found += self._outputs(session, places)
        return found, mails

    def _outputs(self, session: _Session, places: Sequence[int]) -> bytes:
        pairs = zip(places, self.info.outputs, strict=True)
        return b"".join(session.gdb.read(address, tensor.bytes) for address, tensor in pairs)

    def _silicon(self, session: _Session, core: CortexM, cpuid: int, first: Sequence[int]) -> Silicon:
        mail = session.mail()
        caches = [name for bit, name in ((1, "instruction"), (2, "data")) if mail.caches & bit]
        counter = tuple(CycleCounter)[mail.counter]
        return Silicon(
            core=core.value,
            cpuid=cpuid,
            counter=counter,
            clock_hz=session.clock() if self.timed and counter is not CycleCounter.NONE else None,
            caches=tuple(caches),
            memory=session.place.where,
            first=first[0] if first and counter is not CycleCounter.NONE else None,
        )

    def _timed(
        self,
        gdb: Gdb,
        session: _Session,
        place: ProbePlace,
        target: CortexMTargetConfig,
        sample: Sequence[ArrayType],
        seen: Silicon,
    ) -> Silicon:
        """Runs the same input again, then once more in a firmware that counts the cycles of each step."""
        later = () if self.info.row_bytes else tuple(session.command(AGAIN).cycles for _ in range(LATER_RUNS))
        watched = self._started(gdb, place, target, [PROFILE])
        if self.info.row_bytes or self.info.state:
            watched.command(RESET)
        mails = (self._rows if self.info.row_bytes else self._whole)(watched, sample)[1]
        if not self.info.row_bytes:  # to match the later runs
            mails = [watched.command(AGAIN)]
        steps = watched.step_cycles(mails[-1])
        walk = None if seen.counter is CycleCounter.NONE else watched.walk()
        return replace(seen, later=later, steps=steps, walk=walk)


# ---- firmware --------------------------------------------------------------------------------------------------------


PROFILE = "-DCORTADO_PROFILE"
_SOURCES = tuple(DEVICE / name for name in ("probe_start.c", "probe.c"))
_LARGE_STACK, _SMALL_STACK, _SMALL_RAM = 4096, 1024, 16 * 1024


def glue(info: BundleInfo) -> str:
    """Returns the C that presents the model to the command loop."""
    name, reads = info.name, f"{info.name}_arena_t"
    kept = "const " if info.regions else ""
    own = [f"{kept}{reads} *const arena = {name}_default_arena();", "cortado_probe_model.arena = (void *)arena;"]
    inputs = [] if info.row_bytes else [f"{name}_input(arena, {i})" for i in range(len(info.inputs))]
    outputs = [f"{name}_output(arena, {i})" for i in range(len(info.outputs))]
    own += [f"cortado_probe_places[{i}] = (uint32_t)(uintptr_t){one};" for i, one in enumerate([*inputs, *outputs])]
    reset = untyped("void ", f"{name}_reset") if info.state or info.row_bytes else "NULL"
    run = f"{untyped('int ', f'{name}_run')}, {reset}, NULL, NULL"
    if info.row_bytes:
        run = f"NULL, {reset}, {untyped('int8_t *', f'{name}_row')}, PUSH"
    body = "\n".join(f"    {line}" for line in own)
    return f"""#include "probe.h"
#include "{name}.h"

#ifdef CORTADO_PROFILE
static uint32_t step_cycles[2 * {name.upper()}_STEPS];
void {name}_profile(uint32_t step) {{ cortado_probe_step(step); }}
#define STEPS {name.upper()}_STEPS, step_cycles
#else
#define STEPS 0, NULL
#endif

{push_source(name) if info.row_bytes else ""}uint32_t cortado_probe_places[{max(len(inputs) + len(outputs), 1)}];
cortado_probe_model_t cortado_probe_model = {{NULL, {run}, STEPS}};

void cortado_probe_fill(void)
{{
{body}
}}
"""


def _script(place: ProbePlace) -> str:
    """Returns the whole linker script. If everything is in RAM, code comes first."""
    lines = ["MEMORY", "{", place.ram.script("RAM"), *([] if place.in_ram else [place.code.script("CODE")]), "}"]
    lines += ['REGION_ALIAS("CODE", RAM)'] if place.in_ram else []
    stack = _SMALL_STACK if place.ram.length < _SMALL_RAM else _LARGE_STACK
    return "\n".join([*lines, f"cortado_stack_bytes = {stack};", (DEVICE / "probe.ld").read_text(encoding="utf-8")])


def build_probe(
    folder: Path, info: BundleInfo, core: CortexMTargetConfig, place: ProbePlace, flags: Sequence[str] = ()
) -> Path:
    """Builds the bundle's ELF file for the chip."""
    with tempfile.TemporaryDirectory(prefix="cortado-") as temporary:
        own = Path(temporary) / "probe_model.c"
        own.write_text(glue(info))
        sources = [*bundle_sources(folder), own, *_SOURCES]
        machine = core.compiler_flags(Compiler.GCC)
        every = [*machine, *WARNINGS, *BUNDLE_FLAGS, *info.flags, *flags]
        try:
            return toolchain.build_elf(
                sources,
                [*bundle_includes(folder), DEVICE],
                every,
                _script(place),
                info.name,
                machine_flags=machine,
                foreign=info.foreign,
            )
        except BuildError as error:
            overflow = toolchain.OVERFLOW.search(str(error))
            if overflow is None:
                raise
            region, excess = overflow.groups()
            memory, kind = (place.ram, "RAM (--ram)") if region == "RAM" else (place.code, "flash (--flash)")
            raise CortadoError(
                f"{info.name} does not fit the chip: its {kind} of {memory.length:,} bytes at {memory.origin:#010x} is "
                f"{excess} bytes too small"
            ) from error


# ---- chip ------------------------------------------------------------------------------------------------------------


# Cores by the part number in CPUID.
PARTS: Mapping[int, CortexM] = {
    0xC20: CortexM.M0,
    0xC60: CortexM.M0PLUS,
    0xC23: CortexM.M3,
    0xC24: CortexM.M4,
    0xC27: CortexM.M7,
    0xD20: CortexM.M23,
    0xD21: CortexM.M33,
    0xD31: CortexM.M35P,
    0xD24: CortexM.M52,
    0xD22: CortexM.M55,
    0xD23: CortexM.M85,
}
_SAME_CODE = ({CortexM.M0, CortexM.M0PLUS}, {CortexM.M33, CortexM.M35P})
_MAYBE_DSP = (CortexM.M33, CortexM.M35P)  # all others always have DSP instructions, or never do
# Registers that describe a core's optional features; Armv6-M and Armv8-M Baseline have none of these registers.
_ID_ISAR3, _MVFR0, _MVFR1 = 0xE000ED6C, 0xE000EF40, 0xE000EF44
_NO_OPTIONS = (CortexM.M0, CortexM.M0PLUS, CortexM.M23, CortexM.M3)


@dataclass(frozen=True)
class Features:
    """The optional features of a core."""

    dsp: bool
    fpu: bool
    mve: bool

    @staticmethod
    def read(word: Callable[[int], int]) -> "Features":
        """Reads the SIMD field of ID_ISAR3, single precision in MVFR0, and MVE in MVFR1."""
        return Features(
            dsp=word(_ID_ISAR3) >> 4 & 0xF >= 3, fpu=word(_MVFR0) >> 4 & 0xF > 0, mve=word(_MVFR1) >> 8 & 0xF > 0
        )


def check_core(cpuid: int, target: CortexMTargetConfig, place: str) -> CortexM:
    """Identifies the core, and refuses one that is not the target's, before anything is loaded."""
    found = PARTS.get((cpuid >> 4) & 0xFFF)
    if found is None or cpuid >> 24 not in (0x41, 0x63):
        raise CortadoError(
            f"what answers at {place} is not a known Cortex-M (CPUID {cpuid:#010x}); expected {target.target_string}"
        )
    same = {found}.union(*(group for group in _SAME_CODE if found in group))
    if target.cpu is not CortexM.ANY and target.cpu not in same:
        raise CortadoError(
            f"the chip at {place} has a {found.value} (CPUID {cpuid:#010x}), but the model was compiled for "
            f"{target.target_string}; compile it with --target {found.value}"
        )
    return found


def check_features(word: Callable[[int], int], target: CortexMTargetConfig, core: CortexM, place: str) -> None:
    """Checks that the chip has the features that the target's code uses: otherwise the firmware would fault."""
    built = target if target.cpu is not CortexM.ANY else CortexMTargetConfig(core)
    if core in _NO_OPTIONS:
        return
    found = Features.read(word)
    needs = {
        "DSP instructions": (built.isas[0] is Isa.DSP and core in _MAYBE_DSP, found.dsp, "+nodsp"),
        "vector instructions (MVE)": (built.isas[0] is Isa.MVE, found.mve, "+nomve"),
        "a floating-point unit": (built.fpu is True, found.fpu, "+nofp"),
    }
    missing = {name: without for name, (used, there, without) in needs.items() if used and not there}
    if missing:
        name, without = next(iter(missing.items()))
        raise CortadoError(
            f"the {core.value} at {place} has no {name.removeprefix('a ')}, which {built.target_string} uses; compile "
            f"the model with --target {core.value}{without}"
        )


def check_ram(gdb: Gdb, place: ProbePlace) -> None:
    """Checks that words all over the RAM keep distinct values: beyond a smaller RAM there is nothing, or an alias of
    the same words."""
    start, size = place.ram.origin, place.ram.length
    addresses = [start, *(start + (1 << bit) for bit in range(8, size.bit_length()) if 1 << bit < size - 4)]
    addresses = sorted({*addresses, start + (size - 4) // 4 * 4})
    patterns = {address: (0xC0DE0000 ^ address * 2654435761) & 0xFFFFFFFF for address in addresses}
    try:
        for address, value in patterns.items():
            gdb.write(address, value.to_bytes(4, "little"))
        wrong = next((address for address, value in patterns.items() if gdb.word(address) != value), None)
    except GdbRefused as error:
        raise CortadoError(_no_ram(place, str(error))) from None
    if wrong is not None:
        raise CortadoError(_no_ram(place, f"the word at {wrong:#010x} does not keep what is written to it"))


def _no_ram(place: ProbePlace, why: str) -> str:
    ram = place.ram
    return (
        f"the chip at {place.name} has no RAM of {ram.length:,} bytes at {ram.origin:#010x} ({why}); state what it has "
        "with --chip or --ram ORIGIN:SIZE"
    )
