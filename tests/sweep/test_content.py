"""By what rows of a sweep are known: whatever the figures depend on is part of the hash, and nothing that changes by
itself is."""

import functools
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from cortado.models.sources import Source
from cortado.sweep import work
from cortado.sweep.content import content_key, reached
from cortado.sweep.rows import Status, Task
from cortado.sweep.run import sweep
from cortado.sweep.spec import SweepTarget, read_spec

NET = """
import torch
from helper import width

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.one = torch.nn.Linear(4, 4)

    def forward(self, x):
        from late import times
        return torch.cat([self.one(x)] * width() * times(), 1)

def build():
    return Net().eval(), (torch.ones(1, 4),)
"""
LIST = """
from nets import build

def candidates():
    return {"net": build}
"""
SPEC = 'models = ["nets.py:build"]\ncandidates = "list.py:candidates"\ntargets = ["cortex-m0plus"]\n'
TASK = Task("net", "list.py:candidates", ".", SweepTarget(target="cortex-m4"), {}, 60.0, "estimate")


def key(model: nn.Module) -> str:
    return content_key(TASK, Source("net", model, (torch.ones(1, 4),)))


@pytest.mark.slow
def test_a_change_of_any_file_that_the_model_reaches_makes_its_rows_new(tmp_path: Path) -> None:
    """Named by its file or in a list; a change of the list itself leaves rows as they are."""
    files = {"nets.py": NET, "list.py": LIST, "late.py": "def times(): return 1\n", "sweep.toml": SPEC}
    for name, text in {**files, "helper.py": "from deep import width\n", "deep.py": "def width(): return 1\n"}.items():
        (tmp_path / name).write_text(text)

    def rows() -> list[tuple[int, bool]]:
        with ThreadPoolExecutor(1) as pool:
            found = sweep(read_spec(tmp_path / "sweep.toml"), tmp_path / "out", pool)
        assert [row.status for row in found] == [Status.FINE] * 2, [row.reason for row in found]
        return [(row.ram_bytes or 0, row.cached) for row in found]

    first = rows()
    assert not any(cached for _, cached in first)
    (tmp_path / "list.py").write_text(LIST + "\n# more to come\n")
    assert rows() == [(ram, True) for ram, _ in first]
    (tmp_path / "deep.py").write_text("def width(): return 40\n")
    wider = rows()
    assert [cached for _, cached in wider] == [False, False]
    assert wider[0] > first[0]


class Holder(nn.Module):
    """A model with something in it."""

    def __init__(self, held: Any) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 2)
        nn.init.ones_(self.layer.weight)
        nn.init.ones_(self.layer.bias)
        self.held = held

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x)


class Thing:
    """An object of the user's own."""

    def __init__(self, size: int) -> None:
        self.size = size


def _times(factor: float) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda x: x * factor


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([1, 2], [1, 3]),
        ({"a": 1}, {"a": 2}),
        (True, None),
        (F.relu, F.gelu),
        (torch.relu, torch.tanh),
        (torch.ops.aten.relu, torch.ops.aten.tanh),
        (functools.partial(F.leaky_relu, negative_slope=0.1), functools.partial(F.leaky_relu, negative_slope=0.2)),
        (_times(1.0), _times(2.0)),
        (Thing(1), Thing(2)),
        ([nn.ReLU()], [nn.Tanh()]),
        (torch.zeros(2), torch.ones(2)),
        (torch.zeros(2).to(torch.bfloat16), torch.ones(2).to(torch.bfloat16)),
    ],
)
def test_whatever_a_model_holds_is_part_of_its_content(one: Any, other: Any) -> None:
    assert key(Holder(one)) == key(Holder(one))
    assert key(Holder(one)) != key(Holder(other))


def test_weights_and_buffers_that_are_not_saved_are_content() -> None:
    models = [Holder(None) for _ in range(3)]
    for value, model in enumerate(models):
        model.register_buffer("table", torch.full((2,), float(value % 2)), persistent=False)
    with torch.no_grad():
        models[2].layer.weight[0, 0] += 1
    assert len({key(model) for model in models}) == 3


def test_another_forward_put_into_a_class_is_content(monkeypatch: pytest.MonkeyPatch) -> None:
    before = key(Holder(None))
    monkeypatch.setattr(Holder, "forward", lambda self, x: self.layer(x) * 2)
    assert key(Holder(None)) != before


@pytest.mark.slow
def test_the_same_model_has_the_same_key_in_another_process() -> None:
    """Ids, hooks' numbers and the order of sets differ there."""
    text = (
        "import torch; from torch import nn; from cortado.models.sources import Source;"
        "from cortado.sweep.content import content_key; from cortado.sweep.rows import Task;"
        "from cortado.sweep.spec import SweepTarget; torch.manual_seed(0);"
        "m = nn.Sequential(nn.LSTM(4, 3, batch_first=True)); m.names = {'a', 'b', 'c'};"
        "m.net = nn.ModuleList([nn.GELU()]);"
        "[m[0].register_forward_hook(print).remove() for _ in range(%d)]; m[0].register_forward_hook(print);"
        "print(content_key(Task('n', 'l:c', '.', SweepTarget(target='cortex-m4'), {}, 60.0, 'estimate'),"
        "Source('n', m, (torch.ones(1, 2, 4),))))"
    )
    keys = [
        subprocess.run([sys.executable, "-c", text % count], capture_output=True, text=True, check=True).stdout
        for count in (1, 5)
    ]
    assert keys[0] == keys[1] != "\n"


def test_packages_and_dynamic_imports_are_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "reach_me"
    package.mkdir()
    names = {
        "__init__.py": "",
        "a.py": "from . import b\nfrom .inner.c import x\nimport os, numpy\ndef f():\n    import late\n",
        "b.py": "",
        "d.py": "import importlib\nimportlib.import_module('reach_other')\n",
    }
    for name, text in names.items():
        (package / name).write_text(text)
    (package / "inner").mkdir()
    (package / "inner" / "__init__.py").write_text("")
    (package / "inner" / "c.py").write_text("x = 1\n")
    (tmp_path / "reach_other.py").write_text("")
    (tmp_path / "late.py").write_text("")
    found = {path.relative_to(tmp_path).as_posix() for path in reached([package / "a.py"])}
    assert found == {
        "late.py",
        *(f"reach_me/{name}" for name in ("a.py", "b.py", "__init__.py", "inner/__init__.py", "inner/c.py")),
    }
    other = ModuleType("reach_other")  # an import by name here would make every loaded file this file's content
    other.__file__ = str(tmp_path / "reach_other.py")
    monkeypatch.setitem(sys.modules, other.__name__, other)
    assert tmp_path / "reach_other.py" in reached([package / "d.py"])


def test_a_known_row_that_is_damaged_is_worked_out_again(tmp_path: Path) -> None:
    (tmp_path / "n.py").write_text(
        "import torch\ndef build():\n    return torch.nn.Linear(4, 2), (torch.ones(1, 4),)\n"
    )
    task = Task("n.py:build", None, str(tmp_path), SweepTarget(target="cortex-m4"), {}, 60.0, "estimate", str(tmp_path))
    first = work.row_of(task)
    (tmp_path / f"{first.key}.json").write_text('{"model": "n.p')
    assert work.row_of(task).status is Status.FINE
