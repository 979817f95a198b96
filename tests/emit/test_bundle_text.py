"""The text of a bundle: C calls as they are printed, names, lines that fit, headers in use, the license."""

import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

import cortado
from cortado.base.errors import CortadoError
from cortado.base.names import identifier_part
from cortado.base.system import KERNELS
from cortado.base.target import BUNDLE_FLAGS, from_target_string
from cortado.emit.c.bundle import Bundle, emit_c
from cortado.emit.c.text import WIDTH, Names, call_function, call_text, comment, listed
from cortado.ir.c_call import Argument, Callee, CCall, Member, Offset, Operand, Row, Typed
from cortado.ir.kernel import Kernel
from cortado.options import Optimize
from cortado.plan.program import build_program
from cortado.plan.schedule import schedule
from cortado.run import toolchain
from cortado.run.runner import WARNINGS, bundle_includes, bundle_sources, write_files
from helpers.hostile import HOSTILE
from helpers.networks import graph_of, planned

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.xdist_group("network ds_cnn")  # which one worker prepares

# ---- C calls -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("argument", "text", "unused"),
    [
        (Operand.LAYER, "L", {"rows", "out", "n", "scratch", "y"}),
        (Operand.N, "n", {"rows", "out", "scratch", "y"}),
        (Row(1), "rows[1]", {"out", "n", "scratch", "y"}),
        (Typed(Row(0), "float"), "(const float *)(const void *)rows[0]", {"out", "n", "scratch", "y"}),
        (Typed(Operand.OUT, "float"), "(float *)(void *)out", {"rows", "n", "scratch", "y"}),
        (Member("scale"), "L->scale", {"rows", "out", "n", "scratch", "y"}),
        (Member("phase", phases=4), "L->phase[y & 3]", {"rows", "out", "n", "scratch"}),
        (Offset(Operand.ROWS, by=Member("top", phases=2)), "rows + L->top[y & 1]", {"out", "n", "scratch"}),
        (Callee("cortado_means_s8"), "cortado_means_s8", {"rows", "out", "n", "scratch", "y"}),
        (12, "12", {"rows", "out", "n", "scratch", "y"}),
    ],
)
def test_a_call_reads_what_its_arguments_say(argument: Argument, text: str, unused: set[str]) -> None:
    """And what it does not read is no warning."""
    call = CCall("cortado_f", (argument,))
    assert call_text(call) == f"cortado_f({text})"
    lines = call_function("call_f", "cortado_f_t", call).splitlines()
    assert "    const cortado_f_t *L = layer;" in lines
    assert f"    cortado_f({text});" in lines
    assert {line.strip() for line in lines if "(void)" in line} == {f"(void){name};" for name in unused}


def test_a_kernel_without_a_descriptor_ignores_its_layer() -> None:
    text = call_function("call_f", None, CCall("cortado_f", (Row(0), Operand.OUT)))
    assert "(void)layer;" in text
    assert "L = layer" not in text


def test_a_kernel_with_scratch_says_how_much_it_needs() -> None:
    """The checks build works it out again."""
    with pytest.raises(CortadoError, match="cortado_f: a kernel with scratch has a descriptor and a function"):
        Kernel(call=CCall("cortado_f", (Operand.SCRATCH,)), struct="cortado_f_t", scratch=4)


# ---- names, comments, lists ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [*HOSTILE, "features.0", "x" * 300, "", "__", "0.1"])
def test_a_name_inside_an_identifier_is_letters_digits_and_single_underscores(text: str) -> None:
    assert re.fullmatch(r"([A-Za-z0-9]+(_[A-Za-z0-9]+)*)?", identifier_part(text))
    assert len(identifier_part(text)) <= 40


def test_a_name_is_given_once() -> None:
    """Also where a module is called as the second of another would be."""
    names = Names()
    assert [names.new(wanted) for wanted in ("a", "a_2", "a", "a", "b")] == ["a", "a_2", "a_3", "a_4", "b"]


@pytest.mark.parametrize("indent", [0, 4, 40])
@pytest.mark.parametrize("size", [1, 7, 60, 200])
def test_lists_and_comments_fit(indent: int, size: int) -> None:
    words = ["x" * min(size, WIDTH - indent - len("/*  */"))] * 30
    items, told = (" " * indent + text for text in (listed(words, indent), comment(" ".join(words), indent)))
    assert [item.strip() for item in items.split(",")] == words
    assert re.sub(r"[/*]", " ", told).split() == words
    assert max(len(line) for line in [*items.splitlines(), *told.splitlines()]) <= WIDTH


# ---- two networks of the zoo: one for a core, one for any ----------------------------------------------------------

BUNDLES = (("ds_cnn", "cortex-m55"), ("resnet8", "cortex-m"))
ONE_OF_EACH_KIND = ("cortex-m0", "cortex-m3", "cortex-m4", "cortex-m55")
CODE = {".c", ".h", ".S"}


@pytest.fixture(scope="module", params=BUNDLES, ids=lambda pair: pair[0])
def bundle(request: pytest.FixtureRequest) -> Bundle:
    name, target = request.param
    return emit_c(planned(name, target, Optimize.BALANCED))


@pytest.fixture
def folder(bundle: Bundle, tmp_path: Path) -> Path:
    write_files(tmp_path, bundle.files)
    return tmp_path


