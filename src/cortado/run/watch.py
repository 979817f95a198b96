"""The emulator's plugin, which counts instructions exactly and checks every store against an allowed set."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cortado.base.errors import CortadoError
from cortado.base.regions import ByteRange
from cortado.base.system import DEVICE
from cortado.run import toolchain
from cortado.run.elf import Image
from cortado.timing.cycles import BasicBlock, Edge, Flow

IDLE_SECONDS = 60  # that a core may sleep: nothing will wake it
MARKER_STEP = "cortado_marker_step"


# Functions that run between the markers but are no part of the model.
UNCOUNTED = (
    *(f"cortado_marker_{word}" for word in ("begin", "end", "pause", "resume")),
    MARKER_STEP,
    "cortado_harness_once",
)
KEYS = ("region", "segment", "pc", "block", "edge", "stores", "stray", "complete")  # of the plugin's report


@dataclass(frozen=True)
class AllowedWrites:
    """The half-open ranges of offsets that may be written from one step marker to the next. `step` is for reports."""

    step: int
    ranges: tuple[ByteRange, ...]


@dataclass(frozen=True)
class StoreTable:
    """The bytes that a run may write: entry n of `calls` applies from the n-th execution of a step marker to the next.

    Offsets count from `base`, a symbol (the arena) or an address. `always` may be written during every call, as may the
    stack and all of `symbols`. Everything else is forbidden, and before the first step marker `calls` is too.
    """

    base: str | int
    calls: tuple[AllowedWrites, ...]
    always: tuple[ByteRange, ...] = ()
    symbols: tuple[str, ...] = ()

    def address(self, image: Image) -> int:
        return self.base if isinstance(self.base, int) else image.require(self.base).address


@dataclass(frozen=True)
class Watch:
    """Instructions for the plugin: what to watch between the begin and end markers.

    `steps` are the functions whose calls divide a run: by default cortado_marker_step if the firmware has it. Naming
    the kernel-calling functions instead needs no markers in the firmware. `order` is the step of each of those calls:
    with it, control-flow edges are counted by step.
    """

    count: bool = False
    stores: StoreTable | None = None
    steps: tuple[str, ...] | None = None
    order: tuple[int, ...] | None = None


@dataclass(frozen=True)
class SampleCount:
    """The instructions of one run: in total, before the first step marker, and of each call."""

    total: int
    before: int
    calls: tuple[int, ...]


@dataclass(frozen=True)
class Counts:
    """Instructions executed between the markers (not cycles), without harness and markers."""

    samples: tuple[SampleCount, ...]
    functions: Mapping[str, int]  # over all samples, most first
    addresses: Mapping[int, int]


@dataclass(frozen=True)
class StrayStore:
    """A store outside of the table: the instruction, the address, and the run and call it occurred in.

    `step` is the table's; None before the first step marker or past the table's end.
    """

    pc: int
    place: str
    address: int
    size: int
    sample: int
    call: int
    step: int | None


class StrayStoreError(CortadoError):
    """A kernel wrote where the compiler's plan doesn't let it."""


@dataclass(frozen=True)
class StoreReport:
    """The result of comparing every store of a run with the table, including the first violation."""

    stores: int
    strays: int
    first: StrayStore | None
    calls: tuple[int, ...]  # step markers executed, per sample
    expected_calls: int
    base: int

    def problem(self, names: Sequence[str] = ()) -> str | None:
        """Describes the violation in a sentence; None if there is none. `names` are the steps' names."""
        if self.first is not None:
            return self._stray_text(self.first, names)
        wrong = [made for made in self.calls if made != self.expected_calls]
        if wrong:
            return f"a run made {wrong[0]} calls, its store table has {self.expected_calls}"
        return None

    def check(self, names: Sequence[str] = ()) -> None:
        """Raises StrayStoreError if there is a problem."""
        problem = self.problem(names)
        if problem is not None:
            raise StrayStoreError(problem)

    def _stray_text(self, stray: StrayStore, names: Sequence[str]) -> str:
        if stray.step is None:
            when = "before the first step" if stray.call < 0 else "after the last step of its table"
        else:
            when = f"in step {stray.step}"
            when += f" ({names[stray.step]})" if stray.step < len(names) else ""
            when += f", call {stray.call}"
        offset = stray.address - self.base
        return (
            f"stray store by {stray.place}: {stray.size} bytes at {stray.address:#010x} (arena {offset:+#x}) "
            f"{when}, sample {stray.sample}; {self.strays} stray of {self.stores} stores"
        )


def plugin_path() -> Path:
    """Returns the QEMU plugin, built if necessary."""
    folder = DEVICE / "plugin"
    flags = ["-std=c99", "-D_POSIX_C_SOURCE=200809L", "-O2", "-Wall", "-Wextra", "-Wconversion", "-Werror"]
    flags += ["-fvisibility=hidden", "-pthread"]
    return toolchain.compile_shared([folder / "watch.c"], [folder], flags, "cortado-watch", ["-pthread"])


