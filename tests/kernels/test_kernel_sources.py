"""What the kernel library promises about its files: names by one grammar, a page that lists them, offsets that hold."""

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from cortado.base.system import DEVICE, KERNEL_FILES, KERNEL_FOLDERS, KERNEL_SOURCES, KERNELS
from cortado.run import toolchain
from helpers.golden import Golden, generated
from helpers.kernels import HEADER, WARNINGS, descriptors, header_text
from helpers.paths import ROOT

PAGE = ROOT / "docs" / "kernels.md"
# <op>_<type>[__<isa>]; some take values of any type.
NAME = re.compile(
    r"(?P<op>[a-z0-9_]+?)(?:_(?P<type>s8_f32|f32_s8|s16_f32|f32_s16|f32|s8|s16|s32|u8))?(?:__(?P<isa>scalar|dsp|mve|scalar_dsp))?"
)
UNTYPED = {
    *("copy2d", "widen", "pad_wide", "pick_wide", "requantize", "transpose_wide", "where"),
    *("limit_codes", "widen_codes"),
}
WINDOWS = ("conv1x1", "conv2d")
# Functions of real numbers, of which several are in a file.
FLOATS = {
    "angle_f32": "sin cos tan atan asin acos atan2 pow",
    "calculate_f32": "calculate_strided",
    "function_f32": "bounds neg sign round abs exp exp2 expm1 sigmoid tanh erf log log2 log10 log1p sqrt rsqrt "
    "reciprocal trunc floor ceil",
    "reduce_f32": "position",
    "softmax_f32": "log_softmax",
    "where_f32": "from_s32 to_s32 to_bool",
}
# More kernels of one operator in its file: the same rows at once, what its sums become, computed masks.
TOGETHER = {
    "cortado_distance_s8": "magnitude_s8",
    "cortado_means_s8": "sum_rows_s8",
    "cortado_upsample_nearest_rows_s8": "upsample_nearest_s8",
    "cortado_where_number_s8": "where_s8",
    "cortado_add_channel_s16": "add_s16",
    "cortado_mul_channel_s16": "mul_s16",
    "cortado_conv1x1_s16": "conv2d_s16",
    "cortado_maximum_s16": "minimum_s16",
    "cortado_max_pool2d_s16": "pool2d_s16",
    "cortado_avg_pool2d_s16": "pool2d_s16",
    "cortado_conv1x1_s16__scalar": "conv2d_s16",
    "cortado_linear_s16__scalar": "conv2d_s16",
    "cortado_upsample_bilinear_all_s16": "upsample_bilinear_s16",
    "cortado_upsample_bilinear_all_s8__mve": "upsample_bilinear_s8",
    "cortado_lstm_s16": "recurrent_s16",
    "cortado_gru_s16": "recurrent_s16",
    "cortado_rnn_s16": "recurrent_s16",
    **{f"cortado_{kind}_f32": "recurrent_f32" for kind in ("lstm", "gru", "rnn")},
    "cortado_kept_softmax_s16": "masked_softmax_s16",
    "cortado_kept_log_softmax_s16": "log_softmax_s16",
    "cortado_kept_softmax_s8": "masked_softmax_s8",
    "cortado_weaker_softmax_s8": "masked_softmax_s8",
    "cortado_conv1x1_narrow_s8": "conv2d_narrow_s8",
    **{f"cortado_{name}_f32": file for file, names in FLOATS.items() for name in names.split()},
    **{f"cortado_conv1x1_codes_f32{isa}": "conv2d_codes_f32" for isa in ("", "__dsp", "__mve")},
    **{f"cortado_conv1x1_f32{isa}": "conv2d_f32" for isa in ("", "__dsp", "__mve")},
    "cortado_linear_f32__dsp": "conv2d_f32",
    "cortado_linear_runs_s8__scalar": "linear_narrow_s8",
    **{f"cortado_{window}_runs_s8__{isa}": f"{window}_narrow_s8" for window in WINDOWS for isa in ("dsp", "mve")},
    **{f"cortado_{window}_{kind}_s8__scalar": "conv_narrow_s8" for window in WINDOWS for kind in ("narrow", "runs")},
}


