"""The program as a C bundle: schedule, data, only the kernels it needs, a CMake target, and a README."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from cortado.base.errors import CortadoError
from cortado.base.names import c_identifier
from cortado.base.regions import WeightPlacement
from cortado.base.target import ALIGNED_ONLY
from cortado.emit.c.arena import placing_macros
from cortado.emit.c.camera import camera_files, camera_sources
from cortado.emit.c.data import Arrays, DataArray
from cortado.emit.c.decision import decision_in_c, decision_sources
from cortado.emit.c.example import Interface
from cortado.emit.c.header import header_text, stack_fact
from cortado.emit.c.identity import BUILD, build_of, renamed_arrays
from cortado.emit.c.layers import Layers
from cortado.emit.c.library import LICENSE, KernelSet, cmake_text, kernel_files, license_text, own_sources
from cortado.emit.c.readme import readme_text, stack_row
from cortado.emit.c.selftest import (
    SELFTEST_SOURCE,
    TestedCall,
    methods_selftest_files,
    selftest_declaration,
    selftest_stack_fact,
)
from cortado.emit.c.source import ModelSource, float_sources
from cortado.emit.c.state import SAVING_SOURCE, state_in_c
from cortado.emit.c.tables import build_tables
from cortado.plan.planned import Planned
from cortado.plan.program import Program


@dataclass(frozen=True)
class Bundle:
    """The files of a bundle by relative path, and facts about their contents."""

    files: Mapping[str, str]
    calls: tuple[str, ...]  # the functions of MODEL.c that call kernels
    constants: tuple[DataArray, ...]  # the arrays of MODEL_data.c
    weights_bytes: int  # in one core's build; for several cores, the maximum
    sources: tuple[str, ...]  # the kernels in use, as files of kernels/src
    section_bytes: Mapping[str, int]  # bytes of constants in each section that the user named
    build: str  # the hash that ties its own files together

    def __repr__(self) -> str:
        return f"<Bundle of {len(self.files)} files, {self.weights_bytes:,} bytes of constants>"


def with_stack(bundle: Bundle, planned: Planned, stack_bytes: int | None) -> Bundle:
    """Fills in the bundle's stack use, which is known once its code has been compiled."""
    name = c_identifier(planned.program.name)
    header, readme = bundle.files[f"{name}.h"], bundle.files["README.md"]
    told = {
        f"{name}.h": header.replace(stack_fact(planned.program, None), stack_fact(planned.program, stack_bytes)),
        "README.md": readme.replace(stack_row(None), stack_row(stack_bytes)),
    }
    return replace(bundle, files={**bundle.files, **told})


def with_selftest_stack(bundle: Bundle, planned: Planned, stack_bytes: int | None) -> Bundle:
    """Fills in the self-test's stack use in the same way."""
    name = f"{c_identifier(planned.program.name)}.h"
    unknown, known = (selftest_stack_fact(planned.program, one) for one in (None, stack_bytes))
    return replace(bundle, files={**bundle.files, name: bundle.files[name].replace(unknown, known)})


def emit_c(
    planned: Planned,
    places: Sequence[WeightPlacement] = (),
    *,
    selftest: bool = False,
    kernels: KernelSet | None = None,
    version: str | None = None,
) -> Bundle:
    """Emits all files of the bundle; with `selftest`, all but MODEL_selftest.c, which needs the values of an input.

    `places` names sections for the constants of some layers; `kernels` is a set shared with other models, None for the
    bundle's own; `version` is the model's, None for one derived from its contents.
    """
    name = c_identifier(planned.program.name)
    kernels = kernels or KernelSet((name,))
    layers = Layers(name, frozenset(planned.program.cores), _sections(planned.program, places))
    tables = build_tables(planned, layers)  # first: it collects the layers, arrays and kernels of the other files
    state = state_in_c(planned, layers.arrays)
    sections = _placed(layers.arrays.section_bytes, places)
    decision = decision_in_c(planned)
    tested = {SELFTEST_SOURCE} if selftest else frozenset[str]()
    beside = {*tested, *decision_sources(planned), *_saves(planned), *camera_sources(planned.program)}
    sources = sorted({_loop(planned), *float_sources(planned.program), *layers.sources, *beside})
    arrays = layers.arrays
    weights = _weights_macros(name.upper(), arrays.total_bytes, sections)
    own = {
        **camera_files(planned),
        f"{name}.h": header_text(planned, kernels, version, weights, selftest_declaration(planned) if selftest else ""),
        f"{name}.c": ModelSource(planned, layers, tables, state, decision, kernels, selftest).text(),
        f"{name}_data.h": arrays.header(placing_macros(planned, tuple(sections)), renamed_arrays(arrays.marked)),
        f"{name}_data.c": arrays.source(),
    }
    build = build_of(own)
    files = {
        **{file: text.replace(BUILD, build) for file, text in own.items()},
        "CMakeLists.txt": cmake_text(
            name,
            [(name, own_sources(planned.program, selftest))],
            sources,
            ALIGNED_ONLY if planned.aligned_only else (),
        ),
        "README.md": readme_text(planned, Interface.of(own, name), arrays.total_bytes, sections),
        LICENSE: license_text(),
        **kernel_files(sources),
    }
    return Bundle(
        files=files,
        # Pushing a row counts as a call of its step, and starts with this function.
        calls=(*layers.calls.pieces, *([] if planned.program.pushed is None else [f"{name}_row"])),
        constants=arrays.constants,
        weights_bytes=arrays.total_bytes,
        sources=tuple(sources),
        section_bytes=sections,
        build=build,
    )


