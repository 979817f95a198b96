"""A compiled model in a folder: read back, run, and checked against its reference.

It runs on this machine, on an emulated board, on a chip behind a debug probe, and, for a delegate's .pte, on
ExecuTorch's runtime.
"""

import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from cortado.artifact.checked import Checked, Samples, TracedLayer, layers_in
from cortado.artifact.feeding import bundle_info, check_value, fed, is_picture, pictures_in, real_values, seen, split
from cortado.artifact.folder import compiled_inside
from cortado.artifact.manifest import REPORT, check_files, compare, is_remembered, read_report
from cortado.artifact.report import ChipReport, Report, TensorReport
from cortado.artifact.summary import html_summary, in_words
from cortado.base.arrays import ArrayType, Header, in_order, read_arrays, read_expected
from cortado.base.errors import CortadoError
from cortado.base.target import ANY, Core, CortexMTargetConfig
from cortado.options import PteKind
from cortado.run.bundle_info import BundleInfo, StoreRules
from cortado.run.runner import EXECUTORCH, HERE, NO_LIMITS, TRACE, RunLimits, RunResult, run_bundle, write_files
from cortado.run.silicon.place import is_probe, probe_text
from cortado.run.silicon.probe import ProbeRun
from cortado.run.toolchain import cache_dir

if TYPE_CHECKING:
    import torch

    from cortado.plan.lowered import LoweredGraph
    from cortado.plan.planned import Planned


# ---- delegated -------------------------------------------------------------------------------------------

NHWC = (0, 2, 3, 1)


def run_delegate(
    planned: "Planned",
    report: Report,
    given: Samples,
    expected: Samples,
    real: Callable[[Sequence[ArrayType]], list[ArrayType]],
    *,
    sequence: int | None,
    limits: RunLimits,
) -> Checked:
    """Runs a plan as a delegate, with this machine's kernels; `real` converts the resulting codes to real numbers."""
    from cortado.emit.image.files import portable_files
    from cortado.emit.image.writer import emit_image
    from cortado.emit.pte.delegate import emit_delegate
    from cortado.run.executorch_host import TIMEOUT_SECONDS, DelegateKernels, run_pte

    if report.input_rows is not None:
        raise CortadoError(
            f"{report.model} takes its input row by row, one with each call of the .pte; run it on a board, or "
            "with --on host"
        )
    image = emit_image(planned)
    pte = emit_delegate(planned, image, {"model": report.model})
    kernels = DelegateKernels(*portable_files(image))
    feeds = [[_named(one, x) for one, x in zip(report.inputs, sample, strict=True)] for sample in given]
    length = sequence or max(len(feeds), 1)
    found: list[list[ArrayType]] = []
    for start in range(0, len(feeds), length):  # state is reset by loading the file again
        seconds = limits.seconds or TIMEOUT_SECONDS
        done = run_pte(pte.data, feeds[start : start + length], timeout=seconds, delegate=kernels)
        found += [[_stored(one, x) for one, x in zip(report.outputs, sample, strict=True)] for sample in done]
    result = RunResult(EXECUTORCH, found)
    return Checked(result, expected, values=[real(sample) for sample in found])


def _named(tensor: TensorReport, value: ArrayType) -> ArrayType:
    """Permutes an image to the dimension order of the file's shapes; its memory format is channels-last."""
    return value.transpose(0, 3, 1, 2) if tuple(tensor.layout) == NHWC else value


def _stored(tensor: TensorReport, value: ArrayType) -> ArrayType:
    return np.ascontiguousarray(value.transpose(NHWC)) if tuple(tensor.layout) == NHWC else value


# ---- probed ----------------------------------------------------------------------------------------------


def probe_run(
    folder: Path, chip: ChipReport | None, rules: StoreRules, on: str, info: BundleInfo, limits: RunLimits
) -> ProbeRun:
    """Prepares a run on the chip that the model was compiled for, unless another chip or its memory is named."""
    named = "chip=" in on or "ram=" in on
    text = on if named or chip is None else probe_text(on, {"chip": chip.name})
    return ProbeRun(folder, info, [step.name for step in rules.steps], text, seconds=limits.seconds)


# ---- opened ----------------------------------------------------------------------------------------------

