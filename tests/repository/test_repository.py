"""What the repository promises about itself: imports, layers, documents, warnings."""

import ast
import importlib
import importlib.util
import json
import re
import tomllib
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import cortado
from cortado.base.system import KERNEL_FILES
from cortado.frontend.rewrite.pipeline import FLOAT_PIPELINE
from cortado.ir.op import registry
from cortado.passes import PIPELINE
from helpers.golden import Golden
from helpers.paths import ROOT, TESTS
from helpers.tests_page import folders, page

SOURCES = sorted((ROOT / "src").rglob("*.py"))
TEST_FILES = sorted(path for path in TESTS.rglob("*.py") if "models" not in path.parts)
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
DOCUMENTS = [
    *(ROOT / f"{name}.md" for name in ("README", "CHANGELOG", "CONTRIBUTING", "SECURITY")),
    *sorted((ROOT / "docs").glob("*.md")),
    TESTS / "README.md",
]
BINDING = "executorch.backends.cortex_m.library"


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@cache
def imports(path: Path) -> tuple[str, ...]:
    """Every module a file imports, wherever in the file."""
    found: list[str] = []
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            found += (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            found += (f"{node.module}.{alias.name}" for alias in node.names)
    return tuple(found)


def test_of_executorchs_backends_only_the_binding_is_imported() -> None:
    found = {name for path in SOURCES for name in imports(path) if name.startswith("executorch.backends")}
    assert found == {f"{BINDING}.cmsis_nn"}
    text = "".join(path.read_text() for path in SOURCES)
    assert len(re.findall(r"executorch\.backends", text)) == text.count(f"from {BINDING} import cmsis_nn")


def named_type(node: ast.stmt) -> str | None:
    """The name of the class or type alias that a statement of a module makes; X = module.Y is neither."""
    match node:
        case ast.ClassDef(name=name):
            return name
        case ast.AnnAssign(target=ast.Name(id=name), annotation=ast.Name(id="TypeAlias")):
            return name
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Subscript() | ast.BinOp(op=ast.BitOr())):
            return None if name.isupper() else name
    return None


def shared_names(sources: Mapping[str, ast.Module]) -> list[tuple[str, str]]:
    """Public classes and type aliases that are defined in several modules, each with its module."""
    found = [
        (name, where)
        for where, module in sources.items()
        for name in map(named_type, module.body)
        if name is not None and not name.startswith("_")
    ]
    names = [name for name, _ in found]
    return [one for one in sorted(found) if names.count(one[0]) > 1]


def test_no_two_public_classes_or_aliases_have_one_name() -> None:
    assert shared_names({path.relative_to(ROOT).as_posix(): tree(path) for path in SOURCES}) == []


def test_aliases_of_types_are_seen() -> None:
    first = ast.parse("class Form: ...\nPlace = Callable[[str], int]\nFact: TypeAlias = int\nX = torch.Y\nA = LIST[0]")
    second = ast.parse("Form = int | str\nPlace = tuple[int, int]\nFact = list[int]\nX = torch.Y\nB = ONE | TWO")
    found = shared_names({"first": first, "second": second})
    assert [name for name, _ in found] == ["Fact", "Fact", "Form", "Form", "Place", "Place"]


def imported_modules(sources: Mapping[str, Path]) -> dict[str, set[str]]:
    """Every module and those that it imports, wherever it does: in functions and under TYPE_CHECKING too."""

    def known(path: Path) -> Iterator[str]:
        for name in imports(path):
            yield from (module for module in (name, name.rpartition(".")[0]) if module in sources)

    return {name: set(known(path)) - {name} for name, path in sources.items()}


def import_cycle(imported: Mapping[str, set[str]]) -> list[str]:
    """Modules that import one another in a circle; none if there is no such circle."""
    try:
        TopologicalSorter(imported).prepare()
    except CycleError as error:
        cycle: list[str] = error.args[1]
        return cycle
    return []


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT / "src").with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def test_no_modules_import_one_another() -> None:
    imported = imported_modules({module_name(path): path for path in SOURCES})
    assert "cortado.ops.move.pad" in imported["cortado.ops.conv.convolution"]  # a module taken from its package
    # A package's own front door opens all its rooms.
    rooms = {name: {other for other in found if not name.startswith(f"{other}.")} for name, found in imported.items()}
    assert import_cycle(rooms) == []


