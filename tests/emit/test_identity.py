"""Which model a bundle is, and what keeps it from being used wrongly: builds, arenas, resets, instruction sets."""

import json
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from cortado.api import Model
from cortado.api import compile as compile_model
from cortado.base.element import INT8, INT16
from cortado.base.errors import CortadoError
from cortado.base.names import version_of
from cortado.base.target import BUNDLE_FLAGS, Core, from_target_string
from cortado.emit.c.bundle import Bundle, emit_c
from cortado.options import Artifacts, Border, Options, PackageKind
from cortado.plan.lowered import LoweredCall, LoweredGraph, Ref, model_id
from cortado.plan.program import Program, build_program
from cortado.plan.request import Feeding, program_of
from cortado.plan.schedule import schedule
from cortado.run import toolchain
from cortado.run.runner import WARNINGS, bundle_includes, bundle_sources, write_files
from helpers.sanitizers import SANITIZERS

M4 = from_target_string("cortex-m4")
pytestmark = pytest.mark.host


@pytest.fixture(scope="module")
def graph(tiny: Model) -> LoweredGraph:
    found = tiny.compile("cortex-m4", Options(artifacts=Artifacts.C)).graph
    assert found is not None
    return found


def retrained(graph: LoweredGraph) -> LoweredGraph:
    """One weight is another one."""
    name = next(name for name, data in graph.constants.items() if data.numel() > 8 and data.dtype == torch.int8)
    data = graph.constants[name].clone()
    data.view(-1)[0] ^= 1
    return replace(graph, constants={**graph.constants, name: data})


def widened(graph: LoweredGraph) -> LoweredGraph:
    """The same scales, zero points and calls over a tensor of 16 bits."""
    name = next(name for name, value in graph.values.items() if value.element == INT8)
    return replace(graph, values={**graph.values, name: replace(graph.values[name], element=INT16)})


def renamed(graph: LoweredGraph) -> LoweredGraph:
    """The same network with other names for everything."""

    def other(value: object) -> object:
        if isinstance(value, list):
            return [other(item) for item in value]
        return Ref(f"n_{value.name}") if isinstance(value, Ref) else value

    def call(one: LoweredCall) -> LoweredCall:
        arguments = {name: other(value) for name, value in one.arguments.items()}
        return replace(one, name=f"n_{one.name}", arguments=arguments, module="elsewhere")

    return replace(
        graph,
        inputs=tuple(f"n_{name}" for name in graph.inputs),
        constants={f"n_{name}": data for name, data in graph.constants.items()},
        calls=tuple(call(one) for one in graph.calls),
        outputs=tuple(f"n_{name}" for name in graph.outputs),
        values={f"n_{name}": value for name, value in graph.values.items()},
    )


def here(graph: LoweredGraph, name: str = "tiny") -> Bundle:
    """For this machine."""
    return emit_c(schedule(build_program(name, graph, M4, cores=(Core.PORTABLE,))))


# ---- which model ---------------------------------------------------------------------------------------------------


def test_an_id_is_of_what_is_computed(graph: LoweredGraph) -> None:
    assert model_id(renamed(graph)) == model_id(graph)
    assert model_id(retrained(graph)) != model_id(graph)
    swapped = replace(graph, outputs=graph.calls[-2].read)
    assert model_id(swapped) != model_id(graph)
    assert model_id(widened(graph)) != model_id(graph)
    assert version_of(model_id(retrained(graph))) != version_of(model_id(graph))