@dataclass(frozen=True)
class Source:
    """One file of the library: the parts of its name, the head of its text, the symbols it defines."""

    path: Path

    @property
    def parts(self) -> dict[str, str]:
        found = NAME.fullmatch(self.path.stem)
        assert found is not None, f"{self.path.name} is not <op>_<type>[__<isa>]"
        return {key: value or "" for key, value in found.groupdict().items()}

    @property
    def isas(self) -> tuple[str, ...]:
        """The suffixes of its symbols: none for a portable kernel."""
        return tuple(f"__{isa}" for isa in self.parts["isa"].split("_")) if self.parts["isa"] else ("",)

    @property
    def head(self) -> str:
        """The comment at the top, without its frame."""
        comment = self.path.read_text().split("*/")[0]
        return re.sub(r"^(?:/\*| \*) ?", "", comment, flags=re.M).strip()

    @property
    def symbols(self) -> list[str]:
        """The functions it defines for other files; a file for several kinds of core names each of them once."""
        text = self.path.read_text()
        calls = r"^    function (CORTADO_ISA\()?(cortado_\w+)"
        definitions = r"^(?:const )?\w+ \*?(CORTADO_ISA\()?(cortado_\w+)\)?\([^;{]*\)\n\{"
        found = re.findall(calls if self.path.suffix == ".S" else definitions, text, flags=re.M)
        names = [name + isa for macro, name in dict.fromkeys(found) for isa in (self.isas if macro else ("",))]
        return [name for name in names if not name.endswith("__dsp__scalar")]

    def said(self, what: str) -> str:
        """Its tile or its scratch, as its head says."""
        found = re.search(rf"{what}:\s+(.+?)\.(?:\s|$)", self.head, flags=re.S)
        assert found is not None, f"{self.path.name} doesn't say its {what.lower()}"
        return " ".join(found[1].split())


SOURCES = [
    Source(path)
    for path in KERNEL_SOURCES.values()
    if not path.name.startswith("cortado_")  # what kernels share, and the schedule's runner
]
ASSEMBLY = [source for source in SOURCES if source.path.suffix == ".S"]


def declared() -> set[str]:
    """The kernels of the public header, without the functions that say how much scratch they need."""
    text = re.sub(r"/\*.*?\*/", "", header_text(), flags=re.S)
    names = set(re.findall(r"^(?:void|int32_t) (cortado_\w+)\(", text, flags=re.M))
    return {name for name in names if not name.endswith("_scratch")}


def is_kernel(source: Source) -> bool:
    return not declared().isdisjoint(source.symbols)


def by_name(source: Source) -> str:
    return source.path.name


@pytest.mark.parametrize("source", SOURCES, ids=by_name)
def test_a_file_holds_what_its_name_says(source: Source) -> None:
    """A kernel's file is called as the kernel is. An inner loop's symbols have the type and the ISA of its file."""
    assert source.parts["type"] or source.path.stem in UNTYPED
    assert source.symbols
    stem = source.path.stem.partition("__")[0]
    for symbol in source.symbols:
        if symbol in declared():
            assert symbol in {f"cortado_{stem}{isa}" for isa in source.isas} or TOGETHER[symbol] == stem
        else:
            assert symbol.partition("__")[0].endswith(source.parts["type"])
            assert symbol.endswith(source.isas)


def test_every_kernel_has_one_file() -> None:
    """(The portable kernels of one name for whole images and rows are one file.)"""
    defined = [symbol for source in SOURCES for symbol in source.symbols]
    assert declared() <= set(defined)
    twins = {symbol for symbol in defined if defined.count(symbol) > 1}  # assembly, and the same in C
    assert all(symbol.endswith("__scalar") and symbol not in declared() for symbol in twins)


def test_convolution_variants_take_packed_layers() -> None:
    """Their streams hold biases and factors: a descriptor has no room for what nobody reads."""
    text = re.sub(r"/\*.*?\*/", "", header_text(), flags=re.S)
    taken = re.findall(
        r"^\w+ (cortado_\w+)\(const (cortado_(?:conv2d|conv1x1|depthwise)(?:_packed)?_t) ", text, flags=re.M
    )
    assert len(taken) > 20
    assert {symbol for symbol, layer in taken if "__" in symbol} == {
        symbol for symbol, layer in taken if layer.endswith("_packed_t")
    }
    for layer in {layer for _, layer in taken if layer.endswith("_packed_t")}:
        names = {member.name for member in descriptors()[layer]}
        assert names.isdisjoint({"in_offset", "bias", "multiplier", "shift", "depth_multiplier"})


def row(source: Source) -> str:
    parts = source.parts
    isa = parts["isa"].replace("_", ", ") or "portable"
    cells = [f"`{parts['op']}`", parts["type"] or "any", isa, f"`{source.path.name}`"]
    return f"| {' | '.join([*cells, source.said('Tile'), source.said('Scratch')])} |"


def table(sources: list[Source]) -> str:
    head = "| operator | type | ISA | file | tile | scratch |\n|---|---|---|---|---|---|\n"
    return head + "\n".join(row(source) for source in sources) + "\n"


def heads() -> str:
    """What each file of assembly says of itself."""
    parts = []
    for source in ASSEMBLY:
        text = source.head.removeprefix("SPDX-License-Identifier: Apache-2.0").strip("\n")
        parts.append(f"### {source.path.name}\n\n```text\n{text}\n```\n")
    return "\n".join(parts)


def test_the_page_lists_every_file(golden: Golden) -> None:
    page = generated(PAGE.read_text(), "kernels", table([source for source in SOURCES if is_kernel(source)]))
    page = generated(page, "inner loops", table([source for source in SOURCES if not is_kernel(source)]))
    golden(PAGE, generated(page, "assembly", heads()))


