"""A network on an emulated board, disturbed by an interrupt every few hundred instructions."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from cortado import boards, runner
from cortado.target import BUNDLE_FLAGS, Machine

HERE = Path(__file__).parent
# An instruction takes 32 ns of the board's time, whatever it is: a timer can then stop at each of them.
PRECISE = ("-icount", "shift=5")


@dataclass(frozen=True)
class Disturbed:
    """Outputs per sample, and how often the handler ran."""

    samples: list[list[np.ndarray]]
    interrupts: int


def run_disturbed(
    files: dict[str, str], info: runner.BundleInfo, feeds: Sequence[Sequence[np.ndarray]], board: str
) -> Disturbed:
    """The release build of a bundle, on a board."""
    machine = boards.board(board)
    with TemporaryDirectory(prefix="cortado-fuzz-") as temporary:
        folder = Path(temporary)
        runner.write_files(folder, files)
        (folder / "harness_model.c").write_text(glue(info))
        sources = [*runner.bundle_sources(folder), HERE / "interrupts.c"]
        flags = [*runner.board_flags(info.target, Machine(board)), *runner.WARNINGS, *BUNDLE_FLAGS]
        elf = boards.build_firmware(machine, sources, [*runner.bundle_includes(folder), HERE], flags, info.name)
    data = b"".join(np.ascontiguousarray(value).tobytes() for feed in feeds for value in feed)
    said = boards.run_harness(elf, machine, data, len(feeds), timeout=300.0, arguments=PRECISE).said
    counts = re.findall(r"^interrupts (\d+)$", said.text, re.MULTILINE)
    return Disturbed(runner._split(said.outputs, info, len(feeds)), int(counts[-1]) if counts else 0)


def glue(info: runner.BundleInfo) -> str:
    """The harness's own glue, but for the function that runs the network."""
    name, text = info.name, runner.harness_source(info)
    disturbed = f"""#include "{name}.h"
#include "interrupts.h"

static int disturbed_run(void *a)
{{
    int status;

    cortado_interrupts_start();
    status = {name}_run(a);
    cortado_interrupts_stop();
    return status;
}}
"""
    changed = text.replace(f'#include "{name}.h"\n', disturbed, 1).replace(f" {name}_run,", " disturbed_run,", 1)
    assert changed.count("disturbed_run") == 2
    return changed
