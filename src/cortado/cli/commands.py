"""The small commands: targets, chips, zoo, ops, doctor, inspect, plan."""

import argparse
import json
import sys
from typing import TYPE_CHECKING

from cortado.base.errors import CortadoError
from cortado.cli.kernels import delegated_images
from cortado.cli.tables import print_rows

if TYPE_CHECKING:
    from cortado.emit.image.reader import ImageInfo


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
    from cortado.emit.image.reader import read_image_file
    from cortado.emit.image.text import image_as_json, image_text

    info = read_image_file(arguments.file)
    if arguments.target is not None and arguments.target != info.target:
        raise CortadoError(f"{arguments.file} is for {info.target}, not for {arguments.target}")
    print(json.dumps(image_as_json(info), indent=2) if arguments.json else image_text(info))


def inspect_command(arguments: argparse.Namespace) -> None:
    from cortado.base.target import from_target_string
    from cortado.emit.image.text import image_as_json, image_text
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
    """Bytes that a runtime's temp allocator must have for delegates whose arenas are not planned."""
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
