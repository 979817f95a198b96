"""Packages of the build systems of firmware projects: built by each system's documented rules, and run."""

import io
import json
import re
import shutil
import subprocess
import zipfile
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

import pytest
import torch
from torch import nn

import cortado
from cortado.base.target import from_target_string
from cortado.emit.packages.cmsis_pack import cmsis_pack
from cortado.emit.packages.content import Content
from cortado.emit.packages.zephyr import zephyr
from cortado.options import PackageKind
from helpers.packages import BOARD, CORE, STANDINS, compile_and_link, configure_and_build, say

PASSES = "gadget: every bit as expected"


def small() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 3, groups=8), nn.Flatten(), nn.Linear(8 * 36, 4)
    )


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with all packages."""
    folder = tmp_path_factory.mktemp("packages") / "gadget"
    inputs = torch.randn(8, 3, 8, 8)
    compiled = cortado.compile(
        small(),
        (inputs[:1],),
        target="cortex-m4",
        calibration=inputs,
        name="gadget",
        options=cortado.Options(package=tuple(PackageKind)),
    )
    compiled.save(folder)
    return folder


def test_each_has_its_folder_a_readme_and_the_license(packages: Path) -> None:
    for kind in PackageKind:
        root = packages / kind.value / ("gadget" if kind is PackageKind.ARDUINO else "")
        text = (root / "README.md").read_text()
        assert text.startswith("# gadget for ")
        about = "Gadget in int8 for cortex-m4, compiled ahead of time by Cortado"
        assert kind is PackageKind.WEB or about in text
        assert kind is PackageKind.CMSIS_PACK or (root / "LICENSE").is_file()


def test_the_compiled_model_still_runs(packages: Path) -> None:
    """The files of the packages are no part of the bundle's own build."""
    artifact = cortado.load(packages)
    assert artifact.run([artifact.example()], on="host").bit_exact


@pytest.mark.qemu
def test_cmake(packages: Path, tmp_path: Path) -> None:
    program = configure_and_build(
        packages / "cmake" / "example",
        tmp_path,
        "gadget_example",
        CMAKE_C_FLAGS=" ".join(CORE),
        CMAKE_ASM_FLAGS=" ".join(CORE),
        CMAKE_EXE_LINKER_FLAGS=f"--specs=rdimon.specs -T {BOARD / 'board.ld'} {compile_start(tmp_path)}",
    )
    assert PASSES in say(program)


@pytest.mark.qemu
def test_cmake_installed(packages: Path, tmp_path: Path) -> None:
    """find_package() after an install, from another folder."""
    build, prefix, app = tmp_path / "build", tmp_path / "prefix", tmp_path / "app"
    flags = {"CMAKE_C_FLAGS": " ".join(CORE), "CMAKE_ASM_FLAGS": " ".join(CORE)}
    configure_and_build(packages / "cmake", build, "libgadget.a", **flags)
    subprocess.run(["cmake", "--install", build, "--prefix", prefix], check=True, capture_output=True)
    app.mkdir()
    (app / "main.c").write_text((packages / "cmake" / "example" / "main.c").read_text())
    (app / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.16)\nproject(app C)\nfind_package(gadget REQUIRED)\n"
        f"add_executable(app main.c {BOARD / 'start.c'})\ntarget_link_libraries(app gadget::gadget)\n"
        f"target_link_options(app PRIVATE --specs=rdimon.specs -T {BOARD / 'board.ld'})\n"
    )
    program = configure_and_build(
        app, tmp_path / "app-build", "app", CMAKE_PREFIX_PATH=str(prefix), CMAKE_FIND_ROOT_PATH=str(prefix), **flags
    )
    assert PASSES in say(program)


