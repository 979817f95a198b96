"""Decisions of scores over time: the C's on this machine and on boards, beside a rule in float that knows nothing of
it."""

import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from cortado import api
from cortado.artifact.opened import Artifact
from cortado.artifact.streamed import Recording, listen, with_decision
from cortado.base.decision import decision_of
from cortado.base.target import BUNDLE_FLAGS, Core
from cortado.emit.c.bundle import emit_c
from cortado.options import Activations, Artifacts, Border, Options
from cortado.run import toolchain
from cortado.run.runner import HOST, RUNTIME_CHECKS, WARNINGS, bundle_includes, bundle_sources, write_files
from helpers.deciding import LABELS, Naive, Newest, Remembering, real, walk
from helpers.sanitizers import SANITIZERS

pytestmark = pytest.mark.filterwarnings("ignore::cortado.base.errors.CortadoWarning")

RULE = "smooth=5,threshold=0.43,holdoff=9,ignore=silence:unknown,threshold.stop=0.61,holdoff.2=0"
IN_FLOAT = Naive(5, 0.43, 9, ignore=(0, 1), thresholds={4: 0.61}, holdoffs={2: 0})
SCORES = "smooth=3,threshold=1.3,holdoff=4,ignore=0"  # no probabilities
SCORES_IN_FLOAT = Naive(3, 1.3, 4, ignore=(0,))


def compiled(net: nn.Module, target: str, rule: str = RULE, **options: Any) -> api.Compiled:
    stream = 2 if isinstance(net, Newest) else None
    shape = (1, 1, 2, 5) if stream else (1, 5)
    rows = torch.from_numpy(walk(400, seed=7))
    steps = [(rows[i : i + 2].reshape(shape),) for i in range(0, 398, 2)] if stream else [(one[None],) for one in rows]
    chosen = Options(stream=stream, decide=decision_of(rule), artifacts=Artifacts.C, **options)
    return api.compile(net.eval(), steps[0], target, steps, "net", chosen, labels=LABELS)


def rows_of(net: nn.Module, count: int, seed: int = 0) -> Recording:
    values = walk(count, seed)
    return Recording(values.reshape(count, 1, 5) if isinstance(net, Newest) else values, rate=50.0)


def check(artifact: Artifact, net: nn.Module, count: int, on: str | None, naive: Naive = IN_FLOAT) -> list[int]:
    """The C's decisions are those of the naive rule, and of the reference; there are some of several classes."""
    found, output, rule = listen(artifact, rows_of(net, count), on), artifact.report.outputs[0], artifact.report.rule
    assert found.decisions is not None
    assert rule is not None
    decisions: list[int] = found.decisions.tolist()
    assert decisions == naive.decisions(real(found.scores, output.scale, output.zero_point))
    assert decisions == rule.decisions(found.scores).tolist()
    assert len(set(decisions)) > 2
    return decisions


@pytest.mark.cases(1)
@pytest.mark.host
@pytest.mark.qemu
@pytest.mark.parametrize("net", [Newest(), Remembering()], ids=["stream", "state"])
def test_here_and_on_boards(net: nn.Module, tmp_path: Path) -> None:
    """Thousands of outputs here; the same on cores of every kind, as many as their memory has room for."""
    here = compiled(net, "cortex-m").save(tmp_path / "any")
    most = check(here, net, 4000, HOST)
    assert {most.count(number) > 20 for number in (2, 3, 4)} == {True}
    assert not {0, 1} & set(most)
    first = check(here, net, 600, HOST)
    for target in ("cortex-m0plus", "cortex-m4", "cortex-m55"):
        board = compiled(net, target).save(tmp_path / target)
        assert check(board, net, 600, None) == first, target


@pytest.mark.host
@pytest.mark.qemu
@pytest.mark.parametrize(
    ("net", "activations"), [(Newest(False), Activations.INT8), (Remembering(False), Activations.INT16)]
)
def test_scores_that_are_no_probabilities(net: nn.Module, activations: Activations, tmp_path: Path) -> None:
    """Codes of 8 and of 16 bits, of any zero point."""
    found = compiled(net, "cortex-m4", SCORES, activations=activations).save(tmp_path / "net")
    assert found.report.outputs[0].dtype.value == activations.value
    check(found, net, 3000, HOST, SCORES_IN_FLOAT)
    check(found, net, 500, None, SCORES_IN_FLOAT)


@pytest.mark.cases(1)
@pytest.mark.host
@pytest.mark.qemu
@pytest.mark.parametrize(
    ("net", "options"),
    [
        (Newest(), {"activations": Activations.FLOAT32}),
        (Remembering(), {"activations": Activations.FLOAT32}),
        (Remembering(), {"io": Border.FLOAT}),
    ],
    ids=["stream", "state", "as-float32"],
)
def test_scores_in_float32(net: nn.Module, options: dict[str, Any], tmp_path: Path) -> None:
    """With a float unit and without."""
    first = None
    for target in ("cortex-m0plus", "cortex-m4"):
        found = compiled(net, target, **options).save(tmp_path / target)
        assert (found.report.outputs[0].dtype.value, found.report.outputs[0].scale) == ("float32", None)
        here = check(found, net, 600, HOST)
        assert check(found, net, 600, None) == here
        assert first in (None, here)
        first = here
        assert found.run(
            [found.example()] * (1 if found.report.stream else 20), HOST, flags=(RUNTIME_CHECKS,)
        ).bit_exact


