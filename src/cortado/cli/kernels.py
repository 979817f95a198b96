"""cortado kernels: the table and the sources by which firmware runs images."""

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cortado.base.errors import CortadoError
from cortado.cli.tables import print_rows

if TYPE_CHECKING:
    from cortado.base.target import Core
    from cortado.emit.image.every import ListedThunk


@dataclass(frozen=True)
class KernelRow:
    """A kernel as it is printed."""

    kernel: str
    number: str
    sources: list[str]


def kernels_arguments(commands: Any, add: Any) -> None:
    text = "write what firmware needs to run images: the loader, a table of kernels, and these"
    parser = add(commands, "kernels", text, kernels_command)
    parser.add_argument(
        "images", nargs="*", type=Path, metavar="A.cortado", help="images that it has to run: their kernels"
    )
    parser.add_argument("--all", action="store_true", help="all kernels there are, for any image of the --target")
    parser.add_argument("--target", "-t", metavar="TARGET", help="with --all: the core")
    parser.add_argument("-o", "--output", type=Path, metavar="DIR", help="the folder to write, empty or new")


def kernels_command(arguments: argparse.Namespace) -> None:
    from cortado.emit.image.files import loader_files
    from cortado.run.runner import write_files

    if arguments.all == bool(arguments.images):
        raise CortadoError("name the images that the firmware has to run, or say --all --target TARGET")
    chosen = _all(arguments.target) if arguments.all else _of_images(arguments.images)
    if arguments.output is not None:
        folder = arguments.output
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise CortadoError(f"{folder} is there already; name an empty folder, or one that is not there yet")
        sources = {source for one in chosen for source in one.sources}
        write_files(folder, loader_files([one.thunk for one in chosen], sources))
    rows = [KernelRow(one.thunk.name, f"{one.thunk.id:08x}", list(one.sources)) for one in chosen]
    print_rows(
        arguments.json,
        sorted(rows, key=lambda row: (row.kernel, row.number)),
        ("KERNEL", "NUMBER", "SOURCES"),
        lambda row: (row.kernel, row.number, ", ".join(row.sources)),
    )


def _all(target: str | None) -> list["ListedThunk"]:
    from cortado.base.target import from_target_string
    from cortado.emit.image.every import every_thunk
    from cortado.emit.image.layout import check_one_core

    if target is None:
        raise CortadoError("--all needs the core that the firmware is for, as in --target cortex-m55")
    config = from_target_string(target)
    check_one_core(config, image=True)
    return [one for one in every_thunk().values() if config.cores[0] in one.cores]


def _of_images(paths: list[Path]) -> list["ListedThunk"]:
    from cortado.emit.image.every import every_thunk
    from cortado.emit.image.reader import read_image_file

    known = every_thunk()
    cores: dict[Core, Path] = {}
    chosen: dict[int, ListedThunk] = {}
    for path in paths:
        info = read_image_file(path)
        cores.setdefault(info.core, path)
        for kernel in info.kernels:
            if kernel.id not in known:
                raise CortadoError(
                    f"{path} calls {kernel.name} in a way that this version of Cortado doesn't (number "
                    f"{kernel.id:08x}); compile it again with this version"
                )
            chosen[kernel.id] = known[kernel.id]
    if len(cores) > 1:
        (one, first), (other, second), *_ = cores.items()
        raise CortadoError(
            f"{first} is for {one.name} cores and {second} for {other.name}; a firmware has the kernels of one"
        )
    return list(chosen.values())