REFERENCE, EXAMPLE, CHECKS, PAGE = "reference.npz", "example.npz", "checks.json", "report.html"
EXPECTED = "expected.npz"  # the bundle's inputs for the example, and the outputs it must return
PTE_REFERENCE = "pte_reference.npz"  # for a .pte with float operators
FLOAT_TOLERANCE = 0.02
"""The tolerance of a .pte with float operators against torch, relative to the output's largest magnitude.

Two float libraries round differently in the last bit, and a quantize after them can then choose the next code: about
0.4 to 0.8 percent for each code that an output deviates. Without float operators the tolerance is zero.
"""


class Reference(NamedTuple):
    """The exact integer reference's results for samples."""

    feeds: Samples  # the bundle's inputs
    expected: Samples  # the bundle's expected outputs
    outputs: Samples  # the model's outputs, also expected of a .pte from the same graph


def planned_again(
    report: Report, graph: "LoweredGraph", target: CortexMTargetConfig, cores: tuple[Core, ...] | None = None
) -> "Planned":
    """Plans the same network with the same options again, for another target or with the kernels of these cores."""
    from cortado.plan.request import Feeding, program_of
    from cortado.plan.schedule import schedule

    time = None if report.stream is None else report.stream.dim
    camera = None if report.camera is None else report.camera.camera
    feeding = Feeding(rows=report.input_rows is not None, stream=time, camera=camera)
    program = program_of(report.model, graph, target, report.options.io, feeding, cores=cores)
    return schedule(replace(program, decision=report.rule), report.options.optimize)


def recorded_name(kind: str, position: int) -> str:
    """Returns the name of an array in EXPECTED."""
    return f"{kind}{position}"