@pytest.mark.qemu
def test_zephyr(packages: Path, tmp_path: Path) -> None:
    """The core's flags reach the library by zephyr_interface alone."""
    program = configure_and_build(
        packages / "zephyr" / "samples" / "selftest",
        tmp_path,
        "zephyr.elf",
        Zephyr_DIR=str(STANDINS / "zephyr" / "cmake"),
        ZEPHYR_EXTRA_MODULES=str(packages / "zephyr"),
        STANDIN_BOARD=str(BOARD),
        STANDIN_CORE_FLAGS=";".join(CORE),
    )
    said = say(program)
    assert PASSES in said
    expected = re.findall(r'- "(.*)"', (packages / "zephyr" / "samples" / "selftest" / "sample.yaml").read_text())
    assert expected == [PASSES]  # what Zephyr's test runner looks for


@pytest.mark.qemu
def test_zephyrs_settings_reach_the_sources(packages: Path, tmp_path: Path) -> None:
    """As prj.conf has them: definitions for all sources, sections of arena and weights, code in RAM."""
    sample = tmp_path / "sample"
    shutil.copytree(packages / "zephyr" / "samples" / "selftest", sample)
    wanted = {
        "CHECKS": "y",
        "YIELD": "y",
        "ALIGNED_ONLY": "y",
        "CACHE_LINE": "64",
        "WEIGHTS_SECTION": '".rodata.external"',
        "ARENA_SECTION": '".bss.dtcm"',
        "CODE_IN_RAM": "y",
    }
    settings = [f"CONFIG_CORTADO_GADGET_{name}={value}" for name, value in wanted.items()]
    with (sample / "prj.conf").open("a") as file:
        file.write("\n".join(["CONFIG_CODE_DATA_RELOCATION=y", *settings, ""]))
    main = sample / "src" / "main.c"
    main.write_text(main.read_text() + "unsigned yields;\nvoid cortado_yield(void) { yields++; }\n")
    program = configure_and_build(
        sample,
        tmp_path / "build",
        "zephyr.elf",
        Zephyr_DIR=str(STANDINS / "zephyr" / "cmake"),
        ZEPHYR_EXTRA_MODULES=str(packages / "zephyr"),
        STANDIN_BOARD=str(BOARD),
        STANDIN_CORE_FLAGS=";".join(CORE),
        CMAKE_EXPORT_COMPILE_COMMANDS="ON",
    )
    assert PASSES in say(program)
    commands = json.loads((tmp_path / "build" / "compile_commands.json").read_text())
    for command in commands:
        every = ("CORTADO_ENABLE_RUNTIME_CHECKS", "CORTADO_YIELD", "CORTADO_CACHE_LINE=64")
        own = ("CORTADO_ALIGNED_ONLY", "-mno-unaligned-access", ".rodata.external", ".bss.dtcm")
        inside = "/zephyr/" in command["file"] and "samples" not in command["file"]
        if not command["file"].endswith("start.c"):
            found = [text in command["command"] for text in (*every, *own)]
            assert found == [True] * len(every) + [inside] * len(own), command
    assert (tmp_path / "build" / "relocated.txt").read_text() == "LIBRARY;gadget;LOCATION;RAM_TEXT"


@pytest.mark.host
def test_settings_of_systems_without_flags_are_a_header(packages: Path, tmp_path: Path) -> None:
    """It is read by every source, assembly too, and by those that include the model's header."""
    for root in (packages / "arduino" / "gadget" / "src", packages / "platformio" / "src"):
        folder = tmp_path / root.parent.name
        shutil.copytree(root, folder)
        text = (folder / "cortado_settings.h").read_text()
        (folder / "cortado_settings.h").write_text(re.sub(r"/\* (#define CORTADO_YIELD) \*/", r"\1", text))
        flags = [*CORE, "-std=c99", "-O2", f"-I{folder}"]
        command = ["arm-none-eabi-gcc", *flags, "-c", str(folder / "cortado_run.c"), "-o", str(tmp_path / "run.o")]
        subprocess.run(command, check=True)
        listed = subprocess.run(["arm-none-eabi-nm", tmp_path / "run.o"], capture_output=True, text=True, check=True)
        assert "U cortado_yield" in listed.stdout


