"""Several models in one program: the kernels once, arenas shared or not; two sets of kernels are an error."""

import json
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import cortado
from cortado.api import Compiled, Model, prepare
from cortado.base.errors import CortadoError
from cortado.base.system import KERNELS
from cortado.base.target import BUNDLE_FLAGS, Core, from_target_string
from cortado.emit.c.bundle import emit_c
from cortado.emit.c.library import library_hash, version_number
from cortado.emit.c.together_source import ProgramMember, emit_together
from cortado.options import Options
from cortado.plan.lowered import run_reference
from cortado.plan.planned import Planned
from cortado.plan.program import build_program
from cortado.plan.schedule import schedule
from cortado.run import toolchain
from cortado.run.board import build_firmware, find_board
from cortado.run.measure import PLAIN_NAMES
from cortado.run.qemu import run_elf
from cortado.run.runner import WARNINGS, bundle_includes, bundle_sources, write_files
from helpers.cli import TINY, Run
from helpers.cores import each_core
from helpers.sanitizers import SANITIZERS

# The other model's output is another: its input is.
MAIN = """#include <string.h>

#include "cortado_together.h"

static int8_t first[TINY_OUTPUT0_BYTES];
static const int8_t input[] = {INPUT};
static const int8_t expected[] = {EXPECTED};

int main(void)
{
    if (((void *)tiny_default_arena() == (void *)other_default_arena()) != SHARED) { return 1; }
    memcpy(tiny_input(tiny_default_arena(), 0), input, sizeof input);
    tiny_run(tiny_default_arena());
    memcpy(first, tiny_output(tiny_default_arena(), 0), sizeof first);
    memcpy(other_input(other_default_arena(), 0), input, sizeof input);
    other_run(other_default_arena());
    if (memcmp(first, expected, sizeof first) != 0) { return 2; }
    return memcmp(other_output(other_default_arena(), 0), expected, sizeof expected) != 0 ? 3 : 0;
}
"""
USER = (
    "extern int {name}_run(void *);\nint run_{name}(void);\nint run_{name}(void) {{ return {name}_run((void *)0); }}\n"
)
BOTH = "int run_tiny(void);\nint run_other(void);\nint main(void) { return run_tiny() + run_other(); }\n"
LOOP = f"cortado_run_stage_of_version_{'_'.join(cortado.__version__.split('.')[:3])}_kernels_{library_hash()}"
SAYS_SO = "cortado_two_sets_of_kernels__compile_the_models_with_together"


def planned(model: Model, name: str, cores: tuple[Core, ...] | None = (Core.PORTABLE,), target: str = "m4") -> Planned:
    config = from_target_string(f"cortex-{target}")
    graph = model.compile(config).graph
    assert graph is not None
    return schedule(build_program(name, graph, config, cores=cores))


def main_text(model: Model, *, shared: bool) -> str:
    compiled = model.compile("cortex-m4")
    assert compiled.graph is not None
    assert compiled.planned is not None
    values, program = run_reference(compiled.graph, compiled.example), compiled.planned.program
    codes = [values[tensor.node].flatten().tolist() for tensor in (program.inputs[0], program.outputs[0])]
    given, expected = (", ".join(map(str, one)) for one in codes)
    return (
        MAIN.replace("INPUT}", f"{given}}}").replace("EXPECTED}", f"{expected}}}").replace("SHARED", str(int(shared)))
    )


# ---- one program -----------------------------------------------------------------------------------------------------


@pytest.mark.cases(1)
@pytest.mark.host
@pytest.mark.parametrize("shared", [True, False])
def test_both_are_right_here(tiny: Model, tmp_path: Path, shared: bool) -> None:
    members = [ProgramMember(planned(tiny, name)) for name in ("tiny", "other")]
    write_files(tmp_path, {**emit_together(members, one_arena=shared).files, "main.c": main_text(tiny, shared=shared)})
    flags = [*WARNINGS, *BUNDLE_FLAGS, *SANITIZERS]
    program = toolchain.build_executable(bundle_sources(tmp_path, "c"), bundle_includes(tmp_path), flags, "both")
    assert subprocess.run([program], timeout=1800).returncode == 0


