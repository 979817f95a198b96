"""What is installed, what is missing, and the exact command that installs it."""

import importlib.metadata
from dataclasses import dataclass

from cortado import toolchain

PACKAGES = (
    ("torch", "2.13.0", "exporting models"),
    ("executorch", "1.5.1", "writing and running .pte files"),
    ("torchao", "0.18.0", "quantization"),
    ("numpy", "2.4.6", "data in and out"),
    ("rich", "15.0.0", "the progress display"),
    ("pyelftools", "0.33", "reading firmware images"),
)


@dataclass(frozen=True)
class Item:
    """One tool or package."""

    name: str
    found: bool
    version: str | None
    needed_for: str
    fix: str
    optional: bool = False


def check() -> list[Item]:
    return [*(_package(*entry) for entry in PACKAGES), *(_tool(status) for status in toolchain.status())]


def _package(name: str, pinned: str, needed_for: str) -> Item:
    try:
        version: str | None = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        version = None
    return Item(name, version is not None, version, needed_for, f"pip install {name}=={pinned}")


def _tool(status: toolchain.ToolStatus) -> Item:
    info = status.tool.value
    fix = f"apt-get install {info.packages}"
    return Item(info.command, status.found, status.version, info.needed_for, fix, info.optional)