def test_zephyrs_manifest_has_the_keys_that_zephyr_knows(packages: Path) -> None:
    text = (packages / "zephyr" / "zephyr" / "module.yml").read_text()
    keys = re.findall(r"^( *)(\w+):(?: (\S+))?$", text, re.MULTILINE)
    assert [(indent, key) for indent, key, _ in keys] == [
        ("", "name"),
        ("", "build"),
        ("  ", "cmake"),
        ("  ", "kconfig"),
        ("", "samples"),
    ]
    assert (packages / "zephyr" / text.splitlines()[-1].removeprefix("  - ")).is_dir()
    assert "menuconfig CORTADO_GADGET\n" in (packages / "zephyr" / "Kconfig").read_text()  # no name of Zephyr's own
    assert (packages / "zephyr" / dict((key, value) for _, key, value in keys)["kconfig"]).is_file()


@pytest.mark.qemu
def test_pico(packages: Path, tmp_path: Path) -> None:
    program = configure_and_build(
        packages / "pico" / "example",
        tmp_path,
        "gadget_example",
        PICO_SDK_PATH=str(STANDINS / "pico"),
        STANDIN_BOARD=str(BOARD),
        STANDIN_CORE_FLAGS=" ".join(CORE),
    )
    assert PASSES in say(program)


def test_without_the_pico_sdk_an_error_says_what_is_missing(packages: Path, tmp_path: Path) -> None:
    with pytest.raises(subprocess.CalledProcessError) as error:
        configure_and_build(packages / "pico" / "example", tmp_path, "gadget_example", PICO_SDK_PATH="/nowhere")
    assert "give its folder with -DPICO_SDK_PATH=" in " ".join(error.value.stderr.split())


def properties(library: Path) -> dict[str, str]:
    text = (library / "library.properties").read_text()
    return dict(line.split("=", 1) for line in text.splitlines())


def test_arduinos_manifest_follows_the_library_specification(packages: Path) -> None:
    """https://arduino.github.io/arduino-cli/latest/library-specification/"""
    found = properties(packages / "arduino" / "gadget")
    required = {"name", "version", "author", "maintainer", "sentence", "paragraph", "category", "url", "architectures"}
    assert required <= set(found)
    assert set(found) <= required | {"depends", "dot_a_linkage", "includes", "precompiled", "ldflags"}
    assert re.fullmatch(r"[a-zA-Z0-9][a-zA-Z0-9 _.-]{0,62}", found["name"])
    assert not found["name"].lower().startswith("arduino")
    assert re.fullmatch(r"\d+\.\d+\.\d+", found["version"])
    assert found["category"] in (
        "Display", "Communication", "Signal Input/Output", "Sensors", "Device Control", "Timing", "Data Storage",
        "Data Processing", "Other",
    )  # fmt: skip
    assert found["sentence"].endswith(".")
    assert all(found[key] for key in required)


@pytest.mark.qemu
def test_arduino(packages: Path, tmp_path: Path) -> None:
    """Every source below src/, with one include path and flags of Arduino's; the sketch as C++ behind Arduino.h."""
    library = packages / "arduino" / "gadget"
    assert [path for path in (library / "src").iterdir() if path.is_dir()] == []
    for header in properties(library)["includes"].split(","):
        assert (library / "src" / header).is_file()
    (sketch,) = library.glob("examples/*/*.ino")
    assert sketch.stem == sketch.parent.name
    main = tmp_path / "sketch.cpp"
    main.write_text(f'#include <Arduino.h>\n#line 1 "{sketch}"\n{sketch.read_text()}')
    sources = [*(library / "src").glob("*.[cS]"), main, STANDINS / "arduino" / "main.cpp"]
    flags = ["-Os", "-w", "-ffunction-sections", "-fdata-sections", "-fno-exceptions", "-fno-rtti"]
    program = compile_and_link(sources, [library / "src", STANDINS / "arduino"], flags, tmp_path)
    assert PASSES in say(program)