@pytest.mark.qemu
@pytest.mark.parametrize("target", each_core("m0plus", "m4", "m55", here="m55"))
def test_both_are_right_on_boards(tiny: Model, tmp_path: Path, target: str) -> None:
    members = [ProgramMember(planned(tiny, name, None, target)) for name in ("tiny", "other")]
    write_files(tmp_path, {**emit_together(members, one_arena=True).files, "main.c": main_text(tiny, shared=True)})
    config = from_target_string(f"cortex-{target}")
    board, flags = find_board(config.machine), [*config.compiler_flags(), *WARNINGS, *BUNDLE_FLAGS]
    elf = build_firmware(board, bundle_sources(tmp_path), bundle_includes(tmp_path), flags, "both", harness=False)
    assert run_elf(elf, board, b"", check=False).said.exit_code == 0


class Counts(nn.Module):
    """State has to last in the arena."""

    seen: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(1, 4))

    def forward(self, x: Tensor) -> Tensor:
        self.seen.copy_(self.seen * 0.5 + x)
        return self.seen * 1.0


def test_an_arena_in_which_something_lasts_is_not_shared(tiny: Model, tmp_path: Path) -> None:
    torch.manual_seed(0)
    batches = [(torch.randn(1, 4),) for _ in range(3)]
    counts = prepare(Counts(), batches[0], batches, name="counts").compile("cortex-m4")
    rows = tiny.compile("cortex-m4", Options(input_rows=True))
    second = prepare(nn.Linear(4, 2).eval(), batches[0], batches, name="second").compile("cortex-m4")
    facts = cortado.save_together([counts, rows, second], tmp_path / "all", shared_arena=True)
    assert [one.shares_arena for one in facts.models] == [False, False, True]
    assert facts.arena_bytes == sum(one.arena_bytes for one in facts.models)
    assert "`counts`, `tiny` keep state" in (tmp_path / "all" / "README.md").read_text()
    assert "cortado_together_arena" not in (tmp_path / "all" / "counts.c").read_text()


# ---- two sets of kernels -------------------------------------------------------------------------------------------


@pytest.fixture
def bundles(tiny: Model, tmp_path: Path) -> Path:
    """Two bundles, each with kernels of its own."""
    for name in ("tiny", "other"):
        write_files(tmp_path / name, emit_c(planned(tiny, name)).files)
        (tmp_path / f"{name}_user.c").write_text(USER.format(name=name))
    (tmp_path / "main.c").write_text(BOTH)
    return tmp_path


def build(folder: Path, sources: Sequence[Path], includes: Sequence[Path]) -> str:
    """What is said when these are made a program."""
    objects = []
    for number, source in enumerate(sources):
        objects.append(folder / f"{number}.o")
        flags = [*BUNDLE_FLAGS, PLAIN_NAMES, *(f"-I{include}" for include in includes)]
        done = subprocess.run(["cc", *flags, "-c", source, "-o", objects[-1]], capture_output=True, text=True)
        if done.returncode != 0:
            return done.stderr
    return subprocess.run(["cc", *objects, "-o", folder / "program"], capture_output=True, text=True).stderr


def archived(folder: Path, name: str) -> Path:
    """A bundle as a library."""
    objects = []
    for source in bundle_sources(folder / name, "c"):
        objects.append(folder / name / f"{source.stem}.o")
        includes = [f"-I{include}" for include in bundle_includes(folder / name)]
        subprocess.run(["cc", *BUNDLE_FLAGS, PLAIN_NAMES, *includes, "-c", source, "-o", objects[-1]], check=True)
    subprocess.run(["ar", "rcs", folder / f"lib{name}.a", *objects], check=True)
    return folder / f"lib{name}.a"


@pytest.mark.host
def test_a_file_that_includes_both_headers_says_so(bundles: Path) -> None:
    both = bundles / "both.c"
    both.write_text('#include "tiny/tiny.h"\n#include "other/other.h"\n')
    assert 'error "two Cortado bundles with kernels of their own' in build(bundles, [both], [bundles])
    header = bundles / "other" / "other.h"
    header.write_text(header.read_text().replace(f"NUMBER {version_number(cortado.__version__)}", "NUMBER 99"))
    header.write_text(header.read_text().replace(f"!= {version_number(cortado.__version__)}", "!= 99"))
    assert 'error "bundles of different versions of Cortado' in build(bundles, [both], [bundles])


