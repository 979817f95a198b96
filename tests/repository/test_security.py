"""SECURITY.md sentence by sentence: each has the tests that hold it, or is named as one that promises nothing."""

import itertools
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from cortado.artifact import manifest
from cortado.artifact import manifest as foreign
from cortado.artifact.opened import Artifact
from cortado.artifact.page import build_page
from cortado.base.errors import CortadoError
from cortado.base.system import KERNELS
from cortado.base.target import Machine
from cortado.run import qemu, sandbox
from cortado.run.board import find_board
from helpers.paths import ROOT

GIB, MIB = 1 << 30, 1 << 20
# How a sentence begins, and the tests that fail where it is not true.
HELD: Mapping[str, tuple[str, ...]] = {
    "| calibration data": ("test_pickles_are_not_opened",),
    "| an ONNX file": ("test_mutated_bytes_end_in_a_model_or_a_sentence", "test_damaged_bytes"),
    "| a folder of a compiled model": ("test_a_folder_from_elsewhere_runs_here_only_with_trust",),
    "| a `.pte` file for `inspect`": ("test_5000_damaged_files_give_information_or_one_error",),
    "| an image (`.cortado`) for": ("test_every_single_damaged_byte_is_found",),
    "| a `.pte` file for `run`": ("test_a_folder_from_elsewhere_runs_here_only_with_trust",),
    "**Folders of compiled models.** `run`": (
        "test_a_changed_file_is_noticed",
        "test_a_report_that_contradicts_the_reference_is_refused",
    ),
    "So Cortado remembers the folders": (
        "test_what_this_installation_wrote_is_trusted_wherever_it_lies",
        "test_the_oldest_notes_are_forgotten",
        "test_the_figures_are_those_of_the_code",
    ),
    "Of any other folder nothing is executed": ("test_a_folder_from_elsewhere_runs_here_only_with_trust",),
    "`run --on host`, `run --on executorch`": ("test_a_folder_from_elsewhere_runs_here_only_with_trust",),
    "They ask for `--trust`": ("test_trust_is_given_in_words",),
    "`run` and `profile` on an emulated board": ("test_a_board_needs_no_trust",),
    "The folder's C sources are compiled": ("test_c_from_elsewhere_reaches_nothing_of_this_machine",),
    "A header that the report does not list": (
        "test_a_header_that_is_not_the_models_is_refused",
        "test_a_link_out_of_the_folder_is_refused",
    ),
    "Compiler and linker of such sources": (
        "test_a_program_opens_what_it_is_given_and_nothing_else",
        "test_a_source_reads_no_other_file",
        "test_an_assembly_file_reads_no_other_file",
        "test_clang_embeds_no_other_file",
        "test_a_linker_script_reads_no_other_file",
        "test_a_source_that_reads_a_file_in_disguise_is_not_compiled",
    ),
    "Linux's Landlock holds them to that": ("test_the_means_is_found_by_trying",),
    "Where neither works nothing is compiled": (
        "test_a_folder_from_elsewhere_is_compiled_only_where_it_sees_nothing",
        "test_the_means_of_confinement_is_shown",
    ),
    "With `--trust` the compiler runs as": ("test_a_source_that_reads_a_file_in_disguise_is_not_compiled",),
    "The firmware runs inside QEMU": ("test_firmware_has_no_semihosting", "test_the_emulator_is_given_no_device"),
    "Its input and what it says": ("test_a_stream_that_is_no_records_is_refused",),
    "`cortado show` needs trust": ("test_a_folder_from_elsewhere_runs_here_only_with_trust",),
    "Its server gives two pages from memory": (
        "test_this_machine_alone_gets_these_pages_alone",
        "test_the_network_needs_the_secret_of_the_address",
    ),
    "The page runs the model as WebAssembly": (
        "test_the_module_imports_nothing",
        "test_names_stay_text_and_no_other_script_runs",
    ),
    "On a chip behind a debug probe": ("test_a_chip_asks_for_trust",),
    "Compilers, linkers, disassembler and emulator": (
        "test_the_figures_are_those_of_the_code",
        "test_a_program_ends_at_its_limit",
        "test_a_compiler_that_a_source_makes_grow_is_ended",
    ),
    "They and whatever they start end": (
        "test_what_a_program_started_ends_with_it",
        "test_a_program_ends_with_the_process_that_started_it",
    ),
    "Files in the folder may have 1 GB": (
        "test_a_file_without_end_is_refused",
        "test_arrays_that_say_they_are_large_are_not_read",
    ),
    "Names in the folder": (
        "test_texts_are_harmless_wherever_they_stand",
        "test_hostile_names_bring_nothing_into_the_program",
        "test_hostile_names_in_a_report_are_refused",
    ),
    "**The emulator** is a boundary": ("test_c_from_elsewhere_reaches_nothing_of_this_machine",),
    "**report.html** loads nothing": ("test_the_page_loads_nothing", "test_the_page_escapes_every_text"),
    "It allocates nothing, and every store": ("test_stores_inside_the_table_pass", "test_nothing_is_allocated"),
    "**Images inside the firmware.** `cortado_image_open`": (
        "test_every_single_damaged_byte_is_found",
        "test_changed_tables_are_refused_or_run_inside_of_image_and_arena",
    ),
}
# Advice, and what others do not promise.
PROMISES_NOTHING = (
    "| what you give to Cortado",
    "| a model as Python",
    "| an exported program",
    "That finds damage, not malice",
    "QEMU's makers do not promise",
    "For folders from people you expect that of",
    "It is made when the model is compiled",
    "**The cache folder** holds programs",
    "Whoever can write to it can run code",
    "**Inside the firmware** the C bundle trusts",
    "The descriptors and constants that kernels read",
    "A CRC is no signature",
    "Take images only in an authenticated update",
    "Write to the maintainers",
    "The newest release gets fixes",
)


