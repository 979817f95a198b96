"""The firmware projects of examples/, built with their own Makefiles and run on emulated boards."""

import re
import subprocess
from pathlib import Path

import pytest

import cortado
from cortado.options import Options
from helpers.keyword import GROUP, Spotted
from helpers.networks import prepared
from helpers.paths import ROOT

SELFTEST = Options(selftest=True)
TIME, HEARD = r"\d+\.\d+(?= s:)", 0.1  # seconds
pytestmark = pytest.mark.qemu
of_ds_cnn = pytest.mark.xdist_group("network ds_cnn")


def promised(project: str) -> str:
    """What its README says that it prints."""
    text = (ROOT / "examples" / project / "README.md").read_text()
    found = re.search(r"prints on.*?```\n(.*?)```", text, re.DOTALL)
    assert found is not None
    return found[1]


def run(project: str, bundle: Path, build: Path) -> str:
    command = ["make", "-s", "-C", str(ROOT / "examples" / project), "run", f"BUNDLE={bundle}", f"BUILD={build}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    return done.stdout.partition("firmware.elf\n")[2]


@pytest.mark.cases(1)
@of_ds_cnn
@pytest.mark.parametrize(("project", "target"), [("stm32f405", "cortex-m4"), ("microbit", "cortex-m0")])
def test_a_keyword_spotter_on_a_small_chip(project: str, target: str, tmp_path: Path) -> None:
    prepared("ds_cnn").compile(target, SELFTEST).save(tmp_path / "bundle")
    assert run(project, tmp_path / "bundle", tmp_path / "build") == promised(project)


@pytest.mark.slow
@of_ds_cnn
def test_two_models_and_a_timer_interrupt(tmp_path: Path) -> None:
    both = [prepared(name).compile("cortex-m55", SELFTEST) for name in ("ds_cnn", "deep_autoencoder")]
    cortado.save_together(both, tmp_path / "bundle")
    assert run("mps3", tmp_path / "bundle", tmp_path / "build") == promised("mps3")


@pytest.mark.slow
@pytest.mark.xdist_group(GROUP)
def test_words_in_a_recording_that_lies_in_flash(spotted: Spotted, tmp_path: Path) -> None:
    """The samples, the front end, the network and the decision, all on the chip. When a word counts as heard depends on
    the last bit of a scale, which is the calibrating machine's."""
    printed = [run("keyword/firmware", spotted.bundle, tmp_path), promised("keyword")]
    times, others = zip(*((re.findall(TIME, text), re.sub(TIME, "", text)) for text in printed), strict=True)
    assert others[0] == others[1]
    assert [float(one) for one in times[0]] == pytest.approx([float(one) for one in times[1]], abs=HEARD)