def emit_methods(
    planned: Sequence[Planned],
    stacks: Sequence[int | None],
    version: str | None = None,
    tested: Sequence[TestedCall] = (),
) -> Bundle:
    """Emits the methods of one model as one bundle. The first owns the functions for arena and state; constants are
    shared.

    `stacks` is the stack that each method takes, where known; `tested`, the calls of a self-test.
    """
    main = planned[0].program
    name, names = c_identifier(main.name), tuple(c_identifier(one.program.name) for one in planned)
    arrays = Arrays(name, frozenset(main.cores))
    own: dict[str, str] = {}
    sources: set[str] = set()
    calls: list[str] = []
    for one in planned:
        layers = Layers(name, frozenset(main.cores), arrays=arrays)
        tables = build_tables(one, layers)
        state, kernels = state_in_c(one, arrays), KernelSet(names, together=bool(one.program.method_of))
        prefix = c_identifier(one.program.name)
        further = () if one.program.method_of else names[1:]
        more = selftest_declaration(one, tested) if tested and not one.program.method_of else ""
        own[f"{prefix}.h"] = header_text(one, kernels, version, more=more, methods=further)
        own[f"{prefix}.c"] = ModelSource(one, layers, tables, state, decision_in_c(one), kernels, bool(tested)).text()
        sources |= {_loop(one), *float_sources(one.program), *layers.sources, *_saves(one)}
        calls += layers.calls.pieces
    own |= {f"{name}_data.h": arrays.header("", renamed_arrays(arrays.marked)), f"{name}_data.c": arrays.source()}
    build, wanted = build_of(own), sorted(sources | ({SELFTEST_SOURCE} if tested else set()))
    tests = methods_selftest_files(tested, build)
    told = [(one, Interface.of(own, c_identifier(one.program.name))) for one in planned[1:]]
    every = [*(f"{prefix}.c" for prefix in names), f"{name}_data.c", *tests]
    bundle = Bundle(
        files={
            **{file: text.replace(BUILD, build) for file, text in own.items()},
            **tests,
            "CMakeLists.txt": cmake_text(name, [(name, every)], wanted),
            "README.md": readme_text(planned[0], Interface.of(own, name), arrays.total_bytes, {}, told),
            LICENSE: license_text(),
            **kernel_files(wanted),
        },
        calls=tuple(dict.fromkeys(calls)),
        constants=arrays.constants,
        weights_bytes=arrays.total_bytes,
        sources=tuple(wanted),
        section_bytes={},
        build=build,
    )
    for one, stack in zip(planned, stacks, strict=True):
        bundle = with_stack(bundle, one, stack)
    return bundle


def _saves(planned: Planned) -> tuple[str, ...]:
    return (SAVING_SOURCE,) if planned.program.state else ()


def _loop(planned: Planned) -> str:
    if planned.program.stream is not None:
        return "cortado_stream.c"
    return "cortado_regions.c" if planned.regions else "cortado_run.c"


def _sections(program: Program, places: Sequence[WeightPlacement]) -> dict[str, str]:
    """Maps each step to the section of the first place that matches it. A place without a match is an error."""
    modules = {step.name: step.module or step.name for step in program.steps}
    for place in places:
        if not any(place.matches(module) for module in modules.values()):
            known = "\n  ".join(dict.fromkeys(modules.values()))
            raise CortadoError(
                f"'{place.pattern}' matches no layer, so nothing goes to {place.section}; expected a regular "
                "expression for the whole of one of these names (features.1[0-9].* for all below features.10 to 19):"
                f"\n  {known}"
            )
    found = {name: next((p for p in places if p.matches(module)), None) for name, module in modules.items()}
    return {name: place.section for name, place in found.items() if place is not None}


def _placed(section_bytes: Mapping[str, int], places: Sequence[WeightPlacement]) -> dict[str, int]:
    """Returns the bytes of every named section, in the order given; a layer without constants leaves it empty."""
    return {place.section: section_bytes.get(place.section, 0) for place in places}


def _weights_macros(upper: str, total: int, sections: Mapping[str, int]) -> str:
    """Defines macros for the sizes of the sections that the user named."""
    if not sections:
        return ""
    lines = [f"#define {upper}_WEIGHTS_{name.upper()}_BYTES {size}" for name, size in sections.items()]
    return "\n".join([f"#define {upper}_WEIGHTS_BYTES {total} /* in all sections */", *lines, ""])