def test_a_late_import_closes_a_circle_too(tmp_path: Path) -> None:
    texts = {
        "late": "def f():\n    import typed",
        "typed": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from late import f",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    assert sorted(set(import_cycle(imported_modules({name: tmp_path / name for name in texts})))) == ["late", "typed"]


def in_ops(path: Path) -> bool:
    return (ROOT / "src" / "cortado" / "ops") in path.parents


def test_operators_are_known_by_their_records() -> None:
    """Outside ops/ no table tells what an operator can do: no operator by its name, no lists of aten's operators."""
    elsewhere = [path for path in SOURCES if not in_ops(path)]
    no_ops = (
        ROOT / "src" / "cortado" / "frontend" / "rewrite" / "canonical.py"
    )  # copies, conversions, dropouts: nobody's operators
    for path in elsewhere:
        nodes = list(ast.walk(tree(path)))
        texts = {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
        assert not texts & set(registry().operators), path
        tables = [node for node in nodes if isinstance(node, ast.Tuple | ast.List | ast.Set | ast.Dict)]
        listed = [ast.unparse(table) for table in tables if ast.unparse(table).count("aten.") > 1]
        assert listed == [] or path == no_ops, path


def test_facts_about_nodes_have_their_keys_in_one_place() -> None:
    """A mistyped key would only be a fact that nobody knows: node.meta is read and written through ir.facts."""

    def looks_inside(path: Path) -> bool:
        nodes = [n for n in ast.walk(tree(path)) if isinstance(n, ast.Subscript | ast.Attribute)]
        return any(isinstance(node.value, ast.Attribute) and node.value.attr == "meta" for node in nodes)

    assert [module_name(path) for path in SOURCES if looks_inside(path)] == ["cortado.ir.facts"]


def test_every_module_has_its_layer() -> None:
    """The list of the architecture page, import-linter's layers and the folders are the same, in the same order."""
    (contract,) = PROJECT["tool"]["importlinter"]["contracts"]
    layers = [name.removeprefix("cortado.") for name in contract["layers"]]
    page = (ROOT / "docs" / "architecture.md").read_text()
    section = page.split("## Layers")[1].split("\n## ")[0]
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*)$", section, re.MULTILINE))
    assert sorted(rows) == sorted(layers)
    package = ROOT / "src" / "cortado"
    files = [*package.glob("*.py"), *(path.parent for path in package.glob("*/__init__.py"))]
    assert set(layers) == {path.stem for path in files} - {"__init__", "__main__"}
    for name in ("ops", "frontend"):
        rooms = {path.parent.name for path in (package / name).glob("*/__init__.py")}
        assert rooms <= set(re.findall(r"`(\w+)`", rows[name])), name


def test_no_module_is_too_long_to_read() -> None:
    lines = {path: len(path.read_text().splitlines()) for path in SOURCES}
    assert {path.name: count for path, count in lines.items() if count > 800} == {}


def test_no_folder_has_too_many_modules_to_look_through() -> None:
    counts = Counter(path.parent.relative_to(ROOT / "src") for path in SOURCES if path.name != "__init__.py")
    assert {str(folder): count for folder, count in counts.items() if count > 20} == {}


def test_no_function_is_too_long_to_read() -> None:
    found = {
        f"{path.name}: {node.name}": length
        for path in SOURCES
        for node in ast.walk(tree(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (length := (node.end_lineno or 0) - node.lineno + 1) > 60
    }
    assert found == {}


def test_no_test_file_is_too_long_to_read() -> None:
    lines = {path: len(path.read_text().splitlines()) for path in TEST_FILES}
    assert {path.name: count for path, count in lines.items() if count > 800} == {}


def test_a_test_file_imports_from_no_other() -> None:
    found = {
        path.name: [name for name in imports(path) if re.search(r"\b(test_|conftest)", name)] for path in TEST_FILES
    }
    assert {name: others for name, others in found.items() if others} == {}


def test_the_architecture_page_names_every_folder_of_tests() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    named = re.findall(r"`tests/(\w+)`(?=[^|]* \|)", page.split("## How it is tested")[1])
    assert sorted({*named} - {"golden"}) == sorted([*(folder.name for folder in folders()), "fuzz"])


def test_the_page_of_the_tests_names_every_file(golden: Golden) -> None:
    golden(TESTS / "README.md", page())


def test_the_architecture_page_names_the_passes() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    section = page.split("## Passes")[1].split("\n## ")[0]
    assert re.findall(r"^\d+\. `([\w-]+)`", section, re.MULTILINE) == [cls.name for cls in (*FLOAT_PIPELINE, *PIPELINE)]


def test_the_architecture_page_counts_what_an_element_touches() -> None:
    """And names what else does: every module that imports INT16, or WIDE, which it is."""
    page = (ROOT / "docs" / "architecture.md").read_text()
    (row,) = re.findall(r"^\| element \| .*$", page, re.MULTILINE)
    named = [{name.removeprefix("cortado.base.element.") for name in imports(path)} for path in SOURCES]
    users = [path for path, names in zip(SOURCES, named, strict=True) if "INT16" in names]
    wider = [path for path, names in zip(SOURCES, named, strict=True) if "WIDE" in names]
    elsewhere = {path.name for path in (*users, *wider) if not in_ops(path)}
    sources = [path for name, path in KERNEL_FILES.items() if "s16" in name]
    assert f"{len([path for path in users if in_ops(path)])} files of `ops/`" in row
    assert f"{len(sources)} files with `s16`" in row
    assert elsewhere <= {name.rpartition("/")[2] for name in re.findall(r"`([\w./]+\.py)`", row)}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_documents_point_at_things_that_exist(document: Path) -> None:
    text = document.read_text()
    links = [link for link in re.findall(r"\]\(([^)#\s]+)", text) if "://" not in link]
    missing = [link for link in links if not (document.parent / link).exists()]
    files = re.findall(r"`((?:src|tests|docs|benchmarks)/[\w./-]+)`", text)
    assert missing + [name for name in files if "NAME" not in name and not (ROOT / name).exists()] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_documents_import_what_there_is(document: Path) -> None:
    for block in re.findall(r"```python\n(.*?)```", document.read_text(), re.DOTALL):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("cortado"):
                module = importlib.import_module(str(node.module))
                assert [alias.name for alias in node.names if not hasattr(module, alias.name)] == []
    commands = re.findall(r"python -m (cortado[\w.]*)", document.read_text())
    assert [name for name in commands if importlib.util.find_spec(name) is None] == []


def test_the_version_is_the_same_everywhere() -> None:
    assert PROJECT["project"]["version"] == cortado.__version__
    changelog = (ROOT / "CHANGELOG.md").read_text()
    assert "## [Unreleased]" in changelog or f"## [{cortado.__version__}]" in changelog


def test_requirements_satisfy_the_project() -> None:
    pinned = dict(line.split("==") for line in (ROOT / "requirements.txt").read_text().split())
    # The tests need the .pte road too; what a sweep may use is in requirements-dev.txt.
    extras = PROJECT["project"]["optional-dependencies"]
    wanted = [*PROJECT["project"]["dependencies"], *extras["compile"], *extras["executorch"]]
    requirements = [one for one in wanted if one != "cortado[compile]"]
    assert set(pinned) == {re.split(r"[<>=]", requirement)[0] for requirement in requirements}
    for requirement in requirements:
        name, _, exact = requirement.partition("==")
        assert not exact or pinned[name] == exact


def test_warnings_are_errors() -> None:
    with pytest.raises(UserWarning, match="like any other"):
        warnings.warn("like any other", stacklevel=1)


def test_only_warnings_of_named_third_parties_are_ignored() -> None:
    """And those that a compile tells of a test's calibration data."""
    first, *others = PROJECT["tool"]["pytest"]["ini_options"]["filterwarnings"]
    assert first == "error"
    for entry in others:
        action, _, category, *modules = entry.split(":")
        assert action == "ignore"
        if category == "cortado.base.errors.CortadoWarning":
            continue
        (module,) = modules
        assert module.split(".")[0].rstrip("*") in {"executorch", "torch", "torchao", "importlib", "copyreg"}


def test_nothing_is_skipped_or_left_for_later() -> None:
    words = ["pytest." + "skip", "x" + "fail", "import" + "orskip", "TO" + "DO", "FIX" + "ME"]
    files = [*SOURCES, *TESTS.rglob("*.py"), *(ROOT / "benchmarks").glob("*.py")]
    files += [path for path in (ROOT / "src").rglob("*") if path.suffix in (".c", ".h", ".S", ".cpp")]
    texts = {path.name: path.read_text() for path in files}
    pattern = re.compile("|".join(rf"\b{re.escape(word)}\b" for word in words))
    assert {name: pattern.findall(text) for name, text in texts.items() if pattern.search(text)} == {}


@pytest.mark.xdist_group("together")
def test_tests_of_a_group_run_in_one_worker(request: pytest.FixtureRequest) -> None:
    """pytest-xdist writes the group behind a test's name; with a pytest that does not let it, every worker makes again
    what a group shares, and nothing says so."""
    if request.config.getoption("loadgroup", default=False):
        assert request.node.nodeid.endswith("@together")


def test_every_fault_of_the_mutants_can_still_be_made() -> None:
    table = tomllib.loads((ROOT / "tools" / "mutants.toml").read_text())["fault"]
    assert len(table) == 40
    for row in table:
        text = (ROOT / "src" / "cortado" / row["file"]).read_text()
        assert text.count(row["was"]) == 1, f"{row['file']}: {row['was']}"
        assert row["was"] != row["becomes"]
        for name in row["tests"]:
            path, _, test = name.partition("::")
            assert (ROOT / path).exists(), name
            assert not test or f"def {test.partition('[')[0]}(" in (ROOT / path).read_text(), name
    kept = json.loads((ROOT / "tools" / "mutants.json").read_text())
    assert list(kept) == [f"{row['file']}: {row['was'].strip()}" for row in table], "python tools/mutants.py --keep"
    assert list(kept.values()).count(None) <= 2
