"""Holds the C of bundles to MISRA C:2012 with cppcheck's addon, and writes docs/misra.md: `make misra`.

Looked at are the kernel library and a model with its self-test, as a compiler for a Cortex-M4 sees them. Every rule
that is found must have its reason here: one without is an error. The rules' own texts are MISRA's, and not repeated.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from cortado.base.system import KERNEL_FOLDERS, KERNEL_SOURCES

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "misra.md"
NETWORK = "ds_cnn"
BEGIN = "<!-- made by make misra -->"
# What gcc defines for a Cortex-M4.
DEFINES = (
    "__arm__",
    "__thumb__",
    "__ARM_ARCH=7",
    "__ARM_ARCH_7EM__=1",
    "__ARM_FEATURE_DSP=1",
    "__ARM_FEATURE_UNALIGNED=1",
    "__GNUC__=12",
)
_FINDING = re.compile(r"^misra-c2012-(\d+\.\d+) (.+):(\d+)$")


@dataclass(frozen=True)
class Deviation:
    """A rule that is not kept everywhere, and why."""

    required: bool
    reason: str


def _required(reason: str) -> Deviation:
    return Deviation(required=True, reason=reason)


def _advisory(reason: str) -> Deviation:
    return Deviation(required=False, reason=reason)


_ARITHMETIC = (
    "int8 codes are summed as int32 by the usual promotions, which every product of a kernel is made of; casts would "
    "hide it. Right shifts of negative numbers are arithmetic on all compilers for these cores; tests hold every bit"
)
DEVIATIONS = {
    "2.3": _advisory("types of layers that a network does not have; a bundle ships one public header"),
    "2.4": _advisory("as 2.3"),
    "2.5": _advisory("as 2.3, and macros of sizes that are for the firmware"),
    "2.7": _advisory("kernels are called by one type of function; some need not all it passes"),
    "5.5": _required("the function of a core with assembly of its own, under the name of the portable one"),
    "5.6": _required("names of types in different sources; none is seen by two of them"),
    "5.7": _required("as 5.6: the same structure for cores with and without DSP instructions"),
    "5.9": _advisory("static functions of the same name in different sources"),
    "8.5": _required("the tables of a network are declared where they are and by its self-test, and in no header"),
    "8.7": _advisory("entry points of the interface, which this network's own sources do not call"),
    "8.9": _advisory("tables stand beside one another, not within the functions that read them"),
    "8.11": _advisory("the length of the table of kernels is the firmware's choice"),
    "9.2": _required("initialisers that call functions which return structures: cppcheck counts their members"),
    "9.3": _required("as 9.2"),
    "10.1": _required(_ARITHMETIC),
    "10.3": _required("as 10.1"),
    "10.4": _required("as 10.1"),
    "10.5": _advisory("as 10.1"),
    "10.6": _required("as 10.1"),
    "10.7": _required("as 10.1"),
    "10.8": _required("as 10.1"),
    "11.3": _required("bytes of the arena as words of its buffers: the plan aligns every buffer to 16 bytes"),
    "11.4": _advisory("addresses as integers, for their alignment"),
    "11.5": _advisory("an arena is bytes, and its buffers are of other types: the plan knows which, and aligns them"),
    "11.8": _required("the addon does not see that the array of pointers, not what they point to, is written"),
    "12.1": _advisory("products before sums need no parentheses to a reader of kernels"),
    "12.3": _advisory("several variables of one kind in a declaration, and lists that the addon takes for it"),
    "13.3": _advisory("a pointer that moves on as it is read: what a kernel's inner loop is"),
    "13.4": _advisory("chains of assignments to pointers that begin at the same place"),
    "14.2": _required("loops whose steps are not all the same: the last four channels may overlap those before"),
    "15.4": _advisory("loops with two ends"),
    "15.5": _advisory("guards at the beginning of a function return early"),
    "15.7": _required("what is neither needs nothing"),
    "17.8": _advisory("parameters that count down, and pointers that move on"),
    "18.4": _advisory("as 13.3"),
    "19.2": _advisory("an operand lies in the arena or is a constant: a union of both saves a word for each"),
    "20.5": _advisory("the loop over rows is compiled twice, under two names"),
    "20.7": _required("a parameter that is the name of a member, or a statement"),
    "20.9": _required("looked at after defined() in the same condition"),
    "20.10": _advisory("symbols carry the version of the kernels and the core"),
    "21.14": _required("four bytes that mark a file are no text"),
    "21.15": _required("bits of a float32, and words of an image, as integers, by memcpy: the way that C allows"),
}  # fmt: skip


@dataclass(frozen=True, order=True)
class Finding:
    rule: str
    file: str
    line: int


def command(sources: Sequence[Path], includes: Sequence[Path]) -> list[str]:
    given = [f"-D{define}" for define in DEFINES] + [f"-I{folder}" for folder in includes]
    options = ["--addon=misra", "--quiet", "--std=c99", "--platform=unix32", "-j", "2", "--template={id} {file}:{line}"]
    return ["cppcheck", *options, *given, *map(str, sources)]


def findings(sources: Sequence[Path], includes: Sequence[Path]) -> list[Finding]:
    """What the addon says of these sources and what they include, each place once. It writes beside what it reads."""
    with tempfile.TemporaryDirectory(prefix="cortado-misra-") as folder:
        copies = [Path(shutil.copy(source, folder)) for source in sources]
        done = subprocess.run(command(copies, includes), capture_output=True, text=True, check=True)
    stopped = [line for line in done.stderr.splitlines() if "preprocessorErrorDirective" in line]
    if stopped:
        raise SystemExit(f"an #error stopped cppcheck, so that it saw nothing of the rest: {stopped[0]}")
    matches = filter(None, map(_FINDING.match, done.stderr.splitlines()))
    return sorted({Finding(found[1], Path(found[2]).name, int(found[3])) for found in matches})


def undecided(found: Iterable[Finding]) -> list[Finding]:
    """What has no reason."""
    return [one for one in found if one.rule not in DEVIATIONS]


def _number(rule: str) -> tuple[int, ...]:
    return tuple(map(int, rule.split(".")))


def table(found: Sequence[Finding], *, required: bool) -> str:
    """Rules with their places, the most of them in which file, and the reason."""
    rows = ["| rule | places | most of them in | reason |", "|---|---|---|---|"]
    for rule in sorted({one.rule for one in found}, key=_number):
        if DEVIATIONS[rule].required is required:
            files = [one.file for one in found if one.rule == rule]
            most = max(sorted(set(files)), key=files.count)
            rows.append(f"| {rule} | {len(files)} | `{most}` | {DEVIATIONS[rule].reason} |")
    return "\n".join(rows)


def page(found: Sequence[Finding], sources: int, version: str) -> str:
    return f"""{BEGIN}

