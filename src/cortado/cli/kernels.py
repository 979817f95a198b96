"""cortado kernels: the table and the sources with which firmware runs images."""

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cortado.base.errors import CortadoError
from cortado.cli.tables import print_rows

if TYPE_CHECKING:
    from cortado.base.target import Core, CortexMTargetConfig
    from cortado.emit.image.files import ListedThunk
    from cortado.emit.image.reader import ImageInfo
    from cortado.pte.info import PteInfo


@dataclass(frozen=True)
class ListedKernel:
    """A kernel, as printed."""

    kernel: str
    number: str
    sources: list[str]


def kernels_arguments(commands: Any, add: Any) -> None:
    text = "write what firmware needs to run images: the loader, the kernels and a table of them"
    parser = add(commands, "kernels", text, kernels_command)
    parser.add_argument(
        "images",
        nargs="*",
        type=Path,
        metavar="FILE",
        help="the images (.cortado), or files with delegates (.pte), to support",
    )
    parser.add_argument("--all", action="store_true", help="all kernels, enough for any image of the --target")
    parser.add_argument("--target", "-t", metavar="TARGET", help="with --all: the core")
    place = parser.add_mutually_exclusive_group()
    place.add_argument("-o", "--output", type=Path, metavar="DIR", help="the folder to write; it must be empty or new")
    place.add_argument(
        "--executorch",
        type=Path,
        metavar="DIR",
        help="the same, plus the delegate and everything that ExecuTorch's build links",
    )


def kernels_command(arguments: argparse.Namespace) -> None:
    from cortado.emit.image.files import delegate_files, loader_files
    from cortado.run.measure import loader_bytes
    from cortado.run.runner import write_files

    if arguments.all == bool(arguments.images):
        raise CortadoError("name the images that the firmware has to run, or give --all --target TARGET")
    chosen, target = _all(arguments.target) if arguments.all else _of_images(arguments.images)
    folder = arguments.output or arguments.executorch
    if folder is not None:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise CortadoError(f"{folder} exists already; name an empty folder, or one that does not exist yet")
        sources, thunks = {source for one in chosen for source in one.sources}, [one.thunk for one in chosen]
        files = loader_files(thunks, sources)
        if arguments.executorch is not None:
            files = delegate_files(files, target.target_string, loader_bytes(files, target))
        write_files(folder, files)
    rows = [ListedKernel(one.thunk.name, f"{one.thunk.id:08x}", list(one.sources)) for one in chosen]
    print_rows(
        arguments.json,
        sorted(rows, key=lambda row: (row.kernel, row.number)),
        ("KERNEL", "NUMBER", "SOURCES"),
        lambda row: (row.kernel, row.number, ", ".join(row.sources)),
    )


def _all(target: str | None) -> tuple[list["ListedThunk"], "CortexMTargetConfig"]:
    from cortado.base.target import from_target_string
    from cortado.emit.image.files import every_thunk
    from cortado.emit.image.layout import check_one_core

    if target is None:
        raise CortadoError("--all needs the core that the firmware is for, as in --target cortex-m55")
    config = from_target_string(target)
    check_one_core(config, image=True)
    return [one for one in every_thunk().values() if config.cores[0] in one.cores], config


def delegated_images(info: "PteInfo", path: Path) -> list[tuple["ImageInfo", str]]:
    """Returns the images in the blobs of Cortado's delegate, and the allocator of each one's arena."""
    from cortado.emit.image.reader import read_image

    delegates = [one for method in info.methods for one in method.delegates if one.name == "CortadoBackend"]
    data = path.read_bytes() if delegates else b""
    images = [read_image(data[one.offset : one.offset + one.nbytes], f"the blob in {path}") for one in delegates]
    return [(image, image.arena_in(one.settings)) for image, one in zip(images, delegates, strict=True)]


def _images(path: Path) -> list["ImageInfo"]:
    """Returns the images in a file: one, or those of a .pte's delegates."""
    from cortado.emit.image.reader import read_image_file
    from cortado.pte.reader import read_pte_file

    if path.suffix != ".pte":
        return [read_image_file(path)]
    found = [image for image, _ in delegated_images(read_pte_file(path), path)]
    if not found:
        raise CortadoError(
            f"{path} has no Cortado delegate, so it needs none of its kernels; expected a file of --pte delegate or of "
            "CortadoPartitioner"
        )
    return found


def _of_images(paths: list[Path]) -> tuple[list["ListedThunk"], "CortexMTargetConfig"]:
    from cortado.base.target import from_target_string
    from cortado.emit.image.files import every_thunk

    known = every_thunk()
    cores: dict[Core, Path] = {}
    chosen: dict[int, ListedThunk] = {}
    found = [(one, info) for one in paths for model in _images(one) for info in (model, *model.methods)]
    for path, info in found:
        cores.setdefault(info.core, path)
        for kernel in info.kernels:
            if kernel.id not in known:
                raise CortadoError(
                    f"{path} calls {kernel.name} in a way that this version of Cortado doesn't know (number "
                    f"{kernel.id:08x}); compile it again with this version"
                )
            chosen[kernel.id] = known[kernel.id]
    if len(cores) > 1:
        (one, first), (other, second), *_ = cores.items()
        raise CortadoError(
            f"{first} is for {one.name} cores and {second} for {other.name}; firmware holds the kernels of one kind of "
            "core"
        )
    return list(chosen.values()), from_target_string(found[0][1].target)
