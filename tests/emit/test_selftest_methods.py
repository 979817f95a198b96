"""MODEL_selftest of several methods: a call of each, with the state that others leave; what is wrong has its number."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import cortado
from cortado import Options
from cortado.emit.c.bundle import Bundle, emit_methods
from cortado.methods import CompiledMethods, calls_of_selftest
from cortado.run.runner import RUNTIME_CHECKS
from helpers.sanitizers import SANITIZERS
from helpers.selftests import run_here, run_there

pytestmark = [
    pytest.mark.host,
    pytest.mark.xdist_group("methods"),
    pytest.mark.filterwarnings("ignore::cortado.CortadoWarning"),
]


class Taught(nn.Module):
    """A class's sum of features is taught and emptied."""

    sums: Tensor

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.features = nn.Sequential(nn.Linear(16, 12), nn.ReLU(), nn.Linear(12, 8), nn.ReLU())
        self.register_buffer("sums", torch.zeros(4, 8, dtype=torch.int32))

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.features(x) @ self.sums.float().t()
        return result

    def learn(self, x: Tensor, label: Tensor) -> None:
        hot = (torch.arange(4) == label).to(torch.int32).reshape(4, 1)
        self.sums = self.sums + hot * torch.round(self.features(x) * 16.0).clamp(0, 127).to(torch.int32)

    def halve(self) -> None:
        self.sums = self.sums // 2


CALLS = [
    call
    for number in range(30)
    for call in (
        ("learn", torch.randn(1, 16, generator=torch.Generator().manual_seed(number)), torch.tensor([number % 4])),
        ("forward", torch.randn(1, 16, generator=torch.Generator().manual_seed(100 + number))),
        ("halve",),
    )
]


@pytest.fixture(scope="module")
def taught() -> CompiledMethods:
    x, options = torch.zeros(1, 16), Options(selftest=True)
    methods = {"forward": (x,), "learn": (x, torch.tensor([1])), "halve": ()}
    return cortado.compile_methods(Taught().eval(), methods, "cortex-m4", CALLS, name="net", options=options)


def _portable(taught: CompiledMethods) -> Bundle:
    planned = taught.planned_for_host()
    return emit_methods(
        list(planned.values()), [None] * 3, tested=calls_of_selftest(taught.graphs, planned, taught.example)
    )


def _changed(bundle: Bundle, file: str, pattern: str, by: str) -> Bundle:
    text, count = re.subn(pattern, by, bundle.files[file], count=1)
    assert count == 1
    return replace(bundle, files={**bundle.files, file: text})


@pytest.mark.parametrize("flags", [SANITIZERS, (RUNTIME_CHECKS, "-DCORTADO_PROFILE")])
def test_every_call_is_right_here(taught: CompiledMethods, tmp_path: Path, flags: tuple[str, ...]) -> None:
    profiles = "".join(f"void net_{name}_profile(uint32_t step) {{ (void)step; }}\n" for name in ("learn", "halve"))
    more = {"profiles.c": f'#include "net.h"\n#ifdef CORTADO_PROFILE\n{profiles}#endif\n'}
    assert run_here(tmp_path, {**_portable(taught).files, **more}, flags) == 0


@pytest.mark.qemu
def test_every_call_is_right_on_a_board(taught: CompiledMethods, tmp_path: Path) -> None:
    assert run_there(tmp_path, taught.bundle.files, "cortex-m4") == 0


def test_what_is_wrong_has_its_number(taught: CompiledMethods, tmp_path: Path) -> None:
    bundle = _portable(taught)
    counts = {name: len(one.program.steps) for name, one in taught.planned_for_host().items()}
    every = sum(counts.values())
    names = re.findall(r'^    "(\w+): ', bundle.files["net_selftest.c"], re.M)
    assert names == ["learn"] * counts["learn"] + ["forward"] * counts["forward"] + ["halve"] * counts["halve"]
    changes = {  # the second layer of forward, by what it must make; and so on
        "layer": ("net_selftest.c", r"(expected\[\] = \{\n[^\n]*\n    \{)0x\w+u", r"\g<1>0u"),
        "state": ("net_selftest.c", r"crc != 0x\w+u", "crc != 1u"),
        "outputs": ("net_selftest.c", r"(output0\[\] [^{]*\{\s*)-?\d+", r"\g<1>77"),
        "reset": ("net.c", r"memset\((.*), 0, ", r"memset(\1, 1, "),
    }
    found = {
        what: run_here(tmp_path / what, _changed(bundle, *change).files, SANITIZERS) for what, change in changes.items()
    }
    assert found["layer"] == counts["learn"] + 2
    assert found["state"] == every + 1
    assert found["outputs"] == every + 1
    assert 0 < found["reset"] <= counts["learn"]


def test_folder_has_the_self_test_and_its_methods_have_none(taught: CompiledMethods, tmp_path: Path) -> None:
    taught.save(tmp_path / "out")
    files = {path.name for path in (tmp_path / "out").rglob("*_selftest.c")}
    assert files == {"net_selftest.c", "net_learn_selftest.c", "net_halve_selftest.c", "cortado_selftest.c"}
    header = (tmp_path / "out" / "net.h").read_text()
    assert "learn, forward, halve" in " ".join(header.replace("\n *", "").split())
    assert int(re.findall(r"NET_SELFTEST_STACK_BYTES (\d+)", header)[0]) > 100