@pytest.mark.parametrize("source", ASSEMBLY, ids=by_name)
def test_assembly_explains_itself(source: Source) -> None:
    """Its functions' prototypes and registers in its head, labels with names, a comment on every loop."""
    text = source.path.read_text()
    for symbol in {re.sub(r"__(?:scalar|dsp)$", "", symbol) for symbol in source.symbols}:
        assert re.search(rf"\w+ \*?{symbol}\w*\(", text.split("#if")[0]) or f"*{symbol}" in text
    assert re.search(r"\br[0-9]+,? .*\br[0-9]+", text), "no map of the registers"
    assert not re.search(r"^\d+:|\s\d+[fb]$", text, flags=re.M), "a label without a name"
    lines = text.split("\n")
    ends = [number for number, line in enumerate(lines) if re.match(r"    \.(?:size|endm)\b", line)]
    for number, line in enumerate(lines):
        behind = lines[number : next((end for end in ends if end > number), None)]
        if line.startswith(".L") and any(later.endswith(f" {line[:-1]}") for later in behind):
            assert lines[number - 1].endswith("*/"), f"something jumps back to {line} and no comment says what for"


FILES = sorted(
    path
    for folder in (KERNELS, DEVICE)
    for path in folder.rglob("*")
    if path.suffix in {".c", ".h", ".S", ".cpp", ".ld"}
)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_sources_carry_their_licence_and_name_no_python(path: Path) -> None:
    """They ship in bundles, where there is no Python."""
    text = path.read_text()
    assert text.startswith("/* SPDX-License-Identifier: Apache-2.0")
    assert re.findall(r"\b\w+\.py\b", text) == []
    if path.parent in KERNEL_FOLDERS:
        assert [line for line in text.split("\n") if len(line) > 120] == []


# ---- offsets ---------------------------------------------------------------------------------------------------------


def compiles(text: str, *include: Path) -> bool:
    """Whether a C file compiles for an Arm core."""
    command = [str(toolchain.require(toolchain.Tool.ARM_GCC)), *WARNINGS, "-Wpedantic", "-mcpu=cortex-m4", "-mthumb",
               *(f"-I{folder}" for folder in include), "-fsyntax-only", "-x", "c", "-"]  # fmt: skip
    return subprocess.run(command, input=text, text=True, capture_output=True).returncode == 0


def asserted(text: str) -> list[tuple[str, str]]:
    """The members that a header holds to their offsets."""
    return re.findall(r"^CORTADO_AT\((\w+), (\w+), ", text, flags=re.M)


OFFSETS = [path for path in KERNEL_FILES.values() if path.suffix == ".h" and asserted(path.read_text())]


@pytest.mark.parametrize("header", OFFSETS, ids=lambda path: path.name)
def test_a_structure_that_moves_does_not_compile(header: Path, tmp_path: Path) -> None:
    """One word more at the front of a structure: each that assembly reads must notice."""
    include = KERNEL_FOLDERS
    text = header.read_text()
    assert compiles(text, *include)
    for structure in {structure for structure, _ in asserted(text)}:
        body = re.search(rf"typedef struct \{{((?:(?!typedef struct).)*?)\}} {structure};", text, flags=re.S)
        assert body is not None
        moved = text[: body.start(1)] + "\n    int32_t more;" + text[body.start(1) :]
        assert not compiles(moved, *include), f"{structure} may move"


def test_offsets_stand_once() -> None:
    """Every number that assembly adds to a structure's address comes from a header, which asserts it."""
    for header in OFFSETS:
        numbers = header if header != HEADER else HEADER.with_name("cortado_offsets.h")
        names = re.findall(r"^#define ([A-Z0-9_]+) \d+", numbers.read_text(), flags=re.M)
        for name in set(names) - {"CORTADO_LANE", "CORTADO_TILE_PIXELS", "CORTADO_DEPTHWISE_TAPS"}:
            assert re.search(rf"CORTADO_AT\(\w+, \w+, {name}\)", header.read_text()), f"{name} is not held"


def test_functions_are_given_as_arguments_only() -> None:
    """Not in tables, nor in layers: the bound of the stack (run/stack.py) sees the functions that a kernel calls by
    pointer where their addresses stand in the code."""
    texts = {
        path: path.read_text()
        for path in [
            HEADER,
            *(path for path in KERNEL_FILES.values() if path.parent != HEADER.parent and path.suffix != ".S"),
        ]
    }
    kinds = {name for text in texts.values() for name in re.findall(r"typedef [^;]*?\(\*(\w+)\)\(", text)}
    assert "cortado_cell_t" in kinds
    kept = re.compile(
        rf"\b(?:{'|'.join(kinds)})\s+(?:const\s+)?\w+\s*(?:\[|;)|\(\*\s*(?:const\s*)?\w*\s*\[|\(\*\w+\)\([^()]*\);"
    )
    members = [re.sub(r"typedef [^;]*?\(\*\w+\)\([^;]*;", "", text) for text in texts.values()]
    found = {str(path.name): kept.findall(text) for path, text in zip(texts, members, strict=True)}
    assert {name: some for name, some in found.items() if some} == {}
