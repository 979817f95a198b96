"""The smaller commands: targets, chips, zoo, ops, doctor, inspect, plan, completion, pack, show and kernels.

shtab generates completion from the program's own parsers; pack needs no torch; kernels writes the table and the sources
with which firmware runs images.
"""

import argparse
import json
import os
import sys
import tempfile
import webbrowser
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from shlex import join, quote
from typing import TYPE_CHECKING, Any

from cortado.base.errors import CortadoError
from cortado.base.versions import TORCH
from cortado.cli.parsing import add, method_argument
from cortado.cli.run import folder_of
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
    from cortado.pte.info import require_target
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
    from cortado.memory.problem import read_csv, write_csv
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


# ---- show -------------------------------------------------------------------------------------------

if TYPE_CHECKING:
    from cortado.artifact.opened import Artifact
    from cortado.web.facts import PageSound

WRITTEN = "web/index.html"  # in a compiled folder, written by `compile --package web`


def show_arguments(commands: Any) -> None:
    parser = add(
        commands,
        "show",
        "try a compiled model in a browser: speak or draw, see what it answers",
        show_command,
        json=False,
    )
    parser.add_argument("folder", type=Path, metavar="DIR", help="the output folder of `cortado compile`")
    parser.add_argument(
        "--recording",
        type=Path,
        action="append",
        default=[],
        metavar="SOUND.wav",
        help="for a stream of samples: a 16-bit sound that the page can play to the model; may be repeated",
    )
    parser.add_argument("--write", type=Path, metavar="FILE.html", help="write the page to a file instead")
    parser.add_argument("--port", type=int, default=0, metavar="N", help="the port to listen on (default: a free one)")
    parser.add_argument("--no-browser", action="store_true", help="print the address instead of opening a browser")
    parser.add_argument(
        "--lan",
        action="store_true",
        help="let others on your network open it, with a secret in the address (default: this machine only)",
    )
    parser.add_argument("--trust", action="store_true", help="trust a folder that another installation compiled")
    method_argument(parser)


def show_command(arguments: argparse.Namespace) -> None:
    from cortado.artifact.folder import write_file
    from cortado.artifact.opened import PAGE, Artifact
    from cortado.artifact.pages import INDEX
    from cortado.web.server import serve

    if arguments.port not in range(65536):
        raise CortadoError(f"--port {arguments.port} is not a port; expected 0 to 65535")
    taught = arguments.method is None and is_taught(arguments.folder)
    method = "forward" if taught else arguments.method
    artifact = Artifact.open(folder_of(arguments.folder, [], method), trust=arguments.trust)
    artifact.check_bundle()
    artifact.check_trust()
    page = (arguments.folder / WRITTEN).read_bytes() if taught else _page(artifact, arguments)
    if arguments.write is not None:
        write_file(arguments.write, page)
        print(f"written to {arguments.write}")
        return
    pages = {INDEX: page, **({} if taught else {PAGE: (artifact.folder / PAGE).read_bytes()})}
    served = serve(pages, port=arguments.port, lan=arguments.lan)
    print(f"{served.address}\n{served.reach}; Ctrl-C ends it", flush=True)
    if not arguments.no_browser:
        webbrowser.open(served.address)
    served.run()


def is_taught(folder: Path) -> bool:
    """Returns whether the folder has methods and an unmodified page to teach them."""
    from cortado.artifact.folder import METHODS, TOGETHER
    from cortado.artifact.manifest import file_digest

    if not (folder / METHODS / "forward").is_dir() or not (folder / WRITTEN).is_file():
        return False
    try:
        known = json.loads((folder / TOGETHER).read_text())["files"][WRITTEN]
    except (OSError, ValueError, KeyError, TypeError):
        known = None
    if known != file_digest(folder / WRITTEN):
        raise CortadoError(f"{folder / WRITTEN} is not what `cortado compile` wrote; compile the model again")
    return True


def _page(artifact: "Artifact", arguments: argparse.Namespace) -> bytes:
    """Builds the page; without torch, returns the one that `compile --package web` wrote."""
    try:
        return _made(artifact, arguments)
    except ModuleNotFoundError as error:
        if error.name != TORCH.name:
            raise
    written = artifact.folder / WRITTEN
    if arguments.recording or not written.is_file():
        what = "its sounds are put into it" if arguments.recording else f"{artifact.folder} has none"
        raise CortadoError(
            f"making the page needs torch, which is not installed ({TORCH.install}); without it `cortado show` serves "
            f"the page that `cortado compile --package web` wrote, and {what}"
        )
    return written.read_bytes()


def _made(artifact: "Artifact", arguments: argparse.Namespace) -> bytes:
    from cortado.artifact.opened import PAGE
    from cortado.run.doctor import require
    from cortado.run.toolchain import Tool
    from cortado.web.facts import Shown
    from cortado.web.package import web_module, web_page

    require((Tool.CLANG, Tool.WASM_LD))
    with artifact.guarded():
        shown = Shown.opened(artifact, _sounds(artifact, arguments.recording))
        return web_page(shown, web_module(shown), report=PAGE if arguments.write is None else None).encode()


def _sounds(artifact: "Artifact", paths: list[Path]) -> list["PageSound"]:
    from cortado.artifact.streamed import read_recording, read_wav
    from cortado.web.facts import PageSound

    sounds = []
    for path in paths:
        read_recording(artifact, path, None)  # raises unless the model takes samples of sound
        samples, rate = read_wav(path)
        sounds.append(PageSound(path.stem, rate, samples))
    return sounds


# ---- kernels ----------------------------------------------------------------------------------------

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