@dataclass(frozen=True)
class Artifact:
    """A compiled model on disk. `ours`: this installation wrote it; `trusted`: it did, or the user vouches for it."""

    folder: Path
    report: Report
    trusted: bool = False
    ours: bool = False

    def __repr__(self) -> str:
        return f"<Artifact {self.folder}: {in_words(self.report)}>"

    def _repr_html_(self) -> str:
        """Returns the HTML that a notebook shows."""
        return html_summary(self.report)

    @staticmethod
    def open(folder: Path, *, trust: bool = False) -> "Artifact":
        """Opens the model in a folder, which may be untrusted. With `trust`, its contents may be executed here."""
        path = folder / REPORT
        if not folder.is_dir():
            raise CortadoError(f"{folder} is not a folder; expected one that `cortado compile` wrote")
        models = compiled_inside(folder)
        if models:
            raise CortadoError(
                f"{folder} holds no compiled model itself, but folders with one each: name one of "
                f"{', '.join(map(str, models))}"
            )
        if not path.is_file():
            raise CortadoError(f"{folder} holds no {REPORT}; expected a folder that `cortado compile` wrote")
        report, found = read_report(path)
        ours = is_remembered(found)
        artifact = Artifact(folder, report, trusted=trust or ours, ours=ours)
        artifact.check_files()
        compare(report, folder / (PTE_REFERENCE if report.bundle_missing else REFERENCE))
        return artifact

    def check_files(self) -> None:
        """Checks that every file is as compiled, and that no other would be compiled with them."""
        check_files(self.folder, self.report.artifacts, ours=self.ours)

    def check_trust(self) -> None:
        """Refuses a foreign folder before anything that depends on its data is executed on this machine."""
        if not self.trusted:
            raise CortadoError(
                f"{self.folder} was not compiled by this installation (or its record in {cache_dir()} is gone), and "
                "this would execute its code on this machine. Run it on an emulated board instead, which can't reach "
                "this machine; or, if you would let its maker run a program here, add --trust (in Python: "
                "Artifact.open(folder, trust=True))"
            )

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """Blames unexpected errors on the folder if it is foreign: they are then no bugs of Cortado."""
        try:
            yield
        except (CortadoError, KeyboardInterrupt):
            raise
        except Exception as error:
            if self.ours:
                raise
            what = " ".join([type(error).__name__, *str(error).splitlines()[:1]])
            raise CortadoError(f"{self.folder} holds a model that can't be run ({what}); compile it again") from error

    @property
    def info(self) -> BundleInfo:
        return bundle_info(self.report, foreign=not self.trusted)

    def check_sequence(self, sequence: int | None) -> None:
        """Checks that a sequence length is only given for a model with state, whose samples are steps."""
        if sequence is not None and not self.report.state:
            raise CortadoError(
                f"a sequence length was given (--sequence {sequence}), but {self.folder} has no state: its samples are "
                "independent; leave it out"
            )
        if sequence is not None and sequence < 1:
            raise CortadoError(f"--sequence {sequence} is not a number of steps; expected 1 or more")

    def for_target(self, target: CortexMTargetConfig) -> "Artifact":
        """Returns the artifact to be built for this target; refuses a target that it was not compiled for."""
        found = self.info.target
        if found not in (target, ANY):
            raise CortadoError(
                f"{self.folder} was compiled for {found.target_string}, expected {target.target_string}; "
                f"compile it again with --target {target.target_string}, or with --target cortex-m for every core"
            )
        return replace(self, report=replace(self.report, target=target.target_string))

    def example(self) -> list[ArrayType]:
        """Returns the default input of `run`: the first of the calibration data."""
        headers = {tensor.name: Header(tensor.model_shape) for tensor in self.report.inputs}
        return list(read_expected(self.folder / EXAMPLE, headers).values())

    def read_samples(self, path: Path) -> Samples:
        """Reads samples from a .npy file, or from a .npz file with an array per input (by name, or else in order)."""
        arrays = in_order(read_arrays(path), [tensor.name for tensor in self.report.inputs], path)
        return self.samples(arrays, [str(path)] * len(arrays))

    def samples(self, arrays: Sequence[ArrayType], names: Sequence[str]) -> Samples:
        """Splits an array per input into samples: one, or several along the first dimension or an additional one before
        it."""
        if len(arrays) != len(self.report.inputs):
            raise CortadoError(f"{len(arrays)} inputs were given, expected {len(self.report.inputs)}")
        if is_picture(self.report, arrays[0]):
            return [[picture] for picture in pictures_in(self.report, arrays[0], names[0])]
        named = list(zip(arrays, names, strict=True))
        groups = [split(tensor, *one) for tensor, one in zip(self.report.inputs, named, strict=True)]
        counts = {len(group) for group in groups}
        if len(counts) > 1:
            places = " and ".join(dict.fromkeys(names))
            raise CortadoError(f"{places} holds different numbers of samples for the model's inputs: {sorted(counts)}")
        samples = [list(sample) for sample in zip(*groups, strict=True)]
        if not samples:
            raise CortadoError(f"{names[0]} holds no samples")
        for number, sample in enumerate(samples):
            for position, value in enumerate(sample):
                which = f", sample {number}," if len(samples) > 1 else ""
                self.check_input(position, value, f"{names[position]}{which}")
        return samples

    def store_rules(self) -> StoreRules:
        """Returns the allowed stores of every kernel call, as the compiler planned them."""
        path = self.folder / CHECKS
        try:
            return StoreRules.from_json(json.loads(path.read_text()))
        except (ValueError, TypeError, KeyError) as error:  # damaged, or of an earlier version
            raise CortadoError(f"{path} is not a table of this version ({error}); compile the model again") from error

    def run(
        self,
        samples: Sequence[Sequence[ArrayType]],
        on: str | None = None,
        *,
        check_stores: bool = False,
        timed: bool = False,
        flags: Sequence[str] = (),
        sequence: int | None = None,
        limits: RunLimits = NO_LIMITS,
    ) -> Checked:
        """Runs float (or already quantized int8) samples, or a camera's pictures, and checks them against the
        reference.

        Samples of a model with state are steps, in order: of one sequence, or of several that are `sequence` steps
        long. State has its initial values at the start of each sequence, and so at the first sample of every run.

        With `check_stores`, an emulated board also compares every store with what its step may write; with `timed`, it
        models the core's cycles for each step of the first sample. `flags` are passed on to the compiler.
        """
        looked = seen(self.report, samples, on)
        samples = looked.samples
        for number, sample in enumerate(samples):
            if len(sample) != len(self.report.inputs):
                raise CortadoError(f"sample {number} has {len(sample)} arrays, expected {len(self.report.inputs)}")
            for position, value in enumerate(sample):
                self.check_input(position, value, f"input {position} of sample {number}")
        self.check_sequence(sequence)
        if on == EXECUTORCH:
            return self.run_on_executorch(samples, sequence=sequence, limits=limits)
        self.check_bundle()
        feeds, expected = self._recorded(samples) or self._referenced(samples, on, sequence)
        stores = looked.allowed(self.report, self.store_rules() if check_stores else None)
        steps, info = self._steps() if timed else None, looked.info(self.report, self.info)
        run = partial(self.execute, looked.lines or feeds, on, flags=flags, sequence=sequence, limits=limits)
        return self.checked(run(stores=stores, timed=steps, info=info), expected)

    def _steps(self) -> StoreRules | None:
        """Returns the steps to attribute cycles to; None for a model of an earlier version."""
        try:
            return self.store_rules()
        except CortadoError:
            return None

    def _referenced(
        self, samples: Sequence[Sequence[ArrayType]], on: str | None, sequence: int | None
    ) -> tuple[Samples, Samples | None]:
        """Returns the bundle's inputs and its expected outputs. The reference needs torch; without it a board runs
        unchecked."""
        try:
            return self.reference(samples, sequence=sequence)[:2]
        except ModuleNotFoundError as error:
            if (error.name or "").split(".")[0] != "torch" or on in HERE:
                raise
        feeds = [[fed(*pair) for pair in zip(self.report.inputs, sample, strict=True)] for sample in samples]
        return [self._pushed(feed) for feed in feeds], None

    def checked(self, result: RunResult, expected: Samples | None) -> Checked:
        """Combines a run of the bundle with the reference's results, if there are any."""
        values = [self.real(outputs) for outputs in result.samples]
        return Checked(result, expected or [], values=values, compared=expected is not None)

    def execute(
        self,
        feeds: Sequence[Sequence[ArrayType]],
        on: str | None = None,
        *,
        stores: StoreRules | None = None,
        timed: StoreRules | None = None,
        flags: Sequence[str] = (),
        sequence: int | None = None,
        progress: Callable[[int], None] = lambda done: None,
        info: BundleInfo | None = None,
        limits: RunLimits = NO_LIMITS,
    ) -> RunResult:
        """Runs a bundle on `feeds` (`info` overrides its description), here or on a board; `progress` gets the number
        done."""
        info = info or self.info
        if on in HERE:
            return self._run_here(feeds, on, flags, sequence, progress, info, limits)
        if is_probe(on):
            self.check_trust()
            run = probe_run(self.folder, self.report.chip, self.store_rules(), str(on), info, limits)
            return replace(run, timed=timed is not None).run(feeds, sequence, progress)
        return run_bundle(
            self.folder,
            info,
            feeds,
            on,
            stores=stores,
            timed=timed,
            flags=flags,
            sequence=sequence,
            progress=progress,
            limits=limits,
        )

    def check_bundle(self) -> None:
        """Raises if the model has calls that can't be in a C bundle."""
        if self.report.bundle_missing:
            reasons = "\n  ".join(self.report.bundle_missing)
            raise CortadoError(
                f"{self.folder} holds no C bundle, only a .pte (run it with "
                f"`cortado run {self.folder} --on executorch`):\n  {reasons}"
            )

    def run_on_executorch(
        self,
        samples: Sequence[Sequence[ArrayType]],
        reference: Reference | None = None,
        *,
        sequence: int | None = None,
        limits: RunLimits = NO_LIMITS,
    ) -> Checked:
        """Runs the .pte on ExecuTorch's own runtime. `reference` has these samples' results, if known."""
        self.check_trust()
        from cortado.run.executorch_host import FLOAT_TEMP_BYTES, TIMEOUT_SECONDS, run_pte

        if self.report.pte is None:
            raise CortadoError(f"{self.folder} holds no .pte to run: {'; '.join(self.report.pte_missing)}")
        if self.report.pte.kind is PteKind.DELEGATE:
            known = reference or self.reference(samples, sequence=sequence)
            codes = known.feeds, known.expected
            return run_delegate(self.portable, self.report, *codes, self.real, sequence=sequence, limits=limits)
        feeds = [[self._as_read(i, x) for i, x in enumerate(sample)] for sample in samples]
        if reference is not None and self.pte_graph is self.graph:
            expected = reference.outputs
        else:
            runs = self.runs(feeds, self.pte_graph, sequence)
            expected = [[one[name].numpy() for name in self.pte_graph.outputs] for one in runs]
        tolerance, temp = (FLOAT_TOLERANCE, FLOAT_TEMP_BYTES) if self.report.float_operators else (0.0, 0)
        length = sequence or max(len(feeds), 1)
        sequences = [feeds[start : start + length] for start in range(0, len(feeds), length)]
        path, seconds = self.folder / f"{self.report.prefix}.pte", limits.seconds or TIMEOUT_SECONDS
        found = [outputs for steps in sequences for outputs in run_pte(path, steps, temp_bytes=temp, timeout=seconds)]
        return Checked(RunResult(EXECUTORCH, found), expected, values=found, real=True, tolerance=tolerance)

    def _run_here(
        self,
        feeds: Sequence[Sequence[ArrayType]],
        on: str | None,
        flags: Sequence[str],
        sequence: int | None = None,
        progress: Callable[[int], None] = lambda done: None,
        info: BundleInfo | None = None,
        limits: RunLimits = NO_LIMITS,
    ) -> RunResult:
        self.check_trust()
        from cortado.emit.c.bundle import emit_c

        with tempfile.TemporaryDirectory(prefix="cortado-") as temporary:
            write_files(Path(temporary), emit_c(self.portable).files)
            info = replace(info or self.info, regions=())  # on this machine one memory replaces several
            return run_bundle(
                Path(temporary), info, feeds, on, flags=flags, sequence=sequence, progress=progress, limits=limits
            )

    @cached_property
    def portable(self) -> "Planned":
        """Returns the same schedule with portable kernels: this machine has none of the core's instructions."""
        return planned_again(self.report, self.graph, self.info.target, (Core.PORTABLE,))

    def trace(self, feed: Sequence[ArrayType], on: str | None = None) -> dict[str, TracedLayer]:
        """Returns every layer's output for one sample of `reference`'s feeds, recorded row by row as the kernels write
        it.

        The network runs in its own schedule, in which no layer's output need ever be whole in memory.
        """
        if on in HERE:
            from cortado.plan.checks import as_json

            rules = StoreRules.from_json(as_json(self.portable, functions=()))
            result = self._run_here([feed], on, (TRACE,))
        else:
            rules = self.store_rules()
            result = run_bundle(self.folder, self.info, [feed], on, count=False, flags=(TRACE,))
        return layers_in(result.trace, rules, self.graph, str(self.folder))

    @cached_property
    def graph(self) -> "LoweredGraph":
        """Returns the lowered graph of both artifacts, or of the C bundle alone."""
        return self._graph(REFERENCE)

    @cached_property
    def pte_graph(self) -> "LoweredGraph":
        """Returns the lowered graph of the .pte: its own if it has float operators, has a form of its own, or is
        alone."""
        own = self.report.float_operators or self.report.bundle_missing or self.report.pte_form is not None
        return self._graph(PTE_REFERENCE) if own else self.graph

    def _graph(self, name: str) -> "LoweredGraph":
        from cortado.plan.lowered import from_bytes

        try:
            return from_bytes((self.folder / name).read_bytes())
        except Exception as error:  # a damaged file raises whatever zipfile, json and numpy do
            raise CortadoError(f"{self.folder / name} can't be read ({error}); compile the model again") from error

    def values(self, sample: Sequence[ArrayType], graph: "LoweredGraph | None" = None) -> dict[str, "torch.Tensor"]:
        """Returns every value of the lowered graph for one sample, computed by the exact integer reference."""
        return next(self.runs([sample], self.graph if graph is None else graph, None))

    def runs(
        self, samples: Sequence[Sequence[ArrayType]], graph: "LoweredGraph", sequence: int | None
    ) -> Iterator[dict[str, "torch.Tensor"]]:
        """Yields every value of the lowered graph for each sample; state carries over from one to the next."""
        from cortado.plan.lowered import after, run_reference

        state = None
        for number, sample in enumerate(samples):
            if sequence is not None and number % sequence == 0:
                state = None
            values = run_reference(graph, self._tensors(sample), state)
            state = after(graph, values)
            yield values

    def _tensors(self, sample: Sequence[ArrayType]) -> list["torch.Tensor"]:
        import torch

        return [torch.from_numpy(np.asarray(self.as_float(i, x), order="C")) for i, x in enumerate(sample)]

    def feed(self, sample: Sequence[ArrayType]) -> list[ArrayType]:
        """Returns the bundle's inputs for a sample, computed by the part of the reference before them."""
        from cortado.plan.lowered import run_reference

        values = run_reference(self._entry, self._tensors(sample))
        return self._pushed([values[tensor.node].numpy() for tensor in self.report.inputs])

    def _pushed(self, feed: list[ArrayType]) -> list[ArrayType]:
        """Returns the inputs of a run: in a stream, the rows of the window that its output reads."""
        stream = self.report.stream
        return feed if stream is None else [stream.windows.read(feed[0])]

    @cached_property
    def _entry(self) -> "LoweredGraph":
        """Returns the subgraph that computes the bundle's inputs from the model's."""
        return self.graph.up_to([tensor.node for tensor in self.report.inputs])

    def _recorded(
        self, samples: Sequence[Sequence[ArrayType]]
    ) -> tuple[list[list[ArrayType]], list[list[ArrayType]]] | None:
        """Returns the results of `reference` for the example as stored at compile time, so that torch need not be
        loaded."""
        example = self.example()
        if len(samples) != 1 or not all(np.array_equal(a, b) for a, b in zip(samples[0], example, strict=True)):
            return None
        feeds, expected = self.recorded()
        return [self._pushed(feeds)], [expected]

    def recorded(self) -> tuple[list[ArrayType], list[ArrayType]]:
        """Returns the example's inputs as fed to the bundle, and the outputs it must return."""
        kinds = {"input": self.report.inputs, "output": self.report.outputs}
        names = {kind: [recorded_name(kind, i) for i in range(len(tensors))] for kind, tensors in kinds.items()}
        headers = {
            name: Header(tensor.shape, tensor.dtype.value)
            for kind, tensors in kinds.items()
            for name, tensor in zip(names[kind], tensors, strict=True)
        }
        arrays = read_expected(self.folder / EXPECTED, headers)
        return [arrays[name] for name in names["input"]], [arrays[name] for name in names["output"]]

    def reference(
        self,
        samples: Sequence[Sequence[ArrayType]],
        progress: Callable[[int], None] = lambda done: None,
        *,
        sequence: int | None = None,
    ) -> Reference:
        found = Reference([], [], [])
        for number, values in enumerate(self.runs(samples, self.graph, sequence)):
            progress(number)
            found.feeds.append(self._pushed([values[tensor.node].numpy() for tensor in self.report.inputs]))
            found.expected.append([values[tensor.node].numpy() for tensor in self.report.outputs])
            found.outputs.append([values[name].numpy() for name in self.graph.outputs])
        return found

    def real(self, outputs: Sequence[ArrayType]) -> list[ArrayType]:
        """Dequantizes one sample's outputs of the bundle, in the model's layout."""
        found = zip(self.report.outputs, outputs, strict=True)
        return [real_values(tensor, codes).transpose(np.argsort(tensor.layout)) for tensor, codes in found]

    def as_float(self, position: int, value: ArrayType) -> ArrayType:
        """Dequantizes codes, which the reference quantizes back to the same codes."""
        return real_values(self.report.inputs[position], value) if value.dtype.kind == "i" else value

    def _as_read(self, position: int, value: ArrayType) -> ArrayType:
        """Returns an input as the .pte reads it: codes dequantized, integers in the network's own type."""
        tensor = self.report.inputs[position]
        whole = tensor.scale is None and value.dtype.kind in "iu" and np.dtype(tensor.dtype.value).kind in "iu"
        return value.astype(tensor.dtype.value) if whole else self.as_float(position, value)

    def check_input(self, position: int, value: ArrayType, where: str) -> None:
        """Checks shape and dtype of one sample's input."""
        check_value(self.report.inputs[position], value, where)


def load(folder: str | Path, *, trust: bool = False) -> Artifact:
    """Opens the compiled model in a folder. With `trust`, one from another installation may run on this machine."""
    if not isinstance(folder, str | Path):
        raise CortadoError(f"folder must be a path, found {folder!r}")
    return Artifact.open(Path(folder), trust=trust)
