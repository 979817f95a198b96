"""examples/notebook: its cells run in order, as a script, and show a compiled model with its pictures."""

import ast
import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from cortado import Compiled, Evaluation
from helpers.paths import ROOT

NOTEBOOK = ROOT / "examples" / "notebook" / "steps.ipynb"


def cells() -> list[str]:
    found = json.loads(NOTEBOOK.read_text())
    assert found["nbformat"] == 4
    assert all(cell.get("outputs", []) == [] for cell in found["cells"])
    return ["".join(cell["source"]) for cell in found["cells"] if cell["cell_type"] == "code"]


def run_cell(source: str, names: dict[str, Any]) -> Any:
    """Runs a cell as a notebook does: its last line, if it is an expression, is what the cell shows."""
    *others, last = ast.parse(source).body
    shown = ast.Expression(last.value) if isinstance(last, ast.Expr) else None
    exec(compile(ast.Module(others if shown else [*others, last], []), str(NOTEBOOK), "exec"), names)
    return None if shown is None else eval(compile(shown, str(NOTEBOOK), "eval"), names)


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("notebook"))
        names: dict[str, Any] = {}
        return [run_cell(source, names) for source in cells()]


@pytest.mark.host
def test_the_cells_run_in_order(shown: list[Any]) -> None:
    arenas = next(one for one in shown if isinstance(one, dict))
    assert set(arenas) == {"cortex-m0plus", "cortex-m55"}
    score = next(one for one in shown if isinstance(one, Evaluation))
    assert score.accuracy is not None
    assert score.accuracy > 0.95


@pytest.mark.host
def test_a_compiled_model_is_shown_with_its_arena_and_its_cycles(shown: list[Any]) -> None:
    compiled = next(one for one in shown if isinstance(one, Compiled))
    memory = compiled.report.memory
    assert memory is not None
    page = ElementTree.fromstring(f"<div>{compiled._repr_html_()}</div>")
    svg = "{http://www.w3.org/2000/svg}"
    arena, cycles = page.findall("figure")
    assert f"{memory.arena_bytes:,} bytes" in (arena.findtext("figcaption") or "")
    names = [title.text or "" for title in arena.iter(f"{svg}title")]
    assert [name.partition(" (")[0] for name in names] == [buffer.name for buffer in memory.buffers]
    layers = [layer for layer in compiled.report.layers if layer.estimated_cycles]
    assert len(list(cycles.iter(f"{svg}rect"))) == len(layers) > 2
    total = sum(layer.estimated_cycles or 0 for layer in layers)
    assert f"{total:,}" in (cycles.findtext("figcaption") or "")


@pytest.mark.host
def test_the_rectangles_lie_inside_of_the_picture(shown: list[Any]) -> None:
    compiled = next(one for one in shown if isinstance(one, Compiled))
    page = ElementTree.fromstring(f"<div>{compiled._repr_html_()}</div>")
    for drawing in page.iter("{http://www.w3.org/2000/svg}svg"):
        width, height = float(drawing.attrib["width"]), float(drawing.attrib["height"])
        for one in drawing.iter("{http://www.w3.org/2000/svg}rect"):
            x, y, across, down = (float(one.attrib[name]) for name in ("x", "y", "width", "height"))
            assert -0.1 <= x <= x + across <= width + 0.1
            assert -0.1 <= y <= y + down <= height + 0.1


def test_the_folder_was_written(shown: list[Any]) -> None:
    folder: Path = shown[-1].folder
    assert folder.name == "steps"
    assert shown[-1].report.model
