"""cortado pack: a compiled folder as packages for build systems, without torch."""

import argparse
import os
import tempfile
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from cortado.base.errors import CortadoError

if TYPE_CHECKING:
    from cortado.artifact.opened import Artifact
    from cortado.emit.packages.content import Content


def pack_arguments(commands: Any, add: Any) -> None:
    text = (
        "write a compiled model as packages for build systems; what `compile --package` does, later and without torch"
    )
    parser = add(commands, "pack", text, pack_command, json=False)
    parser.add_argument("folder", type=Path, metavar="DIR", help="what `cortado compile --selftest` wrote")
    parser.add_argument(
        "--package",
        metavar="SYSTEM",
        required=True,
        help="zephyr, arduino, cmsis-pack, platformio, pico or cmake; several with commas between them "
        "(docs/packages.md)",
    )
    parser.add_argument(
        "-o", "--output", type=Path, metavar="DIR", required=True, help="a new folder, with one for each system in it"
    )


def pack_command(arguments: argparse.Namespace) -> None:
    from cortado.artifact.folder import check_writable, write_each
    from cortado.artifact.opened import Artifact
    from cortado.emit.packages.kinds import package_files
    from cortado.options import Options, PackageKind

    kinds = Options(package=tuple(arguments.package.split(","))).package
    if PackageKind.WEB in kinds:
        raise CortadoError("web is no package of a folder's C; `cortado compile --package web` writes it")
    output: Path = arguments.output
    if output.exists():
        raise CortadoError(f"{output} is there already; name a folder that is not there yet")
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
    """The bundle of a folder, which is beside what other artifacts have there, as packages take it."""
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
