"""Installed tools and their versions, the versions tested, and the exact command that installs what is missing."""

import platform
import re
from collections.abc import Sequence
from dataclasses import dataclass

from cortado.base.errors import MissingTool
from cortado.base.versions import PACKAGES, PYTHON, Package, Verdict
from cortado.run import confined, toolchain
from cortado.run.toolchain import Tool


@dataclass(frozen=True)
class Item:
    """A tool or package. `found`: it is installed in a usable version; `tested`: the version that the tests run
    with."""

    name: str
    found: bool
    version: str | None
    needed_for: str
    fix: str
    optional: bool = False
    tested: str = ""
    follows: str = ""  # a verdict on these versions, in words

    @staticmethod
    def of(
        name: str,
        version: str | None,
        needed_for: str,
        fix: str,
        *,
        tested: str,
        fits: bool,
        optional: bool = False,
        also: str = "",
        within: bool = False,
    ) -> "Item":
        """Derives the verdict. `also` is a range of versions that tests have run with besides the pinned one; `within`:
        this version is in it."""
        if version is None:
            follows = f"missing for {needed_for}: {fix}"
        elif not fits:
            follows = f"not supported, expected {also or tested}: {fix}"
        elif not tested:
            follows = "used"
        elif _same(version, tested):
            follows = "as tested"
        elif within:
            follows = f"tested too ({also})"
        else:
            what = f"newer than any tested version ({also})" if also else f"not the version that is tested ({tested})"
            follows = f"should work, and is {what}"
        return Item(name, fits and version is not None, version, needed_for, fix, optional, tested, follows)


def _same(version: str, tested: str) -> bool:
    """Returns whether the first dotted number in a program's version text starts with the tested one."""
    found = re.search(r"\d+\.\d[\d.]*", version)
    return found is not None and f"{found[0]}.".startswith(f"{tested}.")


def check() -> list[Item]:
    return [_python(), *map(_package, PACKAGES), *map(_tool, toolchain.status()), _newlib(), _confinement()]


def _python() -> Item:
    return _of(PYTHON, platform.python_version(), f"install Python {PYTHON.tested}")


def _package(package: Package) -> Item:
    version = package.found
    return _of(package, version, package.install, optional=package.extra is not None and version is None)


def _of(package: Package, version: str | None, fix: str, *, optional: bool = False) -> Item:
    return Item.of(
        package.name,
        version,
        package.needed_for,
        fix,
        tested=package.pinned,
        also=package.tested,
        within=version is not None and package.verdict(version) is Verdict.TESTED,
        fits=version is not None and package.takes(version),
        optional=optional,
    )


def _tool(status: toolchain.ToolStatus) -> Item:
    info = status.tool.value
    fix = f"apt-get install {info.packages}"
    return Item.of(
        info.command,
        status.version,
        info.needed_for,
        fix,
        tested=info.tested,
        fits=status.found,
        optional=info.optional,
    )


def _newlib() -> Item:
    """Checks for the C library of arm-none-eabi-gcc, which is a package of its own."""
    gcc = toolchain.find(Tool.ARM_GCC)
    try:
        place = None if gcc is None else str(toolchain.newlib_include(gcc))
    except MissingTool:
        place = None
    fix = "apt-get install libnewlib-arm-none-eabi"
    return Item.of("newlib", place, "building firmware", fix, tested="", fits=True)


def _confinement() -> Item:
    """Checks for a sandbox for compilers of foreign C."""
    means = confined.confinement()
    needed = "compiling the C of folders from other installations"
    name, version = "confinement", None if means is None else means.value
    return Item.of(name, version, needed, confined.INSTALL, tested="", fits=True, optional=True)


def require(tools: Sequence[Tool]) -> None:
    """Raises one MissingTool that names each of these tools that is not on PATH."""
    missing = [tool.value for tool in tools if toolchain.find(tool) is None]
    if missing:
        needs = "; ".join(f"{info.command} is not on PATH (needed for {info.needed_for})" for info in missing)
        packages = " ".join(dict.fromkeys(info.packages for info in missing))
        raise MissingTool(f"{needs}. Install with: apt-get install {packages}")