def test_a_header_and_an_image_say_which_model_they_are(graph: LoweredGraph, tmp_path: Path) -> None:
    main = """#include <stdio.h>
#include "tiny.h"
int main(void)
{
    const cortado_model_info_t *info = tiny_info();
    printf("%s %s %s %s %x %u %u ", info->name, info->id, info->version, info->target, info->build, info->inputs,
           info->outputs);
    for (uint32_t i = 0; i < info->input->dims; i++) { printf("%u,", info->input->shape[i]); }
    printf(" %s %.9g %d", info->output->type, info->output->scale, info->output->zero_point);
    return 0;
}
"""
    bundle = here(graph)
    write_files(tmp_path, {**bundle.files, "main.c": main})
    program = toolchain.build_executable(bundle_sources(tmp_path, "c"), bundle_includes(tmp_path), WARNINGS, "info")
    said = subprocess.run([program], capture_output=True, text=True, timeout=1800, check=True).stdout.split()
    found = graph.values[graph.calls[-2].name].qparams
    assert found is not None
    identity = model_id(graph)
    assert said[:4] == ["tiny", identity, version_of(identity), "cortex-m4"]
    assert said[4:7] == [bundle.build.lstrip("0"), "1", "1"]
    assert said[7:] == ["1,1,6,6,", "int8_t", f"{found.scale:.9g}", str(found.zero_point)]


def test_packages_have_a_version_that_is_the_models(tiny: Model, tmp_path: Path) -> None:
    chosen = Options(artifacts=Artifacts.C, package=(PackageKind.PLATFORMIO,), model_version="1.4.0")
    for options, version in ((chosen, "1.4.0"), (replace(chosen, model_version=None), None)):
        compiled = tiny.compile("cortex-m4", options)
        folder = compiled.save(tmp_path / str(version)).folder
        manifest = json.loads((folder / "platformio" / "library.json").read_text())
        assert manifest["version"] == (version or version_of(compiled.report.id)) == compiled.report.model_version
        assert f'#define TINY_ID "{compiled.report.id}"' in (folder / "tiny.h").read_text()
        assert compiled.report.id in (folder / "platformio" / "README.md").read_text()
    for text in ("1.4", "1.4.0-rc1", "01.4.0", "1.4.70000", ""):
        with pytest.raises(CortadoError, match="is not a version; expected three numbers"):
            Options(model_version=text)


# ---- files of different compiles -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def compiles(graph: LoweredGraph, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two models of one name and one shape; of the kernels and a main program, objects."""
    root = tmp_path_factory.mktemp("compiles")
    main = '#include "tiny.h"\nint main(void) { return tiny_run(tiny_default_arena()); }\n'
    for which, one in (("old", graph), ("new", retrained(graph))):
        write_files(root / which, {**here(one).files, "main.c": main})
        for source in bundle_sources(root / which, "c"):
            includes = [f"-I{path}" for path in bundle_includes(root / which)]
            object_file = root / which / f"{source.stem}.o"
            subprocess.run(["cc", *BUNDLE_FLAGS, *includes, "-c", source, "-o", object_file], check=True)
    return root


@pytest.mark.cases(1)
@pytest.mark.parametrize("odd", ["main.o", "tiny.o", "tiny_data.o", None])
def test_objects_of_different_compiles_do_not_link(compiles: Path, odd: str | None) -> None:
    objects = [compiles / ("old" if path.name == odd else "new") / path.name for path in (compiles / "new").glob("*.o")]
    done = subprocess.run(
        ["cc", "-Wl,--gc-sections", *objects, "-o", compiles / "program"], capture_output=True, text=True
    )
    assert (done.returncode == 0) == (odd is None), done.stderr
    if odd is not None:
        assert "undefined reference to `tiny_" in done.stderr


@pytest.mark.parametrize("name", ["tiny.h", "tiny.c"])
def test_a_source_with_a_header_of_another_compile_does_not_compile(compiles: Path, name: str, tmp_path: Path) -> None:
    files = {path.name: path.read_text() for path in (compiles / "new").glob("tiny*.[ch]")}
    write_files(tmp_path, {**files, name: (compiles / "old" / name).read_text()})
    includes = [f"-I{path}" for path in (tmp_path, *bundle_includes(compiles / "new")[1:])]
    done = subprocess.run(["cc", *includes, "-c", tmp_path / "tiny.c", "-o", tmp_path / "x"], capture_output=True)
    assert b"tiny.h and this file are from different compiles" in done.stderr