@pytest.mark.host
def test_a_linker_says_so(bundles: Path) -> None:
    """Of libraries, from which it would silently take some kernels of each; and of plain objects."""
    users = [bundles / "main.c", bundles / "tiny_user.c", bundles / "other_user.c"]
    libraries = [archived(bundles, name) for name in ("tiny", "other")]
    done = subprocess.run(
        ["cc", *users, *libraries, "-o", bundles / "program"], capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert set(re.findall(r"multiple definition of `(\w+)'", done.stderr)) == {SAYS_SO}
    objects = [source for name in ("tiny", "other") for source in bundle_sources(bundles / name, "c")]
    assert SAYS_SO in build(bundles, [*users, *objects], [*bundle_includes(bundles / "tiny"), bundles / "other"])


@pytest.mark.host
def test_a_bundle_beside_models_that_were_compiled_together_is_found(tiny: Model, bundles: Path) -> None:
    write_files(bundles / "tiny", emit_together([ProgramMember(planned(tiny, "tiny"))], one_arena=True).files)
    users = [bundles / "main.c", bundles / "tiny_user.c", bundles / "other_user.c"]
    libraries = [archived(bundles, name) for name in ("tiny", "other")]
    done = subprocess.run(["cc", *users, *libraries, "-o", bundles / "program"], capture_output=True, text=True)
    assert f"multiple definition of `{SAYS_SO}'" in done.stderr


@pytest.mark.host
def test_kernels_of_another_version_are_found(bundles: Path) -> None:
    """By the compiler where it sees their headers, and by the linker where they are compiled already."""
    library = archived(bundles, "other")
    version = bundles / "tiny" / "kernels" / "include" / "cortado_version.h"
    version.write_text(version.read_text().replace(library_hash(), "0badc0de"))  # of the same number
    said = build(bundles, [bundles / "tiny" / "tiny.c"], bundle_includes(bundles / "tiny"))
    assert "these kernels are not from Cortado" in said
    kernels = [source for source in bundle_sources(bundles / "tiny", "c") if source.parent.name == "src"]
    user, main = bundles / "other_user.c", bundles / "main.c"
    main.write_text("int run_other(void);\nint main(void) { return run_other(); }\n")
    subprocess.run(["ar", "d", library, *(f"{source.stem}.o" for source in kernels)], check=True)
    objects = [bundles / f"{source.stem}.old.o" for source in kernels]
    for source, target in zip(kernels, objects, strict=True):
        flags = [f"-I{include}" for include in bundle_includes(bundles / "tiny")]
        subprocess.run(["cc", *BUNDLE_FLAGS, *flags, "-c", source, "-o", target], check=True)
    done = subprocess.run(["cc", main, user, library, *objects, "-o", bundles / "x"], capture_output=True, text=True)
    assert f"undefined reference to `{LOOP}'" in done.stderr


@pytest.mark.cases(2)
@pytest.mark.host
@pytest.mark.parametrize(
    ("defined", "of", "missing"),
    [
        (
            "CORTADO_ENABLE_RUNTIME_CHECKS",
            {"tiny.c", "kernels"},
            "`tiny_run_BUILD'",
        ),  # and not main: its arena is too small
        ("CORTADO_ENABLE_RUNTIME_CHECKS", {"main.c"}, "`tiny_run_BUILD_with_runtime_checks'"),
        (
            "CORTADO_ENABLE_RUNTIME_CHECKS",
            {"main.c", "tiny.c"},
            f"`{LOOP}_with_runtime_checks'",
        ),
        ("CORTADO_PROFILE", {"main.c", "tiny.c"}, f"`{LOOP}_with_profile'"),
        ("CORTADO_CHECK_RANGES", {"main.c", "tiny.c"}, f"`{LOOP}_counting_ranges'"),
        ("CORTADO_ENABLE_RUNTIME_CHECKS", {"main.c", "tiny.c", "kernels"}, None),
        ("CORTADO_PROFILE", {"main.c", "tiny.c", "kernels"}, None),
    ],
)
def test_sources_with_different_settings_do_not_link(
    bundles: Path, defined: str, of: set[str], missing: str | None
) -> None:
    """Their tables and their arenas would be of different sizes."""
    main, folder = bundles / "main.c", bundles / "tiny"
    main.write_text(
        '#include "tiny.h"\n#ifdef CORTADO_PROFILE\nvoid tiny_profile(uint32_t step) { (void)step; }\n#endif\n'
        "static tiny_arena_t arena;\nint main(void) { return tiny_run(&arena); }\n"
    )
    objects = []
    for source in (main, *bundle_sources(folder, "c")):
        objects.append(bundles / f"{source.stem}.o")
        kind = "kernels" if source.parent.name == "src" else source.name
        flags = [
            *BUNDLE_FLAGS,
            *(f"-I{path}" for path in bundle_includes(folder)),
            *([f"-D{defined}"] if kind in of else []),
        ]
        subprocess.run(["cc", *flags, "-c", source, "-o", objects[-1]], check=True)
    done = subprocess.run(["cc", *objects, "-o", bundles / "x"], capture_output=True, text=True)
    said = re.sub(r"tiny_run_[0-9a-f]{8}", "tiny_run_BUILD", done.stderr)
    assert missing in said if missing is not None else done.returncode == 0, done.stderr


@pytest.mark.host
def test_cmake_says_so(bundles: Path) -> None:
    text = "cmake_minimum_required(VERSION 3.16)\nproject(p C)\nadd_subdirectory(tiny)\nadd_subdirectory(other)\n"
    (bundles / "CMakeLists.txt").write_text(text)
    done = subprocess.run(["cmake", "-S", bundles, "-B", bundles / "b"], capture_output=True, text=True, timeout=1800)
    assert done.returncode != 0
    assert "kernels of their own in one program" in " ".join(done.stderr.split())


def test_the_kernels_are_of_this_version() -> None:
    text = (KERNELS / "include" / "cortado_version.h").read_text()
    assert f"NUMBER {version_number(cortado.__version__)} " in text
    assert f"_of_version_{'_'.join(cortado.__version__.split('.')[:3])}_kernels_00000000" in text


# ---- what is asked for -----------------------------------------------------------------------------------------------


def test_the_command_line_writes_one_program(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "both"
    given = ("compile", TINY, f"other={TINY}", "--calibration", f"{TINY},{TINY}", "--target", "cortex-m4", "--selftest")
    for more, shared in (((), 2), (("--shared-arena",), 1)):  # and in place of the first
        done = run(*given, "--together", folder, *more, "--json")
        assert done.code == 0, done.err
        facts = json.loads(done.out)
        assert facts["arena_bytes"] * 2 == facts["models"][0]["arena_bytes"] * 2 * shared
        assert [one["prefix"] for one in facts["models"]] == ["tiny", "other"]
    alone = run("compile", TINY, "--calibration", TINY, "--target", "cortex-m4", "-o", tmp_path / "tiny", "--json").json
    assert facts["weights_bytes"] == 2 * alone["flash"]["weights_bytes"]
    assert alone["flash"]["code_bytes"] < facts["code_bytes"] < 1.5 * alone["flash"]["code_bytes"]
    assert {"tiny.c", "other.c", "other_selftest.c", "kernels"} <= {path.name for path in folder.iterdir()}
    (folder / "mine.txt").write_text("")
    done = run(*given, "--together", folder)
    assert done.code == 2
    assert "it holds 'mine.txt', which --together did not write" in done.err


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ((TINY, "--together", "DIR"), f"{TINY} was given twice, expected another name for each model: first={TINY} "),
        ((f"tiny={TINY}", "--together", "DIR"), "'tiny' and 'tiny' would be the same model in C"),
        ((f"tiny_data={TINY}", "--together", "DIR"), "would both write tiny_data.h: rename one"),
        ((f"a={TINY}", "--together", "DIR", "-o", "x"), "-o (the folder is that of --together) is for one model"),
        ((f"a={TINY}", "--together", "DIR", "--labels", "a,b"), "--labels is for one model"),
        ((f"a={TINY}", "--together", "DIR", "--artifacts", "pte"), "--together writes the C of several, and no .pte"),
        ((f"a={TINY}", "--together", "DIR", "--target", "cortex-m4,cortex-m0"), "one program, for one target; 2 were"),
        ((f"a={TINY}", "--together", "DIR", "--calibration", f"{TINY},,"), "names 3 data sets for 2 models"),
        ((f"a={TINY}", "--together", "DIR", "--ram-budget", "300"), "together the models need"),
        ((f"a={TINY}",), "name one, or combine them into one program with --together DIR"),
        (("--shared-arena",), "--shared-arena is for models that are compiled with --together DIR"),
    ],
)
def test_what_can_not_be_is_refused(run: Run, tmp_path: Path, more: tuple[str, ...], message: str) -> None:
    words = [str(tmp_path / "all") if word == "DIR" else word for word in more]
    own = () if "--calibration" in words else ("--calibration", TINY)
    done = run("compile", TINY, *words, *own)
    assert done.code == 2
    assert message in " ".join(done.err.split())
    assert not (tmp_path / "all").exists()


def test_python_refuses_what_is_no_program(tiny: Model, tmp_path: Path) -> None:
    with pytest.raises(CortadoError, match="no models were given"):
        cortado.save_together([], tmp_path / "none")
    both: list[Compiled] = [tiny.compile("cortex-m4"), tiny.compile("cortex-m0")]
    with pytest.raises(CortadoError, match="models for cortex-m4 and cortex-m0 can't be one program"):
        cortado.save_together(both, tmp_path / "none")
