"""The small commands: targets, chips, zoo, ops, doctor, inspect, plan, completion and pack.

shtab generates completion from the program's own parsers; pack needs no torch.
"""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from shlex import join, quote
from typing import TYPE_CHECKING, Any

from cortado.base.errors import CortadoError
from cortado.cli.kernels import delegated_images
from cortado.cli.tables import print_rows

if TYPE_CHECKING:
    from cortado.artifact.opened import Artifact
    from cortado.emit.image.reader import ImageInfo
    from cortado.emit.packages.content import Content


# ---- commands --------------------------------------------------------------------------------------------


def targets_command(arguments: argparse.Namespace) -> None:
    from cortado.base.target import table

    header = ("TARGET", "ISA", "CAN HAVE", "EMULATED BOARD", "COMPILER FLAGS")
    print_rows(
        arguments.json,
        table(),
        header,
        lambda row: (row.target, row.isa, ", ".join(row.supported), row.board, row.flags),
    )


def chips_command(arguments: argparse.Namespace) -> None:
    from cortado.base.chips import KB, ChipRow, table

    def flash(row: ChipRow) -> str:
        return "outside" if row.flash_bytes is None else f"{row.flash_bytes // KB:,} KB"

    print_rows(
        arguments.json,
        table(),
        ("CHIP", "CORE", "ISA", "CLOCK", "RAM", "FLASH", "WHAT IT IS", "SOURCE"),
        lambda row: (
            row.chip,
            row.target,
            row.isa,
            f"{row.clock_hz // 1_000_000} MHz",
            " + ".join(f"{bank.bytes // KB:,}" for bank in row.banks) + " KB",
            flash(row),
            row.title,
            row.source,
        ),
    )


def zoo_command(arguments: argparse.Namespace) -> None:
    from cortado.models import zoo

    def weights(row: zoo.Description) -> str:
        figures = zoo.get(row.name).accuracy()
        return "random" if figures is None else f"trained, {figures}"

    print_rows(
        arguments.json,
        [zoo.get(name).describe() for name in zoo.names()],
        ("NETWORK", "PARAMETERS", "MACS", "INPUT", "WEIGHTS", "WHAT IT IS"),
        lambda row: (
            row.name,
            f"{row.parameters:,}",
            f"{row.macs:,}",
            " ".join(str(list(shape)) for shape in row.input_shapes),
            weights(row),
            row.summary,
        ),
    )


def ops_command(arguments: argparse.Namespace) -> None:
    from cortado.ops.catalog import as_markdown, entries

    if arguments.markdown:
        print(as_markdown(), end="")
        return
    print_rows(
        arguments.json,
        entries(),
        ("OPERATOR", ".PTE", "C", "WHAT IT COMPUTES", "CONSTRAINTS"),
        lambda row: (row.operator, "yes" if row.pte else "no", "yes" if row.c else "no", row.summary, row.constraints),
    )


def doctor_command(arguments: argparse.Namespace) -> None:
    from cortado.base.errors import TellsWhatIsMissing
    from cortado.run.doctor import Item, check

    def found(item: Item) -> str:
        return item.version or ("not installed, optional" if item.optional else "MISSING")

    items = check()
    print_rows(
        arguments.json,
        items,
        ("TOOL", "NEEDED FOR", "FOUND", "TESTED WITH", "WHAT FOLLOWS"),
        lambda item: (item.name, item.needed_for, found(item), item.tested, item.follows),
    )
    fixes = [item.fix for item in items if not item.found and not item.optional]
    if fixes:
        raise TellsWhatIsMissing("something is missing. Install it with:\n  " + "\n  ".join(dict.fromkeys(fixes)))


def _inspect_image(arguments: argparse.Namespace) -> None:
    from cortado.emit.image.reader import image_as_json, image_text, read_image_file

    info = read_image_file(arguments.file)
    if arguments.target is not None and arguments.target != info.target:
        raise CortadoError(f"{arguments.file} is for {info.target}, not for {arguments.target}")
    print(json.dumps(image_as_json(info), indent=2) if arguments.json else image_text(info))


