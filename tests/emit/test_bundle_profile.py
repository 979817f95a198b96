"""A bundle built with CORTADO_PROFILE or CORTADO_YIELD: a function of the user hears of every kernel call."""

import subprocess
from pathlib import Path

import pytest

from cortado.api import Model
from cortado.base.target import BUNDLE_FLAGS, Core, from_target_string
from cortado.emit.c.bundle import emit_c
from cortado.plan.checks import row_calls
from cortado.plan.planned import Planned
from cortado.plan.program import build_program
from cortado.plan.schedule import schedule
from cortado.run import toolchain
from cortado.run.runner import WARNINGS, bundle_includes, bundle_sources, write_files

MAIN = """#include <stdio.h>

#include "tiny.h"

#ifdef CORTADO_PROFILE
void tiny_profile(uint32_t step)
{
    puts(step < TINY_STEPS ? tiny_step_names[step] : "end");
}
#endif

#ifdef CORTADO_YIELD
void cortado_yield(void) { puts("yield"); }
#endif

int main(void)
{
    return tiny_run(tiny_default_arena());
}
"""


@pytest.fixture
def planned(tiny: Model) -> Planned:
    config = from_target_string("cortex-m4")
    graph = tiny.compile(config).graph
    assert graph is not None
    return schedule(build_program("tiny", graph, config, cores=(Core.PORTABLE,)))


@pytest.mark.host
def test_every_kernel_call_is_told_with_its_step(planned: Planned, tmp_path: Path) -> None:
    write_files(tmp_path, emit_c(planned).files)
    (tmp_path / "main.c").write_text(MAIN)
    sources, includes = bundle_sources(tmp_path, "c"), bundle_includes(tmp_path)
    said = {}
    for flags in ((), ("-DCORTADO_PROFILE",), ("-DCORTADO_YIELD",)):
        program = toolchain.build_executable(sources, includes, [*WARNINGS, *BUNDLE_FLAGS, *flags], "profile")
        done = subprocess.run([program], capture_output=True, text=True, timeout=1800, check=True)
        said[flags] = done.stdout.split()
    names = [planned.program.steps[call.step].name for call in row_calls(planned)]
    assert len(set(names)) == len(planned.program.steps) > 1
    assert said == {
        (): [],
        ("-DCORTADO_PROFILE",): [*names, "end"],
        ("-DCORTADO_YIELD",): ["yield"] * len(names),  # a watchdog is fed before every kernel call
    }


def test_the_longest_time_between_two_yields_is_in_the_report(tiny: Model) -> None:
    report = tiny.compile("cortex-m4").report
    assert report.longest_call is not None
    layers = {layer.name: layer for layer in report.layers}
    one = layers[report.longest_call.layer]
    assert one.estimated_cycles is not None
    assert report.longest_call.cycles == one.estimated_cycles // one.calls
    assert all(report.longest_call.cycles >= (layer.estimated_cycles or 0) // layer.calls for layer in report.layers)
