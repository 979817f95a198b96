"""Several compiled models as one program's C: the kernels once, and on request one arena for all."""

from collections.abc import Sequence
from pathlib import Path

from torch import Tensor

from cortado.api import Compiled
from cortado.artifact.folder import ModelFacts, TogetherFacts, write_together
from cortado.base.errors import CortadoError
from cortado.emit.c.together_source import JoinedProgram as TogetherInC
from cortado.emit.c.together_source import ProgramMember, emit_together
from cortado.emit.packages import package_files
from cortado.emit.packages.content import Content
from cortado.options import Options, PackageKind
from cortado.plan.lowered import run_reference
from cortado.run import measure
from cortado.run.bundle_info import BundleInfo


def save_together(compiled: Sequence[Compiled], folder: str | Path, *, shared_arena: bool = False) -> TogetherFacts:
    """Writes the C code of all models, compiled for one target, into one folder. With `shared_arena`, models that keep
    nothing between two calls share one arena: running one overwrites the inputs and outputs of the others."""
    _check(compiled)
    program = emit_together([_member(one) for one in compiled], one_arena=shared_arena)
    facts = _facts(compiled, program)
    _check_budget(facts, compiled[0].options)
    prefixes, first = [model.prefix for model in facts.models], compiled[0]
    files: dict[str, str | bytes] = dict(program.files)
    for kind in first.options.package:
        ids, version = [model.id for model in facts.models], first.options.model_version
        each = " and ".join(dict.fromkeys(one.report.arithmetic for one in compiled))
        files |= package_files(kind, Content.of(prefixes, first.target, program.files, ids, version, arithmetic=each))
    write_together(Path(folder), files, facts)
    return facts


def _check(compiled: Sequence[Compiled]) -> None:
    if isinstance(compiled, Compiled):
        raise CortadoError("expected a list of compiled models, found one: write it with its save(folder)")
    if not compiled:
        raise CortadoError("no models were given, expected at least one to write")
    for one in compiled:
        if not isinstance(one, Compiled):
            raise CortadoError(
                f"expected compiled models of one method each, found {type(one).__name__}: several methods are a "
                "program of their own; write it with its save(folder)"
            )
        if one.bundle is None:
            reasons = "\n  ".join(one.report.bundle_missing)
            raise CortadoError(f"{one.name} has no C bundle, expected one to combine with others:\n  {reasons}")
        given = [flag for flag, value in (("--memory", one.options.memory), ("--place", one.options.place)) if value]
        if given:
            raise CortadoError(
                f"{one.name} was compiled with {' and '.join(given)}: combined models share one arena and sections. "
                "Compile it without, and place them all with CORTADO_ARENA and CORTADO_WEIGHTS"
            )
        if PackageKind.WEB in one.options.package:
            raise CortadoError(
                f"{one.name} was compiled with --package web, but a page shows one model: save each to a folder of its "
                "own"
            )
    targets = list(dict.fromkeys(one.target.target_string for one in compiled))
    if len(targets) > 1:
        raise CortadoError(f"models for {' and '.join(targets)} can't be one program; compile all for one target")


def _member(one: Compiled) -> ProgramMember:
    assert one.planned is not None
    assert one.graph is not None
    memory, version = one.report.memory, one.options.model_version
    stack = None if memory is None else memory.stack_bytes
    if not one.options.selftest:
        return ProgramMember(one.planned, stack, version=version)
    tested = None if memory is None else memory.selftest_stack_bytes
    values = run_reference(one.graph, one.example)
    known = {name: value.numpy() for name, value in values.items() if isinstance(value, Tensor)}
    return ProgramMember(one.planned, stack, tested, known, version)


def _facts(compiled: Sequence[Compiled], program: TogetherInC) -> TogetherFacts:
    models, infos = [], []
    for one, bundle in zip(compiled, program.bundles, strict=True):
        assert one.planned is not None
        pushed = one.planned.program.pushed
        prefix, state = one.report.prefix, bool(one.planned.program.state)
        infos.append(BundleInfo(prefix, one.target, (), (), 0 if pushed is None else pushed.row_bytes, state))
        models.append(
            ModelFacts(
                model=one.name,
                prefix=prefix,
                id=one.planned.program.identity,
                arena_bytes=one.planned.plan.peak,
                shares_arena=prefix in program.sharing,
                weights_bytes=bundle.weights_bytes,
            )
        )
    return TogetherFacts(
        target=compiled[0].target.target_string,
        models=tuple(models),
        shared_arena_bytes=program.arena_bytes,
        code_bytes=measure.measured(program.files, program.bundles, infos).code_bytes,
    )


def _check_budget(facts: TogetherFacts, options: Options) -> None:
    """Checks the budgets for all models together; each was checked by itself when compiled."""
    needed = facts.weights_bytes + (facts.code_bytes or 0)
    for what, found, limit in (("RAM", facts.arena_bytes, options.ram_limit), ("flash", needed, options.flash_limit)):
        if limit is not None and found > limit:
            raise CortadoError(
                f"together the models need {found:,} bytes of {what}, expected at most {limit:,}; "
                f"{'let them share one arena (--shared-arena), or ' if what == 'RAM' else ''}compile smaller models"
            )
