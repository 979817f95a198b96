"""The example of a stream, examples/keyword: words are heard, a push costs little, all bits are the reference's."""

import importlib
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import cortado
from cortado.artifact.opened import load
from cortado.artifact.streamed import push_rows
from cortado.base.errors import CortadoError
from cortado.models.zoo import sounds
from cortado.models.zoo.sounds import mfcc
from cortado.options import Options
from cortado.plan.lowered import reference_outputs
from helpers.cli import Run
from helpers.keyword import COMMAND, GROUP, Spotted
from helpers.paths import ROOT

EXAMPLE = ROOT / "examples" / "keyword"
HOP = 320
MOST_INSTRUCTIONS, MOST_MILLISECONDS = 130_000, 3.0  # of a push


@pytest.mark.qemu
@pytest.mark.xdist_group(GROUP)
def test_the_words_are_heard(run: Run, spotted: Spotted, monkeypatch: pytest.MonkeyPatch) -> None:
    scripts = re.findall(r"```sh\n(.*?)```", (EXAMPLE / "README.md").read_text(), re.DOTALL)
    assert [script.splitlines()[0] for script in scripts] == [COMMAND, COMMAND]
    monkeypatch.chdir(spotted.folder)
    done = run(*scripts[0].splitlines()[1].removeprefix("cortado ").split())
    assert done.code == 0, done.err
    assert re.findall(r"s: (\w+)", spotted.printed) == ["yes", "no", "left"]
    for line in ("hits 3 of 3, misses 0", "false alarms 0: 0.00 in an hour", "the compiled C decides the same"):
        assert line in done.out.splitlines()
    budgets = re.findall(r"(\w+) at \d+ MHz: ([\d.]+) ms of every 20 \(([\d,]+) instr", spotted.printed)
    assert [chip for chip, *_ in budgets] == ["nrf52840", "stm32u575"]
    for _, milliseconds, instructions in budgets:
        assert 0 < float(milliseconds) < MOST_MILLISECONDS
        assert int(instructions.replace(",", "")) < MOST_INSTRUCTIONS

    artifact = load(spotted.bundle)
    samples = np.random.default_rng(0).normal(scale=3000, size=53 * HOP).round().astype(np.int16)
    streamed = push_rows(artifact, samples)
    assert list(streamed.ends) == [49, 50, 51, 52]
    for output, end in zip(streamed.outputs, streamed.ends, strict=True):
        window = torch.from_numpy(samples[(end - 49) * HOP : (end + 1) * HOP])[None]
        assert np.array_equal(output, reference_outputs(artifact.graph, [window])[0][0].numpy())
    with pytest.raises(CortadoError, match="found 20 rows of 320 values, expected at least 50 rows"):
        push_rows(artifact, samples[: 20 * HOP])


def test_its_features_are_those_of_the_training() -> None:
    sys.path.insert(0, str(EXAMPLE))
    spot = importlib.import_module("spot")
    signal = torch.from_numpy(spot.as_samples(sounds.load("yes")))[None]
    torch.testing.assert_close(spot.Spotter(nn.Identity()).features(signal), mfcc(signal / 32768))


@pytest.mark.qemu
def test_rows_with_channels_come_in_the_models_order(tmp_path: Path) -> None:
    """A row of the model's input is [channels, width]; the bundle holds its channels last."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(2, 3, (3, 2)), nn.ReLU(), nn.AvgPool2d((6, 3)), nn.Flatten(1)).eval()
    batches = [(torch.randn(1, 2, 8, 4),) for _ in range(32)]
    compiled = cortado.compile(model, batches[0], "cortex-m4", batches, name="rows", options=Options(stream=2))
    rows = torch.randn(12, 2, 4)
    streamed = compiled.stream(rows)
    assert compiled.graph is not None
    assert list(streamed.ends) == [7, 8, 9, 10, 11]
    for output, end in zip(streamed.outputs, streamed.ends, strict=True):
        window = rows[end - 7 : end + 1].permute(1, 0, 2)[None]
        assert np.array_equal(output, reference_outputs(compiled.graph, [window])[0][0].numpy())
