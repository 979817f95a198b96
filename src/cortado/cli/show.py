"""cortado show."""

import argparse
import json
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cortado.base.errors import CortadoError
from cortado.base.versions import TORCH
from cortado.cli.arguments import method_argument
from cortado.cli.parsing import add
from cortado.cli.run import folder_of

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