# ---- arenas and state ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arena", "given", "taken"),
    [
        ("static tiny_arena_t arena;", "&arena", True),
        ("static uint8_t arena[TINY_ARENA_BYTES - 512 % TINY_ARENA_BYTES];", "arena", False),
        ("static uint8_t arena[TINY_ARENA_BYTES];", "&arena", False),
        ("static uint64_t arena[1];", "tiny_arena(arena, sizeof arena)", True),
    ],
)
@pytest.mark.parametrize("language", ["c", "c++"])
def test_an_arena_of_another_type_is_an_error_to_the_compiler(
    compiles: Path, arena: str, given: str, taken: bool, language: str, tmp_path: Path
) -> None:
    main = tmp_path / "main.c"
    main.write_text(f'#include "tiny.h"\n{arena}\nint main(void) {{ return tiny_run({given}) == 1; }}\n')
    flags = ["-Werror=incompatible-pointer-types"] if language == "c" else []
    words = ["cc", "-x", language, *flags, f"-I{compiles / 'new'}", "-c", str(main), "-o", str(tmp_path / "x")]
    done = subprocess.run(words, capture_output=True, text=True)
    assert (done.returncode == 0) == taken, done.stderr


class Sum(torch.nn.Module):
    """What came so far."""

    def __init__(self) -> None:
        super().__init__()
        self.total: torch.Tensor
        self.register_buffer("total", torch.zeros(1, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.total.copy_(self.total * 0.5 + x)
        return self.total.clone()


UNSET = """#include <string.h>
#include "net.h"
static net_arena_t arena;
static int refused(void)
{
    net_arena_t before;
    memcpy(&before, &arena, sizeof arena);
    return CALL && memcmp(&before, &arena, sizeof arena) == 0;
}
int main(void)
{
    if (!refused()) { return 1; }
    memset(&arena, 0xA5, sizeof arena);
    if (!refused()) { return 2; }
    net_reset(&arena);
    return refused() ? 3 : 0;
}
"""


def never_reset(kind: str, graph: LoweredGraph) -> Program:
    """A program for this machine, of the kind."""
    if kind == "rows":
        return program_of("net", graph, M4, Border.INT8, Feeding(rows=True), cores=(Core.PORTABLE,))
    model: torch.nn.Module = Sum()
    data = torch.linspace(-1, 1, 32).reshape(8, 4)
    options = Options(artifacts=Artifacts.C)
    if kind == "stream":
        model, data = torch.nn.Conv1d(4, 3, 3), torch.linspace(-1, 1, 96).reshape(8, 4, 3)
        options = replace(options, stream=2)
    found = compile_model(model, (data[:1],), M4, data, name="net", options=options).graph
    assert found is not None
    return program_of("net", found, M4, Border.INT8, Feeding(stream=options.stream), cores=(Core.PORTABLE,))


@pytest.mark.cases(1)
@pytest.mark.parametrize("kind", ["state", "rows", "stream"])
def test_what_was_never_reset_is_answered_with_an_error(kind: str, graph: LoweredGraph, tmp_path: Path) -> None:
    call = "net_run(&arena) == 2" if kind == "state" else "net_row(&arena) == NULL && net_push(&arena) == -2"
    program = never_reset(kind, graph)
    write_files(tmp_path, {**emit_c(schedule(program)).files, "main.c": UNSET.replace("CALL", call)})
    flags = [*WARNINGS, *BUNDLE_FLAGS, *SANITIZERS]
    sources = bundle_sources(tmp_path, "c")
    built = toolchain.build_executable(sources, bundle_includes(tmp_path), flags, "unset")
    done = subprocess.run([built], capture_output=True, timeout=1800)
    assert done.returncode == 0, done.stderr


# ---- instruction sets ----------------------------------------------------------------------------------------------


def test_a_core_without_dsp_is_told_its_target(graph: LoweredGraph, tmp_path: Path) -> None:
    target = from_target_string("cortex-m33")
    write_files(tmp_path, emit_c(schedule(build_program("tiny", graph, target))).files)
    flags = from_target_string("cortex-m33+nodsp").compiler_flags()
    with pytest.raises(CortadoError, match=r"run cortado with --target cortex-m33\+nodsp"):
        toolchain.compile_object(tmp_path / "tiny.c", bundle_includes(tmp_path), flags, toolchain.arm_gcc())
