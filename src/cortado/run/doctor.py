"""What is installed, what is missing, and the exact command that installs it."""

import importlib.metadata
import platform
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from cortado.base.errors import MissingTool
from cortado.run import toolchain
from cortado.run.toolchain import Tool

OLDEST_PYTHON = (3, 11)


@dataclass(frozen=True)
class Package:
    """A Python package: the version that is tested, and how a version that will do begins."""

    name: str
    pinned: str
    accepted: str
    needed_for: str
    extra: str | None = None  # of Cortado's own package, that brings it

    @property
    def install(self) -> str:
        return (
            f"pip install {self.name}=={self.pinned}" if self.extra is None else f"pip install 'cortado[{self.extra}]'"
        )


PACKAGES = (
    Package("torch", "2.13.0", "2.13.", "exporting models"),
    Package("executorch", "1.5.1", "1.5.", "writing and running .pte files", extra="executorch"),
    Package("torchao", "0.18.0", "0.18.", "quantization"),
    Package("numpy", "2.4.6", "2.", "data in and out"),
    Package("rich", "15.0.0", "", "the progress display"),
    Package("shtab", "1.13.0", "1.", "completion for shells"),
    Package("pyelftools", "0.33", "0.", "reading firmware images"),
)


@dataclass(frozen=True)
class Item:
    """One tool or package. `found` says that it is there and will do."""

    name: str
    found: bool
    version: str | None
    needed_for: str
    fix: str
    optional: bool = False


def check() -> list[Item]:
    return [_python(), *map(_package, PACKAGES), *map(_tool, toolchain.status()), _newlib()]


def _python() -> Item:
    wanted = ".".join(map(str, OLDEST_PYTHON))
    fits = sys.version_info[:2] >= OLDEST_PYTHON
    return Item("python", fits, platform.python_version(), "everything", f"install Python {wanted} or newer")


def _package(package: Package) -> Item:
    try:
        version: str | None = importlib.metadata.version(package.name)
    except importlib.metadata.PackageNotFoundError:
        version = None
    fits = version is not None and version.split("+")[0].startswith(package.accepted)
    optional = package.extra is not None and version is None
    return Item(package.name, fits, version, package.needed_for, package.install, optional)


def _tool(status: toolchain.ToolStatus) -> Item:
    info = status.tool.value
    fix = f"apt-get install {info.packages}"
    return Item(info.command, status.found, status.version, info.needed_for, fix, info.optional)


def _newlib() -> Item:
    """The C library beside arm-none-eabi-gcc, which is a package of its own."""
    gcc = toolchain.find(Tool.ARM_GCC)
    try:
        place = None if gcc is None else str(toolchain.newlib_include(gcc))
    except MissingTool:
        place = None
    fix = "apt-get install libnewlib-arm-none-eabi"
    return Item("newlib", place is not None, place, "building firmware", fix)


def require(tools: Sequence[Tool]) -> None:
    """Raises one MissingTool that names every one of these tools that is not on PATH."""
    missing = [tool.value for tool in tools if toolchain.find(tool) is None]
    if missing:
        needs = "; ".join(f"{info.command} is not on PATH (needed for {info.needed_for})" for info in missing)
        packages = " ".join(dict.fromkeys(info.packages for info in missing))
        raise MissingTool(f"{needs}. Install with: apt-get install {packages}")
