"""A network on an emulated board, disturbed by an interrupt every few hundred instructions."""

import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import mock

import numpy as np

from cortado import runner, toolchain

HERE = Path(__file__).parent
LEAST = 100  # interrupts while the samples run; fewer are an error
# An instruction takes 32 ns of the board's time, whatever it is: the timer can then stop at each of them.
QEMU = """#!/bin/sh
exec {qemu} "$@" -icount shift=5
"""


def run_disturbed(
    files: Mapping[str, str], info: runner.BundleInfo, feeds: Sequence[Sequence[np.ndarray]], board: str
) -> list[list[np.ndarray]]:
    """The outputs of a bundle's release build on a board; CortadoError if there were too few interrupts."""
    with TemporaryDirectory(prefix="cortado-fuzz-") as temporary:
        folder = Path(temporary)
        runner.write_files(folder, files)
        for name in ("interrupts.c", "interrupts.h"):
            shutil.copy(HERE / name, folder)
        with precise_timer(), mock.patch.object(runner, "harness_source", glue_of(runner.harness_source)):
            return runner.run_bundle(folder, info, feeds, board, count=False, timeout=300.0).samples


def glue_of(source: Callable[[runner.BundleInfo], str]) -> Callable[[runner.BundleInfo], str]:
    """The harness's own glue, but for the function that runs the network."""

    def glue(info: runner.BundleInfo) -> str:
        name, text = info.name, source(info)
        header = f'#include "{name}.h"\n'
        changed = text.replace(header, header + DISTURBED.format(name=name, least=LEAST), 1)
        changed = changed.replace(f" {name}_run,", " disturbed_run,", 1)
        assert changed.count("disturbed_run") == 2, "the harness's glue has changed"
        return changed

    return glue


DISTURBED = """#include "interrupts.h"

static int disturbed_run(void *a)
{{
    int status;

    cortado_interrupts_start();
    status = {name}_run(a);
    return cortado_interrupts_stop() < {least} ? 1 : status;
}}

"""


@contextmanager
def precise_timer() -> Iterator[None]:
    """QEMU as a program that counts the board's time in instructions."""
    qemu = toolchain.require(toolchain.Tool.QEMU)
    with TemporaryDirectory(prefix="cortado-fuzz-") as folder:
        script = Path(folder) / qemu.name
        script.write_text(QEMU.format(qemu=qemu))
        script.chmod(0o755)
        with mock.patch.dict(os.environ, {"PATH": f"{folder}:{os.environ['PATH']}"}):
            yield