@pytest.mark.qemu
def test_platformio(packages: Path, tmp_path: Path) -> None:
    """What library.json says: sources of srcDir, includes of includeDir, flags."""
    library = packages / "platformio"
    manifest = json.loads((library / "library.json").read_text())
    assert {"name", "version"} <= set(manifest)
    assert re.fullmatch(r"\d+\.\d+\.\d+", manifest["version"])
    assert len(manifest["name"]) <= 50
    build, (shown,) = manifest["build"], manifest["examples"]
    assert set(build) <= {"flags", "unflags", "includeDir", "srcDir", "srcFilter", "extraScript", "libArchive"}
    assert all((library / shown["base"] / name).is_file() for name in shown["files"])
    assert "symlink://../.." in (library / shown["base"] / "platformio.ini").read_text()
    for header in manifest["headers"]:
        assert (library / build["includeDir"] / header).is_file()
    sources = [
        *(library / build["srcDir"]).rglob("*.[cS]"),
        library / shown["base"] / "src" / "main.cpp",
        STANDINS / "arduino" / "main.cpp",
    ]
    program = compile_and_link(sources, [library / build["includeDir"], STANDINS / "arduino"], build["flags"], tmp_path)
    assert PASSES in say(program)


def component_files(pack: Path) -> tuple[Sequence[Path], Sequence[Path]]:
    """Sources and include folders of the component that the description names."""
    (description,) = pack.glob("*.pdsc")
    root = ElementTree.parse(description).getroot()
    assert description.name == f"{root.findtext('vendor')}.{root.findtext('name')}.pdsc"
    required = {"vendor", "name", "description", "url", "releases"}  # what PACK.xsd asks for, in any order
    assert required <= {child.tag for child in root} <= required | {"license", "conditions", "components"}
    assert re.fullmatch(r"[\-_A-Za-z0-9]+", root.findtext("name") or "")
    (component,) = root.iter("component")
    assert component.get("condition") in {condition.get("id") for condition in root.iter("condition")}
    assert [one.get("Dcore") for one in root.iter("accept")] == ["Cortex-M4"]
    files = list(component.iter("file"))
    categories = {"include", "header", "sourceC", "sourceAsm", "source", "doc"}
    assert {file.get("category") for file in files} <= categories
    assert all((pack / file.attrib["name"]).exists() for file in files)
    sources = [pack / file.attrib["name"] for file in files if file.get("category", "").startswith("source")]
    includes = [pack / file.attrib["name"] for file in files if file.get("category") == "include"]
    return sources, includes


@pytest.mark.qemu
def test_cmsis_pack(packages: Path, tmp_path: Path) -> None:
    """The archive, unpacked: what the description's component names is what is built."""
    (archive,) = (packages / "cmsis-pack").glob("*.pack")
    assert re.fullmatch(r"Cortado\.gadget\.0\.\d+\.\d+\.pack", archive.name)
    with zipfile.ZipFile(archive) as packed:
        packed.extractall(tmp_path / "pack")
    sources, includes = component_files(tmp_path / "pack")
    program = compile_and_link(sources, includes, ["-O2", "-Wall", "-Werror"], tmp_path)
    assert PASSES in say(program)