@pytest.mark.cases(1)
@pytest.mark.host
@pytest.mark.qemu
@pytest.mark.parametrize("net", [Newest(), Remembering()], ids=["stream", "state"])
def test_its_memory_is_planned(net: nn.Module, tmp_path: Path) -> None:
    """It is in the arena and in the report, and no store goes elsewhere."""
    found = compiled(net, "cortex-m4").save(tmp_path / "net")
    decision, memory = found.report.decision, found.report.memory
    assert decision is not None
    assert memory is not None
    assert decision.bytes == 4 * 6 + 2 * 7 + 5 * 5 * np.dtype(found.report.outputs[0].dtype.value).itemsize
    (kept,) = (one for one in memory.buffers if one.name == "decision.kept")
    assert (kept.bytes, kept.kind.value, kept.persists) == (decision.bytes, "state", True)
    samples = [found.example()] * (1 if found.report.stream else 40)
    assert found.run(samples, check_stores=True).bit_exact
    assert found.run(samples, HOST, flags=(RUNTIME_CHECKS,)).bit_exact


@pytest.mark.host
def test_a_reset_forgets_it(tmp_path: Path) -> None:
    """The same rows give the same decisions again; without a reset between them, classes rest from the first ones."""
    found = compiled(Remembering(), "cortex-m4", "smooth=2,threshold=0.3,holdoff=40").save(tmp_path / "net")
    feeds = [found.feed([one[None]]) for one in walk(23)] * 2
    info = with_decision(found.report, found.info)

    def decisions(sequence: int | None) -> list[int]:
        made = found.execute(feeds, HOST, info=info, sequence=sequence).samples
        return [int(outputs[-1].item()) for outputs in made]

    again, on = decisions(23), decisions(None)
    assert again[:23] == again[23:] == on[:23]
    assert set(again) != {-1}
    assert on[23:] != on[:23]


ASKED = """#include <stddef.h>
#include <string.h>
#include "net.h"

static net_arena_t arena;

int main(void)
{
    int heard = 0, before = NET_NO_DECISION;
    if (net_decision(NULL) != NET_NO_DECISION || net_decision(&arena) != NET_NO_DECISION) { return 1; }
    net_reset(&arena);
    if (net_decision(&arena) != NET_NO_DECISION) { return 2; }
    for (int i = 0; i < 200; i++) {
        memset(net_row(&arena), i % 40 < 20 ? 100 : -100, NET_ROW_BYTES);
        if (net_push(&arena) == 1 && i % 3 == 2) { /* asked late */
            const int now = net_decision(&arena);
            if (now < NET_NO_DECISION || now >= NET_CLASSES) { return 3; }
            heard += now != NET_NO_DECISION;
            before = now != NET_NO_DECISION ? now : before;
            if (net_decision(&arena) != NET_NO_DECISION) { return 4; }
        }
    }
    static const char *const names[] = NET_CLASS_NAMES;
    if (sizeof names / sizeof names[0] != NET_CLASSES || strcmp(names[2], "yes") != 0) { return 5; }
    return heard >= 4 && before >= 0 ? 0 : 6;
}
"""


@pytest.mark.host
def test_a_decision_is_told_once(tmp_path: Path) -> None:
    """And waits until somebody asks; without an arena or a reset there is none."""
    found = compiled(Newest(), "cortex-m4", "smooth=2,threshold=0.25,holdoff=15").save(tmp_path / "net")
    place = tmp_path / "c"
    write_files(place, emit_c(found.portable).files)
    (place / "main.c").write_text(ASKED)
    flags = [*WARNINGS, *BUNDLE_FLAGS, *SANITIZERS]
    program = toolchain.build_executable(bundle_sources(place, "c"), bundle_includes(place), flags, "asked")
    assert found.portable.program.cores == (Core.PORTABLE,)
    assert subprocess.run([program], check=False).returncode == 0


@pytest.mark.host
def test_without_it_nothing_changes(tmp_path: Path) -> None:
    """No key in the report, no function, no byte of the arena."""
    net = Newest().eval()
    rows = [(torch.from_numpy(walk(2, seed)).reshape(1, 1, 2, 5),) for seed in range(16)]
    plain = api.compile(net, rows[0], "cortex-m4", rows, "net", Options(stream=2, artifacts=Artifacts.C))
    assert plain.bundle is not None
    assert "decision" not in plain.report.to_json()
    assert not any("decision" in text or "decide" in name for name, text in plain.bundle.files.items())