def test_no_line_is_too_long(bundle: Bundle) -> None:
    long = [(name, line) for name, text in bundle.files.items() for line in text.splitlines() if len(line) > WIDTH]
    assert long == []


def test_every_file_says_its_license(bundle: Bundle) -> None:
    """And names no Python file: there is none where it goes."""
    for name, text in bundle.files.items():
        if Path(name).suffix in CODE:
            assert text.startswith("/* SPDX-License-Identifier: Apache-2.0\n"), name
            assert re.findall(r"\b\w+\.py\b", text) == []
    assert bundle.files["CMakeLists.txt"].startswith("# SPDX-License-Identifier: Apache-2.0\n")
    assert "Apache License 2.0 ([LICENSE](LICENSE))" in " ".join(bundle.files["README.md"].split())
    assert bundle.files["LICENSE"] == (ROOT / "LICENSE").read_text() == (KERNELS / "LICENSE").read_text()


def dependencies(folder: Path, source: Path, target: str) -> set[str]:
    """The headers of the bundle that the compiler reads for a source."""
    includes = [f"-I{path}" for path in bundle_includes(folder)]
    flags = from_target_string(target).compiler_flags()
    command = [str(toolchain.require(toolchain.Tool.ARM_GCC)), *flags, *includes, "-MM", str(source)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    paths = [Path(word) for word in done.stdout.replace("\\\n", " ").split(": ", 1)[1].split()]
    return {path.resolve().relative_to(folder.resolve()).as_posix() for path in paths if path.suffix == ".h"}


@pytest.mark.host
def test_every_header_is_included_by_something(bundle: Bundle, folder: Path) -> None:
    """By what the compiler says; a bundle for any core, of one core of each kind."""
    targets = ONE_OF_EACH_KIND if "resnet8.h" in bundle.files else ("cortex-m55",)
    pairs = [(source, target) for source in bundle_sources(folder) for target in targets]
    found = set().union(*(dependencies(folder, source, target) for source, target in pairs))
    assert found == {name for name in bundle.files if name.endswith(".h")}


@pytest.mark.host
def test_all_files_in_one_folder_need_one_include_path(bundle: Bundle, tmp_path: Path) -> None:
    flat = {Path(name).name: text for name, text in bundle.files.items()}
    assert len(flat) == len(bundle.files)
    write_files(tmp_path, flat)
    flags = [*from_target_string("cortex-m55").compiler_flags(), *WARNINGS, *BUNDLE_FLAGS]
    for source in sorted(tmp_path.glob("*.[cS]")):
        toolchain.compile_object(source, [tmp_path], flags, toolchain.arm_gcc())


def test_constants_say_what_they_are(bundle: Bundle) -> None:
    """Layer, shape and packing stand above each."""
    text = next(text for name, text in bundle.files.items() if name.endswith("_data.c"))
    about = r"[\w.]+: \w+ (?:\[\d+\])+(?:, packed with biases and factors)? for cortado_\w+[^*]*"
    said = re.findall(rf"^/\* {about} \*/\nconst \w+ (\w+)\[", text.replace("\n * ", " "), flags=re.M)
    assert sorted(said) == sorted(constant.name for constant in bundle.constants)


def test_the_header_says_the_version() -> None:
    """As text and as a number that a preprocessor can compare."""
    header = emit_c(planned("ds_cnn", "cortex-m55", Optimize.BALANCED)).files["ds_cnn.h"]
    major, minor, patch = (int(part) for part in re.findall(r"\d+", cortado.__version__)[:3])
    assert f'#define DS_CNN_VERSION "{cortado.__version__}"\n' in header
    assert f"#define DS_CNN_VERSION_NUMBER {10000 * major + 100 * minor + patch}\n" in header


def test_layers_are_named_after_modules() -> None:
    """Comments and names of layers and constants; the operator's name comes behind the module's."""
    bundle = emit_c(planned("ds_cnn", "cortex-m55", Optimize.BALANCED))
    text = bundle.files["ds_cnn.c"]
    assert "/* stem.0: conv2d */\nstatic const cortado_conv2d_packed_t layer_stem_0 = {" in text
    assert "    /* classifier: conv2d */\n    {.call = call_conv1x1_s8__mve, .layer = &layer_classifier," in text
    assert "ds_cnn__stem_0_weights" in {constant.name for constant in bundle.constants}


def test_long_and_equal_names_of_modules_fit() -> None:
    """As long as Python likes, and two modules that C would call the same."""
    graph, target = graph_of("ds_cnn"), from_target_string("cortex-m55")
    modules = [f"block{'_deep' * 60}.{number // 2}" for number, _ in enumerate(graph.calls)]
    calls = tuple(replace(call, module=module) for call, module in zip(graph.calls, modules, strict=True))
    program = build_program("keyword_spotting_net", replace(graph, calls=calls), target)
    found = emit_c(schedule(program, Optimize.BALANCED))
    assert [line for text in found.files.values() for line in text.splitlines() if len(line) > WIDTH] == []
    layers = re.findall(r"^static const \w+ (layer_\w+) = \{", found.files["keyword_spotting_net.c"], flags=re.M)
    assert len(layers) == len(set(layers)) == 11