{sources} C sources, {version}, {len(found)} places. No mandatory rule is broken.

## Required rules

{table(found, required=True)}

## Advisory rules

{table(found, required=False)}
"""


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="cortado-misra-") as folder:
        compiled = [sys.executable, "-m", "cortado", "compile", NETWORK, "--target", "cortex-m4", "--selftest"]
        subprocess.run([*compiled, "-o", folder], check=True, capture_output=True)
        own = sorted(Path(folder).glob(f"{NETWORK}*.c"))
        kernels = Path(folder) / "kernels"
        found = findings(own, [Path(folder), kernels / "include", kernels / "src"])  # they know their kernels by a hash
    library = [path for path in KERNEL_SOURCES.values() if path.suffix == ".c"]
    found = sorted({*found, *findings(library, [*KERNEL_FOLDERS])})
    left = undecided(found)
    for one in left:
        print(f"{one.file}:{one.line}: rule {one.rule} has no reason in tools/misra.py", file=sys.stderr)
    if left:
        raise SystemExit(1)
    version = subprocess.run(["cppcheck", "--version"], capture_output=True, text=True, check=True).stdout.strip()
    head = PAGE.read_text().split(BEGIN)[0]
    PAGE.write_text(head + page(found, len(own) + len(library), version))
    print(f"{PAGE.relative_to(ROOT)}: {len(found)} places")


if __name__ == "__main__":
    main()