def sentences(text: str) -> list[str]:
    """Rows of tables and sentences, without headings."""
    found: list[str] = []
    for block in re.split(r"\n\s*\n|\n(?=- |\|)", text):
        line = " ".join(block.split())
        if not line or line.startswith("#") or set(line) <= set("|- "):
            continue
        found += [line] if line.startswith("|") else re.split(r"(?<=[.:?!]) (?=[A-Z`*])", line.removeprefix("- "))
    return found


def test_every_sentence_is_named_once() -> None:
    found, named = sentences((ROOT / "SECURITY.md").read_text()), [*HELD, *PROMISES_NOTHING]
    assert len(found) > 40
    wrong = {one: [name for name in named if one.startswith(name)] for one in found}
    assert {one: names for one, names in wrong.items() if len(names) != 1} == {}, "a sentence without its tests"
    assert [name for name in named if not any(one.startswith(name) for one in found)] == [], "no such sentence"


def test_every_test_that_holds_a_sentence_is_there() -> None:
    files = (ROOT / "tests").rglob("test_*.py")
    there = {name for path in files for name in re.findall(r"^def (test_\w+)", path.read_text(), re.MULTILINE)}
    assert {name for names in HELD.values() for name in names} - there == set()


def test_the_figures_are_those_of_the_code() -> None:
    compiler, text = sandbox.COMPILER, " ".join((ROOT / "SECURITY.md").read_text().split())
    assert None not in (compiler.memory_bytes, compiler.cpu_seconds, compiler.file_bytes)
    figures = (
        f"{(compiler.memory_bytes or 0) // GIB} GB of memory, {(compiler.cpu_seconds or 0) // 60} minutes of computing "
        f"time and files of {(compiler.file_bytes or 0) // GIB} GB for a compiler; {qemu.MEMORY_BYTES // GIB} GB, "
        f"{qemu.MOST_OUTPUT_BYTES // MIB} MB of output and {qemu.MOST_INSTRUCTIONS:,} instructions for each sample"
    )
    assert figures in text
    assert f"Files in the folder may have {foreign.MOST_BYTES // GIB} GB" in text
    assert f"the last {manifest._MOST_REMEMBERED:,})" in text


@pytest.mark.parametrize("machine", Machine)
def test_the_emulator_is_given_no_device(machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither what QEMU would add on its own, nor anything that speaks with this machine but the files of the run."""
    monkeypatch.setattr(qemu._Run, "_input_address", 0x20000000)
    command = qemu._Run(tmp_path / "x.elf", find_board(machine), tmp_path).command()
    assert "-nodefaults" in command
    assert command[command.index("-monitor") + 1] == command[command.index("-display") + 1] == "none"
    devices = [value for option, value in itertools.pairwise(command) if option == "-device"]
    assert all(device.startswith("loader,file=input.bin") for device in devices)
    assert not re.search(r"semihosting|-net|-nic|-drive|-hd|virtfs|-usb|-gdb|-qmp", " ".join(command))


def test_the_page_loads_nothing(tiny_artifact: Artifact) -> None:
    page = build_page(tiny_artifact.report)
    assert "default-src 'none'" in page
    assert not re.search(r"<(?:script|img|iframe|link|object)[^>]*(?:src|href)=", page)
    assert not re.search(r"\bimport\s*\(|fetch\(|XMLHttpRequest|@import|url\((?!#|data:)", page)


def test_a_changed_file_is_noticed(tiny_artifact: Artifact, tmp_path: Path) -> None:
    """One byte of any file that the report lists."""
    folder = shutil.copytree(tiny_artifact.folder, tmp_path / "copy")
    for name in tiny_artifact.report.artifacts:
        path = folder / name
        data = path.read_bytes()
        path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
        with pytest.raises(CortadoError, match=r"is not the file that was compiled \(its SHA-256 differs\)"):
            Artifact.open(folder)
        path.write_bytes(data)
    Artifact.open(folder)


def test_nothing_is_allocated(tiny_artifact: Artifact) -> None:
    """Neither by the kernels that ship nor by a bundle."""
    files = [path for top in (KERNELS, tiny_artifact.folder) for path in top.rglob("*.[chS]")]
    assert len(files) > 100
    calls = re.compile(rb"\b(?:malloc|calloc|realloc|free|alloca|__builtin_alloca)\s*\(")
    assert [path.name for path in files if calls.search(path.read_bytes())] == []


def test_a_chip_asks_for_trust(tiny_artifact: Artifact, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CORTADO_CACHE", str(tmp_path / "other installation"))
    artifact = Artifact.open(tiny_artifact.folder)
    with pytest.raises(CortadoError, match="--trust"):
        artifact.run([artifact.example()], "gdb:localhost:1?ram=0x20000000:128K&load=ram")