def _merge(ranges: Sequence[ByteRange]) -> list[ByteRange]:
    """Sorts ranges and joins touching ones, so that one store may straddle two of them."""
    merged: list[ByteRange] = []
    for low, high in sorted(ranges):
        if low > high:
            raise CortadoError(f"a range of the store table ends at {high:#x}, before its start {low:#x}")
        if merged and low <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return merged


def _range_text(ranges: Sequence[ByteRange], base: int) -> str:
    return " ".join(f"{base + low:#x} {base + high:#x}" for low, high in _merge(ranges))


def _store_lines(table: StoreTable, image: Image) -> list[str]:
    base = table.address(image)
    stack = (image.require("cortado_stack_limit").address, image.require("cortado_stack_top").address)
    allowed = [stack, *((base + low, base + high) for low, high in table.always)]
    for name in table.symbols:
        symbol = image.require(name)
        allowed.append((symbol.address, symbol.address + symbol.size))
    lines = ["stores", *(f"always {low:#x} {high:#x}" for low, high in _merge(allowed))]
    return lines + [f"call {call.step} {_range_text(call.ranges, base)}" for call in table.calls]


def skipped_ranges(image: Image) -> list[ByteRange]:
    """Returns the code between the markers that is no part of the model."""
    skipped = [symbol for symbol in map(image.find, UNCOUNTED) if symbol is not None]
    return [(symbol.address, symbol.address + symbol.size) for symbol in skipped]


def watch_config(watch: Watch | None, image: Image, report: Path, instructions: int) -> str:
    """Returns the plugin's input; without a watch it only limits the number of instructions."""
    lines = [f"report {report.name}", f"limit {instructions}", f"idle {IDLE_SECONDS}"]
    if watch is None:
        return "\n".join(lines) + "\n"
    lines += [f"{word} {image.require(f'cortado_marker_{word}').address:#x}" for word in ("begin", "end")]
    pauses = {word: image.find(f"cortado_marker_{word}") for word in ("pause", "resume")}
    lines += [f"{word} {symbol.address:#x}" for word, symbol in pauses.items() if symbol is not None]
    steps = watch.steps
    if steps is None:
        steps = (MARKER_STEP,) if image.find(MARKER_STEP) else ()
    lines += [f"step {image.require(name).address:#x}" for name in steps]
    lines += [f"skip {low:#x} {high:#x}" for low, high in skipped_ranges(image)]
    if watch.count:
        lines.append("count")
    if watch.order is not None:
        lines.append("edges")
    if watch.stores is not None:
        lines += _store_lines(watch.stores, image)
    elif watch.order is not None:
        lines += [f"call {step}" for step in watch.order]
    return "\n".join(lines) + "\n"


def read_rows(path: Path) -> dict[str, list[list[int]]]:
    """Parses the plugin's report into rows of numbers by keyword."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    if not text.endswith("complete\n"):
        raise CortadoError(
            "the emulator's plugin wrote no report: is this QEMU built with TCG plugins (API version 1)?"
        )
    rows: dict[str, list[list[int]]] = {key: [] for key in KEYS}
    for line in text.splitlines():
        key, *numbers = line.split()
        rows[key].append([int(number, 0) for number in numbers])
    return rows


def read_counts(rows: Mapping[str, list[list[int]]], image: Image) -> Counts:
    per_sample: list[list[int]] = [[] for _ in rows["region"]]
    for sample, _, instructions in rows["segment"]:
        if sample < len(per_sample):  # a run that faulted leaves a region open
            per_sample[sample].append(instructions)
    samples = tuple(
        SampleCount(total, segments[0], tuple(segments[1:]))
        for (total, _), segments in zip(rows["region"], per_sample, strict=True)
    )
    addresses = {pc: count for pc, count in sorted(rows["pc"])}
    functions: dict[str, int] = {}
    for pc, count in addresses.items():
        name = image.function_at(pc)
        functions[name] = functions.get(name, 0) + count
    most_first = dict(sorted(functions.items(), key=lambda item: (-item[1], item[0])))
    return Counts(samples, most_first, addresses)


def read_flow(rows: Mapping[str, list[list[int]]]) -> Flow:
    blocks = {number: BasicBlock(address, instructions) for number, address, instructions in rows["block"]}
    edges = tuple(Edge(step, blocks.get(before), blocks[after], count) for step, before, after, count in rows["edge"])
    return Flow(edges)


def read_stores(rows: Mapping[str, list[list[int]]], image: Image, table: StoreTable) -> StoreReport:
    first = None
    if rows["stray"]:
        pc, address, size, sample, call, step = rows["stray"][0]
        first = StrayStore(pc, image.place(pc), address, size, sample, call, step if step >= 0 else None)
    ((stores, strays),) = rows["stores"]
    calls = tuple(made for _, made in rows["region"])
    return StoreReport(stores, strays, first, calls, len(table.calls), table.address(image))