def inspect_command(arguments: argparse.Namespace) -> None:
    from cortado.base.target import from_target_string
    from cortado.emit.image.reader import image_as_json, image_text
    from cortado.pte.metadata import require_target
    from cortado.pte.reader import read_pte_file
    from cortado.pte.text import format_info, info_as_json

    if arguments.file.suffix == ".cortado":
        _inspect_image(arguments)
        return
    info = read_pte_file(arguments.file)
    if arguments.target is not None:
        require_target(info, from_target_string(arguments.target).target_string, str(arguments.file))
    images = delegated_images(info, arguments.file)
    if arguments.json:
        found = [{**image_as_json(image), "arena_in": place} for image, place in images]
        known = {"images": found, "temp_bytes": _temporary(images)} if found else {}
        print(json.dumps({**info_as_json(info), **known}, indent=2))
        return
    print(format_info(info))
    if _temporary(images):
        print(
            f"  temporary      {_temporary(images):,} bytes of the temp allocator, which delegates share while they run"
        )
    for image, place in images:
        taken = f"the delegate takes {image.delegate_bytes:,} bytes more of the method allocator"
        print(f"\n{taken}, has its arena in the {place}, and runs\n")
        print(image_text(image))


def _temporary(images: "list[tuple[ImageInfo, str]]") -> int:
    """Returns the temp allocator size required by delegates whose arenas are not planned."""
    return max((image.head.arena_bytes for image, place in images if place == "temp allocator"), default=0)


def plan_command(arguments: argparse.Namespace) -> None:
    from cortado.artifact.folder import write_file
    from cortado.memory import planner
    from cortado.memory.csv import read_csv, write_csv
    from cortado.memory.validate import validate

    try:
        text = arguments.file.read_text()
    except OSError as error:
        raise CortadoError(f"can't read {arguments.file}: {error.strerror}; expected a CSV file") from error
    except UnicodeDecodeError as error:
        raise CortadoError(f"{arguments.file} is not text; expected a CSV file") from error
    try:
        problem = read_csv(text)
    except CortadoError as error:
        raise CortadoError(f"{arguments.file}: {error}") from error
    plan = planner.plan(problem)
    validate(problem, plan)
    result = write_csv(problem, plan)
    proven = "proven minimal" if plan.optimal else f"lower bound {plan.lower_bound:,}"
    print(f"peak {plan.peak:,} bytes ({proven}), {len(problem.buffers)} buffers", file=sys.stderr)
    if arguments.output is None:
        print(result, end="")
    else:
        write_file(arguments.output, result.encode())


# ---- completion ------------------------------------------------------------------------------------------

SHELLS = ("bash", "zsh", "fish")
FILES = ("DIR", "FILE", "DATA", "X.npy", "Y.npy", ".csv", ".pte", ".npz")  # metavars of files and folders


def completion_command(arguments: argparse.Namespace) -> None:
    print(script(arguments.parser, arguments.shell), end="")


def script(parser: argparse.ArgumentParser, shell: str) -> str:
    """Returns a completion script, to be sourced by bash and zsh, or saved as
    ~/.config/fish/completions/cortado.fish."""
    import shtab

    known = _known()
    for action in actions_of(parser):
        name = str(action.metavar)
        words, files = known.get(name, ()), name == "MODEL" or name.endswith(FILES)
        if action.choices is None and (words or files):
            action.complete = _words(name, words, files)  # type: ignore[attr-defined]
    return str(shtab.complete(parser, shell=shell))


