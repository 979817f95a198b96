"""A network on an emulated board, disturbed by an interrupt every few hundred instructions."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from cortado.base.target import BUNDLE_FLAGS, Machine
from cortado.run import runner
from cortado.run.board import build_firmware, find_board
from cortado.run.bundle_info import BundleInfo, untyped
from cortado.run.harness import harness_source, run_harness

HERE = Path(__file__).parent
# An instruction takes 32 ns of the board's time, whatever it is: the timer can then stop at each of them.
PRECISE = ("-icount", "shift=5")


def run_disturbed(
    files: Mapping[str, str],
    info: BundleInfo,
    feeds: Sequence[Sequence[np.ndarray]],
    board: str,
    least: int = 1,
) -> list[list[np.ndarray]]:
    """The outputs of a bundle's release build on a board; CortadoError if the first run has too few interrupts."""
    machine = find_board(board)
    with TemporaryDirectory(prefix="cortado-fuzz-") as temporary:
        folder = Path(temporary)
        runner.write_files(folder, files)
        (folder / "harness_model.c").write_text(glue(info, least))
        sources = [*runner.bundle_sources(folder), HERE / "interrupts.c"]
        flags = [*runner.board_flags(info.target, Machine(board)), *runner.WARNINGS, *BUNDLE_FLAGS]
        elf = build_firmware(machine, sources, [*runner.bundle_includes(folder), HERE], flags, info.name)
    data = b"".join(np.ascontiguousarray(value).tobytes() for feed in feeds for value in feed)
    done = run_harness(elf, machine, data, len(feeds), timeout=300.0, arguments=PRECISE)
    return runner.split_outputs(done.said.outputs, info, len(feeds))


def glue(info: BundleInfo, least: int) -> str:
    """The harness's own glue, but for the function that runs the network."""
    name, text = info.name, harness_source(info)
    header = f'#include "{name}.h"\n'
    changed = text.replace(header, header + DISTURBED.format(name=name, least=least), 1)
    changed = changed.replace(f" {untyped('int ', f'{name}_run')},", " disturbed_run,", 1)
    assert changed.count("disturbed_run") == 2, "the harness's glue has changed"
    return changed


DISTURBED = """#include "interrupts.h"

static int disturbed_run(void *a)
{{
    int status;

    cortado_interrupts_start();
    status = {name}_run(a);
    return cortado_interrupts_stop() < {least} ? 1 : status;
}}

"""
