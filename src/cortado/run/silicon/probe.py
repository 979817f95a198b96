"""A bundle run on a chip through its debug probe: loaded, fed and read by GDB, with faults explained."""

import struct
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from cortado.base.arrays import ArrayType
from cortado.base.errors import CortadoError
from cortado.base.target import CortexM, CortexMTargetConfig
from cortado.run.bundle_info import BundleInfo
from cortado.run.elf import Image, load_image
from cortado.run.qemu import BoardFaultError
from cortado.run.runner import RunResult, split_outputs
from cortado.run.silicon.chip import check_core, check_features, check_ram
from cortado.run.silicon.firmware import PROFILE, build_probe
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
