"""Several models in one program: their C side by side, one set of kernels, one arena for those that can share it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cortado import __version__
from cortado.base.arrays import ArrayType
from cortado.base.errors import CortadoError
from cortado.base.names import c_identifier, plain
from cortado.emit.c.bundle import Bundle, emit_c, with_selftest_stack, with_stack
from cortado.emit.c.library import LICENSE, SHARED_ARENA, KernelSet, cmake_text, lasting, mark, own_sources
from cortado.emit.c.selftest import selftest_files
from cortado.plan.planned import Planned
from cortado.plan.segments import ALIGNMENT

LIBRARY = "cortado_together"
_OF_EACH = ("CMakeLists.txt", "README.md")  # bundle files that the joint ones replace


@dataclass(frozen=True)
class ProgramMember:
    """A model, its stack use if known, and the reference's values for an input if it gets a self-test."""

    planned: Planned
    stack_bytes: int | None = None
    selftest_stack_bytes: int | None = None
    tested: Mapping[str, ArrayType] | None = None
    version: str | None = None

    @property
    def name(self) -> str:
        return c_identifier(self.planned.program.name)


@dataclass(frozen=True)
class JoinedProgram:
    """The joint files, and the bundle of each model."""

    files: Mapping[str, str]
    bundles: tuple[Bundle, ...]
    arena_bytes: int  # of the shared arena; 0 if each model has its own
    sharing: tuple[str, ...]  # the models that share the arena


def emit_together(members: Sequence[ProgramMember], *, one_arena: bool) -> JoinedProgram:
    """Emits the models' files side by side, with one set of kernels."""
    _check_names(members)
    kernels = KernelSet(tuple(member.name for member in members), one_arena=one_arena, together=True)
    files: dict[str, str] = {}
    bundles = []
    for member in members:
        bundle = emit_c(member.planned, selftest=member.tested is not None, kernels=kernels, version=member.version)
        bundle = with_stack(bundle, member.planned, member.stack_bytes)
        bundle = with_selftest_stack(bundle, member.planned, member.selftest_stack_bytes)
        tested = {} if member.tested is None else selftest_files(member.planned, member.tested, bundle.build)
        own = {name: text for name, text in bundle.files.items() if name not in _OF_EACH}
        _add(files, {**own, **tested, f"{member.name}.md": bundle.files["README.md"]}, member)
        bundles.append(bundle)
    sharing = [member for member in members if kernels.shares_arena(member.planned.program)]
    sources = sorted({source for bundle in bundles for source in bundle.sources})
    models = [(one.name, own_sources(one.planned.program, one.tested is not None)) for one in members]
    files |= {
        f"{LIBRARY}.h": _header(members, sharing),
        f"{LIBRARY}.c": _source(sharing),
        "CMakeLists.txt": cmake_text(LIBRARY, [*models, (LIBRARY, [f"{LIBRARY}.c"])], sources),
        "README.md": _readme(members, sharing, one_arena),
    }
    arena = max((member.planned.plan.peak for member in sharing), default=0)
    return JoinedProgram(dict(sorted(files.items())), tuple(bundles), arena, tuple(member.name for member in sharing))


def _check_names(members: Sequence[ProgramMember]) -> None:
    found: dict[str, str] = {LIBRARY.upper(): LIBRARY}
    for member in members:
        name, macros = plain(member.planned.program.name), member.name.upper()
        if macros in found:
            raise CortadoError(
                f"'{found[macros]}' and '{name}' would be the same model in C, expected names that differ in more than "
                "signs and case: rename one (NAME=MODEL on the command line)"
            )
        found[macros] = name


def _add(files: dict[str, str], own: Mapping[str, str], member: ProgramMember) -> None:
    for name, text in own.items():
        if files.get(name, text) != text:
            raise CortadoError(
                f"'{plain(member.planned.program.name)}' and another model would both write {name}: rename one "
                "(NAME=MODEL on the command line)"
            )
        files[name] = text


def _header(members: Sequence[ProgramMember], sharing: Sequence[ProgramMember]) -> str:
    includes = "\n".join(f'#include "{member.name}.h"' for member in members)
    guard = f"{LIBRARY.upper()}_H"
    arena = f"""
/* One arena for {", ".join(member.name for member in sharing)}: what their default_arena functions return.
 * A run of one overwrites the inputs and outputs of the others. Linked only if used. */
#ifdef CORTADO_ENABLE_RUNTIME_CHECKS
#define CORTADO_TOGETHER_ARENA_BYTES {max((member.planned.checked.peak for member in sharing), default=1)}
#else
#define CORTADO_TOGETHER_ARENA_BYTES {max((member.planned.plan.peak for member in sharing), default=1)}
#endif
#ifdef CORTADO_CACHE_LINE
#define CORTADO_TOGETHER_ARENA_ALIGN CORTADO_CACHE_LINE
#else
#define CORTADO_TOGETHER_ARENA_ALIGN {ALIGNMENT}
#endif

#ifdef __cplusplus
extern "C" {{
#endif
void *{SHARED_ARENA}(void);
#ifdef __cplusplus
}}
#endif
"""
    return f"""/* SPDX-License-Identifier: Apache-2.0
 *
 * {len(members)} models that share their kernels, written by Cortado {__version__}.
 */
#ifndef {guard}
#define {guard}

{includes}
{arena if sharing else ""}
#endif /* {guard} */
"""


def _source(sharing: Sequence[ProgramMember]) -> str:
    arena = f"""
#ifndef CORTADO_ARENA
#define CORTADO_ARENA
#endif

void *{SHARED_ARENA}(void)
{{
    static union {{
        uint8_t bytes[CORTADO_TOGETHER_ARENA_BYTES];
        uint64_t align;
    }} __attribute__((aligned(CORTADO_TOGETHER_ARENA_ALIGN))) arena CORTADO_ARENA;
    return &arena;
}}
"""
    return f"""/* SPDX-License-Identifier: Apache-2.0
 *
 * What several models share.
 */
#include "{LIBRARY}.h"

#include "cortado_endian.h"
{mark()}{arena if sharing else ""}"""


def _readme(members: Sequence[ProgramMember], sharing: Sequence[ProgramMember], one_arena: bool) -> str:
    rows = [f"| [{member.name}]({member.name}.md) | {member.planned.plan.peak} |" for member in members]
    alone = [member.name for member in members if lasting(member.planned.program)]
    text = "Every model has its own arena."
    if sharing:
        names = ", ".join(f"`{member.name}_default_arena`" for member in sharing)
        text = (
            f"{names} return one arena of {max(member.planned.plan.peak for member in sharing)} bytes\n"
            f"(`{SHARED_ARENA}`): a run of one model overwrites the others' inputs and outputs; copy what you need."
        )
    if one_arena and alone:
        text += (
            f"\n{', '.join(f'`{name}`' for name in alone)} keep state in the arena between calls,\n"
            "so they have their own arenas."
        )
    return f"""# {len(members)} models in one program

| model | bytes of arena |
|---|---|
{chr(10).join(rows)}

{text}

With CMake: `add_subdirectory` this folder, then link `{LIBRARY}::{LIBRARY}` or any model's own name, such as
`{members[0].name}::{members[0].name}`: it is the same library. Without CMake: compile every `.c` and `.S` file of this
folder and of `kernels/src`, as the page of each model says. Models that are not called are not linked.

The kernels are included once. If another bundle brings its own, the compiler, CMake or the linker reports it
(`cortado_two_sets_of_kernels...`): compile all models of a program together.

The code is under the Apache License 2.0 ([{LICENSE}]({LICENSE})).
"""