def actions_of(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Yields the arguments and options of all commands."""
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from actions_of(command)


def _known() -> dict[str, tuple[str, ...]]:
    """Returns the words that a metavar can be completed to."""
    from cortado.base import chips, target
    from cortado.models import zoo
    from cortado.options import PackageKind
    from cortado.run.runner import EXECUTORCH, HERE

    boards = tuple(machine.value for machine in target.Machine)
    return {
        "MODEL": zoo.names(),
        "TARGET": tuple(row.target for row in target.table()),
        "CHIP": tuple(row.chip for row in chips.table()),
        "BOARD": boards,
        "PLACE": (*HERE, EXECUTORCH, *boards),
        "SYSTEM": tuple(kind.value for kind in PackageKind),
    }


def _words(metavar: str, words: tuple[str, ...], files: bool) -> dict[str, Any]:
    """Returns the completion of these words, and of files if allowed, as shtab expects it for each shell."""
    name = f"_cortado_offer_{''.join(letter if letter.isalnum() else '_' for letter in metavar).lower()}"
    listed = join(words)
    in_bash = [f"compgen -W {quote(listed)} -- $1"] if words else []
    in_zsh = [f"compadd -- {listed}"] if words else []
    in_fish = [f"printf '%s\\n' {listed}"] if words else []
    if files:
        in_bash, in_zsh = [*in_bash, "compgen -f -- $1"], [*in_zsh, "_files"]
        in_fish = [*in_fish, "__fish_complete_path (commandline -ct)"]
    return {
        "bash": name,
        "zsh": name,
        "fish": f"({name})",
        "preamble": {
            "bash": f"{name}() {{ {'; '.join(in_bash)}; }}\n",
            "zsh": f"{name}() {{ {'; '.join(in_zsh)}; }}\n",
            "fish": f"function {name}\n{chr(10).join(in_fish)}\nend\n",
        },
    }


# ---- pack ------------------------------------------------------------------------------------------------


def pack_arguments(commands: Any, add: Any) -> None:
    text = (
        "write a compiled model as packages for build systems, as `compile --package` does, but later and without torch"
    )
    parser = add(commands, "pack", text, pack_command, json=False)
    parser.add_argument("folder", type=Path, metavar="DIR", help="the output folder of `cortado compile --selftest`")
    parser.add_argument(
        "--package",
        metavar="SYSTEM",
        required=True,
        help="zephyr, arduino, cmsis-pack, platformio, pico or cmake; several separated by commas (docs/packages.md)",
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="DIR",
        required=True,
        help="the folder to create, with a subfolder per system",
    )


def pack_command(arguments: argparse.Namespace) -> None:
    from cortado.artifact.folder import check_writable, write_each
    from cortado.artifact.opened import Artifact
    from cortado.emit.packages import package_files
    from cortado.options import Options, PackageKind

    kinds = Options(package=tuple(arguments.package.split(","))).package
    if PackageKind.WEB in kinds:
        raise CortadoError("a web package can't be made from a folder's C; use `cortado compile --package web`")
    output: Path = arguments.output
    if output.exists():
        raise CortadoError(f"{output} exists already; name a folder that does not exist yet")
    check_writable(output)
    content = content_of(Artifact.open(arguments.folder))
    files = {name: data for kind in kinds for name, data in package_files(kind, content).items()}
    final = Path(os.path.realpath(output))
    final.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{final.name}.", dir=final.parent) as staging:
        write_each(Path(staging) / "new", files)
        os.rename(Path(staging) / "new", final)
    print(f"{', '.join(kind.value for kind in kinds)} in {output}")


def content_of(artifact: "Artifact") -> "Content":
    """Returns a folder's bundle as the content of a package; other artifacts in the folder are left out."""
    from cortado.emit.packages.content import LICENSE, Content

    artifact.check_bundle()
    report = artifact.report
    if f"{report.prefix}_selftest.c" not in report.artifacts:
        raise CortadoError(
            f"{artifact.folder} has no self-test, which the examples of packages run; compile it again with --selftest"
        )
    if report.memory is not None and report.memory.regions:
        raise CortadoError(
            f"{artifact.folder} was compiled with --memory: packages have the arena in one piece; compile it without"
        )
    names = [name for name in report.artifacts if PurePosixPath(name).parts[0] in (name, "kernels")]
    bundle = {
        name: (artifact.folder / name).read_text(encoding="utf-8")
        for name in names
        if PurePosixPath(name).suffix in (".c", ".h", ".S") or name == LICENSE
    }
    ids, version = (report.id,), report.model_version
    return Content.of((report.prefix,), artifact.info.target, bundle, ids, version, arithmetic=report.arithmetic)
