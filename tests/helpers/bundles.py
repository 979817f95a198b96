"""C bundles of the zoo's networks, written and compiled source by source."""

from collections.abc import Sequence
from pathlib import Path

from cortado.base.target import Core, from_target_string
from cortado.emit.c.bundle import emit_c
from cortado.models import zoo
from cortado.plan.planned import Planned
from cortado.plan.program import build_program
from cortado.plan.schedule import schedule
from cortado.run import toolchain
from cortado.run.runner import bundle_includes, bundle_sources, write_files
from helpers.networks import graph_of

SLOW = tuple(name for name in zoo.names() if name != "ds_cnn")


def write(folder: Path, found: Planned) -> Path:
    write_files(folder, emit_c(found).files)
    return folder


def portable(name: str) -> Planned:
    """With the kernels that run on this machine."""
    target = from_target_string("cortex-m4")
    return schedule(build_program(name, graph_of(name), target, cores=(Core.PORTABLE,)))


def compile_all(folder: Path, flags: Sequence[str], compiler: toolchain.CompilerCommand, suffixes: str = "cS") -> None:
    """Every source of a bundle by itself. Objects are cached: a kernel that two networks share is compiled once."""
    for source in bundle_sources(folder, suffixes):
        toolchain.compile_object(source, bundle_includes(folder), flags, compiler)
