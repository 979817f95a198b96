"""The program as a C bundle: schedule, data, the kernels it needs and no others, a CMake target, a README."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from cortado.base.names import c_identifier
from cortado.emit.c.data import Constant
from cortado.emit.c.header import header_text, stack_fact
from cortado.emit.c.kernels import Kernels
from cortado.emit.c.layers import Layers
from cortado.emit.c.library import LICENSE, cmake_text, kernel_files, license_text, own_sources
from cortado.emit.c.readme import readme_text, stack_row
from cortado.emit.c.selftest import SELFTEST_SOURCE, selftest_declaration
from cortado.emit.c.source import FLOAT_SOURCES, Source
from cortado.emit.c.state import state_in_c
from cortado.emit.c.tables import build_tables
from cortado.plan.planned import Planned


@dataclass(frozen=True)
class Bundle:
    """The files of a bundle by relative path, and what is in them."""

    files: Mapping[str, str]
    calls: tuple[str, ...]  # the functions of MODEL.c that call kernels
    constants: tuple[Constant, ...]  # the arrays of MODEL_data.c
    weights_bytes: int  # what one core's build holds of them; of several, the most
    sources: tuple[str, ...]  # the kernels in use, as files of kernels/src


def with_stack(bundle: Bundle, planned: Planned, stack_bytes: int | None) -> Bundle:
    """The same, with the stack that its code takes, which is known when that is compiled."""
    name = c_identifier(planned.program.name)
    header, readme = bundle.files[f"{name}.h"], bundle.files["README.md"]
    told = {
        f"{name}.h": header.replace(stack_fact(planned.program, None), stack_fact(planned.program, stack_bytes)),
        "README.md": readme.replace(stack_row(None), stack_row(stack_bytes)),
    }
    return replace(bundle, files={**bundle.files, **told})


def emit_c(planned: Planned, *, selftest: bool = False, kernels: Kernels | None = None) -> Bundle:
    """All files of the bundle; with `selftest` but for MODEL_selftest.c, which knows the values of an input. `kernels`:
    those that it shares with others; None for its own."""
    name = c_identifier(planned.program.name)
    kernels = kernels or Kernels((name,))
    layers = Layers(name, frozenset(planned.program.cores))
    tables = build_tables(planned, layers)  # first: it collects the layers, arrays and kernels of the other files
    state = state_in_c(planned, layers.arrays)
    loop = "cortado_run.c" if planned.program.stream is None else "cortado_stream.c"
    tested = {SELFTEST_SOURCE} if selftest else frozenset[str]()
    sources = sorted({loop, *FLOAT_SOURCES, *layers.sources, *tested})
    arrays = layers.arrays
    files = {
        f"{name}.h": header_text(planned, kernels, selftest_declaration(planned.program) if selftest else ""),
        f"{name}.c": Source(planned, layers, tables, state, kernels, selftest).text(),
        f"{name}_data.h": arrays.header(),
        f"{name}_data.c": arrays.source(),
        "CMakeLists.txt": cmake_text(name, [(name, own_sources(name, selftest))], sources),
        "README.md": readme_text(planned, arrays.total_bytes),
        LICENSE: license_text(),
        **kernel_files(sources),
    }
    return Bundle(
        files=files,
        # A row that is pushed is a call of its step, and begins with this function.
        calls=(*layers.calls.pieces, *([] if planned.program.pushed is None else [f"{name}_row"])),
        constants=arrays.constants,
        weights_bytes=arrays.total_bytes,
        sources=tuple(sources),
    )