@pytest.mark.qemu
def test_a_wrong_weight_is_found_on_the_board(packages: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(next((packages / "cmsis-pack").glob("*.pack"))) as packed:
        packed.extractall(tmp_path / "pack")
    sources, includes = component_files(tmp_path / "pack")
    data = tmp_path / "pack" / "gadget_data.c"
    found = re.search(r"int8_t [^;{]*\{\s*(-?\d+)", data.read_text())
    assert found is not None
    first = slice(found.start(1), found.end(1))
    text = data.read_text()
    data.write_text(text[: first.start] + str(int(found[1]) ^ 64) + text[first.stop :])
    assert "gadget: wrong from layer" in say(compile_and_link(sources, includes, ["-O2"], tmp_path))


def compile_start(folder: Path) -> Path:
    """The vector table as an object, for a program that knows of no board."""
    target = folder / "start.o"
    subprocess.run(["arm-none-eabi-gcc", *CORE, "-c", BOARD / "start.c", "-o", target], check=True)
    return target


# ---- several models -------------------------------------------------------------------------------------------------


@pytest.mark.qemu
def test_several_models_in_one_package(tmp_path: Path) -> None:
    """The kernels once, one arena for both."""
    torch.manual_seed(1)
    tail = nn.Sequential(nn.Flatten(), nn.Linear(3 * 64, 5))
    inputs = torch.randn(8, 3, 8, 8)
    options = cortado.Options(artifacts="c", package="cmake,arduino")
    compiled = [
        cortado.compile(model, (inputs[:1],), target="cortex-m4", calibration=inputs, name=name, options=options)
        for name, model in (("gadget", small()), ("widget", tail))
    ]
    cortado.save_together(compiled, tmp_path / "both")
    library = tmp_path / "both" / "arduino" / "gadget_widget"
    assert properties(library)["includes"] == "gadget.h,widget.h"
    assert "gadget and widget in int8 for cortex-m4, compiled" in properties(library)["sentence"]
    assert "gadget.h widget.h cortado_together.h" in (tmp_path / "both" / "cmake" / "CMakeLists.txt").read_text()
    program = configure_and_build(
        tmp_path / "both" / "cmake" / "example",
        tmp_path / "build",
        "gadget_widget_example",
        CMAKE_C_FLAGS=" ".join(CORE),
        CMAKE_ASM_FLAGS=" ".join(CORE),
        CMAKE_EXE_LINKER_FLAGS=f"--specs=rdimon.specs -T {BOARD / 'board.ld'} {compile_start(tmp_path)}",
    )
    assert say(program).splitlines() == ["gadget: every bit as expected", "widget: every bit as expected"]


def content(target: str, *models: str) -> Content:
    ids = ["0123456789abcdef"] * len(models)
    files = {"LICENSE": "", **{f"{one}.h": f"int {one}_run({one}_arena_t *arena);\n" for one in models}}
    return Content.of(models, from_target_string(target), files, ids, None, arithmetic="int8")


def test_many_models_have_a_name_that_fits() -> None:
    assert content("cortex-m4", "words", "scenes").name == "words_scenes"
    assert content("cortex-m4", "words", *(f"network_{number}" for number in range(5))).name == "words_and_5_more"


def test_vector_instructions_need_settings_in_zephyr() -> None:
    """Without CONFIG_FPU it compiles with -mfloat-abi=soft, and MVE is off."""
    for target, needed in (("cortex-m55", True), ("cortex-m55+nomve", False), ("cortex-m4", False)):
        made = zephyr(content(target, "words"))
        for name in ("samples/selftest/prj.conf", "README.md"):
            assert ("CONFIG_FPU=y" in made[name]) == needed, (target, name)


@pytest.mark.parametrize(
    ("target", "version"), [("cortex-m4", "1.7.7"), ("cortex-m52", "1.7.31"), ("cortex-m", "1.7.31")]
)
def test_a_packs_schema_knows_its_cores(target: str, version: str) -> None:
    """DcoreEnum of PACK.xsd has the Cortex-M85 from 1.7.7 on, and the Cortex-M52 from 1.7.31 on."""
    (packed,) = (data for name, data in cmsis_pack(content(target, "words")).items() if name.endswith(".pack"))
    assert isinstance(packed, bytes)
    with zipfile.ZipFile(io.BytesIO(packed)) as files:
        root = ElementTree.fromstring(files.read("Cortado.words.pdsc"))
    assert root.get("schemaVersion") == version
    accepted = [one.attrib for one in root.iter("accept")]
    assert {"cortex-m4": {"Ddsp"}, "cortex-m52": {"Dmve"}}.get(target, set()) == set(accepted[0]) - {"Dcore"}
    assert {one["Dmve"] for one in accepted if "Dmve" in one} == (
        {"MVE", "FP_MVE"} if target == "cortex-m52" else set()
    )
    assert not any("date" in release.attrib for release in root.iter("release"))  # it would be an invented one
