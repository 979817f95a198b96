"""A quantized model lowered for its artifacts: one program for both, or one for each."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from torch.export import ExportedProgram
from torch.fx import Node

from cortado.base.errors import CortadoError, NotInteger, Refused
from cortado.base.target import CortexMTargetConfig
from cortado.base.versions import EXECUTORCH, TORCH, numbers
from cortado.emit.pte.program import c_only, c_only_reason
from cortado.frontend.precision.islands import islands_hint
from cortado.frontend.quantize.convert import Quantized
from cortado.ir.op import operator_of, wider_elements
from cortado.ir.portable import FloatOperator, float_operators
from cortado.options import NO_EXECUTORCH, Activations, Artifacts, Options, Precision, PteKind
from cortado.passes import PIPELINE
from cortado.passes.base import CortexMPass
from cortado.plan.lowered import LoweredGraph, lowered_graph
from cortado.plan.pricing import lowered


@dataclass(frozen=True)
class Programs:
    """The programs of the C bundle and the .pte: the same one unless the .pte's has float calls, or a form of its
    own."""

    c: ExportedProgram | None
    pte: ExportedProgram | None
    bundle_missing: tuple[str, ...] = ()
    pte_missing: tuple[str, ...] = ()
    own_form: bool = False  # the .pte's was quantized separately, for ExecuTorch's int8 operators


@dataclass(frozen=True)
class Graphs:
    """The programs as graphs of operators; the .pte's is the C bundle's if they are the same."""

    c: LoweredGraph | None
    pte: LoweredGraph | None
    float_operators: tuple[FloatOperator, ...]  # of the .pte

    @staticmethod
    def of(programs: Programs) -> "Graphs":
        c = None if programs.c is None else lowered_graph(programs.c)
        floats = () if programs.pte is None else tuple(float_operators(programs.pte))
        apart = programs.pte is not None and (c is None or programs.own_form or bool(floats))
        return Graphs(c, lowered_graph(programs.pte) if programs.pte is not None and apart else c, floats)

    @property
    def reported(self) -> LoweredGraph:
        """The program of both artifacts; that of the .pte if there is no C bundle."""
        found = self.c or self.pte
        assert found is not None
        return found


_NOT_ASKED = "it was not requested (--artifacts)"


def programs_of(
    quantized: Quantized,
    target: CortexMTargetConfig,
    options: Options,
    intermediates: Path | None,
    passes: Sequence[type[CortexMPass]] = PIPELINE,
    int8_form: Callable[[], Quantized] | None = None,
    whole_form: Callable[[], Quantized] | None = None,
) -> Programs:
    """Lowers a model to the programs of the artifacts that were asked for. The .pte has a program of its own if calls
    can stay in float, if the C bundle's is for a stream (ExecuTorch runs whole windows), and if `int8_form` expresses
    unsupported operators in ones that ExecuTorch has. `whole_form` has no islands of float32."""
    programs = _programs(quantized, target, options, intermediates, passes)
    if int8_form is not None and programs.c is not None and programs.pte is None and _has_form(programs.c):
        place = None if intermediates is None else intermediates / "pte"
        other = _programs(int8_form(), target, options, place, passes)
        programs = replace(other, c=programs.c, own_form=other.pte is not None)
    if whole_form is not None and programs.c is not None and programs.pte is None and options.makes_operators:
        place = None if intermediates is None else intermediates / "pte"
        programs = _with_float_calls(programs, lambda: lowered(whole_form(), target, options, place, allow_float=True))
    return _without_c(programs, options)


def _with_float_calls(programs: Programs, lower: Callable[[], ExportedProgram]) -> Programs:
    """Adds the .pte in which ExecuTorch's float kernels compute what is float32 in the C bundle, or the reasons why
    there is none."""
    if without_executorch() is not None:
        return programs
    try:
        return replace(programs, pte=lower(), pte_missing=())
    except NotInteger as error:
        return replace(programs, pte_missing=error.reasons)
    except Refused as error:
        return replace(programs, pte_missing=(str(error),))


def _has_form(program: ExportedProgram) -> bool:
    """Whether only int16 codes, and calls that can be written in pieces, keep a program from being a .pte."""

    def has_form(node: Node) -> bool:
        operator = operator_of(node.target)
        return any(one.coded for one in wider_elements(node)) or (operator is not None and operator.in_pieces)

    return all(has_form(node) for node in program.graph_module.graph.nodes if c_only_reason(node) is not None)


def _programs(
    quantized: Quantized,
    target: CortexMTargetConfig,
    options: Options,
    intermediates: Path | None,
    passes: Sequence[type[CortexMPass]],
) -> Programs:
    def lower(allow_float: bool, place: Path | None) -> ExportedProgram:
        return lowered(quantized, target, options, place, allow_float=allow_float, passes=passes)

    stream = options.stream is not None
    without = _NOT_ASKED if options.artifacts is Artifacts.C else without_executorch()
    place = None if intermediates is None else intermediates / "pte"
    try:
        program = lowered(quantized, target, options, intermediates, stream=stream, passes=passes)
    except NotInteger as error:
        operators = without is None and options.makes_operators
        if not operators or not options.allow_float:
            hint = islands_hint(error.nodes, options)
            hint = hint or (_hint(lambda: lower(True, None)) if operators else "")
            raise NotInteger(error.nodes, error.reasons, hint, floating=error.floating) from error
        _check_no_budget(options, error.reasons)
        return Programs(None, lower(True, place), bundle_missing=error.reasons)
    if options.pte is PteKind.DELEGATE:
        return Programs(program, None)
    if without is not None:
        return Programs(program, None, pte_missing=(without,))
    missing = tuple(c_only(program))
    if missing and options.allow_float:
        try:
            return Programs(program, lower(True, place))
        except NotInteger as error:  # calls outside ATen have no float kernel either
            return Programs(program, None, pte_missing=error.reasons)
    if missing:
        return Programs(program, None, pte_missing=(*missing, *_brings_back(program, options)))
    return Programs(program, lower(False, place) if stream else program)


def _brings_back(program: ExportedProgram, options: Options) -> list[str]:
    """Suggests options with which there is a .pte."""
    wide = options.activations is Activations.INT16 or options.int16 or options.precision is Precision.AUTO
    both = options.artifacts is Artifacts.BOTH  # which a delegate requires
    found = ["--pte delegate writes a .pte with the C bundle's own network"] if both else []
    if wide and _has_form(program):
        found.append("without int16 (--activations, --int16, --precision) a .pte of ExecuTorch's operators is written")
    return found


def _without_c(programs: Programs, options: Options) -> Programs:
    """Drops the C bundle if only the .pte was asked for."""
    if options.artifacts is not Artifacts.PTE or programs.c is None:
        return programs
    if programs.pte is None:
        reasons = "\n  ".join(programs.pte_missing)
        hint = "" if options.allow_float else "\n--allow-float keeps this as ExecuTorch's float kernels"
        raise Refused(f"can't be a .pte, and nothing else was requested:\n  {reasons}{hint}")
    return replace(programs, c=None, bundle_missing=(_NOT_ASKED,))


def _hint(lower: Callable[[], ExportedProgram]) -> str:
    """Returns a hint at --allow-float, if that would help."""
    try:
        lower()
    except Exception:  # any error: the original message matters more than this hint
        return ""
    return (
        "\nExecuTorch has float kernels for this: --allow-float (allow_float=True in Options) writes a .pte with them, "
        "and no C bundle"
    )


def _check_no_budget(options: Options, reasons: Sequence[str]) -> None:
    given = (options.ram_limit, options.flash_limit, options.decide, options.camera, options.memory or None)
    if options.place or any(one is not None for one in given):
        raise CortadoError(
            "budgets, memories, sections, cameras and decisions are for the C bundle, and there will be none:"
            + "".join(f"\n  {reason}" for reason in reasons)
            + "\nCompile without --chip, --ram-budget, --flash-budget, --memory, --place, --input-format and --decide, "
            "or change these calls"
        )


def without_executorch() -> str | None:
    """Returns why there can be no .pte here, or None. With another torch than the pinned one, tries to import
    ExecuTorch."""
    if find_spec("executorch") is None:
        return NO_EXECUTORCH
    torch_version = TORCH.found or ""
    if numbers(torch_version)[:2] == numbers(TORCH.pinned)[:2]:
        return None
    try:
        import_module("executorch.exir")
    except Exception as error:  # another version of torch can raise anything
        return (
            f"executorch {EXECUTORCH.found} can't be used beside torch {torch_version} ({error}); it is tested with "
            f"torch {TORCH.pinned}"
        )
    return None
