"""Versions of the packages that Cortado depends on: the tested ones (docs/versions.md), and the handling of others."""

import importlib.metadata
import re
from dataclasses import dataclass
from enum import Enum
from functools import cache

from cortado.base.errors import CortadoError

Version = tuple[int, ...]


class Verdict(Enum):
    """The relation of a version to the tested ones."""

    OLDER = "older"
    TESTED = "tested"
    NEWER = "newer"


@cache
def installed(name: str) -> str | None:
    """Returns the installed version of a package; None without one. Every compile asks, and the answer is in files."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


@dataclass(frozen=True)
class Package:
    """A Python package: the version that the tests are pinned to, and the range of versions that they also run with."""

    name: str
    pinned: str
    oldest: str
    newest: str
    needed_for: str
    newer_works: bool = True  # whether a newer version is accepted with a warning; False: refused
    extra: str | None = None  # the extra of Cortado's own package that installs it

    @property
    def install(self) -> str:
        return (
            f"pip install {self.name}=={self.pinned}" if self.extra is None else f"pip install 'cortado[{self.extra}]'"
        )

    @property
    def tested(self) -> str:
        return self.oldest if self.oldest == self.newest else f"{self.oldest} to {self.newest}"

    @property
    def found(self) -> str | None:
        """The installed version; None without one."""
        return installed(self.name)

    def verdict(self, version: str) -> Verdict:
        """Compares a version with the bounds, at their precision: for a bound of 2.15, 2.15.1 counts as 2.15."""
        oldest, newest, found = numbers(self.oldest), numbers(self.newest), numbers(version)
        if found[: len(oldest)] < oldest:
            return Verdict.OLDER
        return Verdict.NEWER if found[: len(newest)] > newest else Verdict.TESTED

    def takes(self, version: str) -> bool:
        return self.verdict(version) in ((Verdict.TESTED, Verdict.NEWER) if self.newer_works else (Verdict.TESTED,))


def numbers(version: str) -> Version:
    """Returns the numbers of a version: (2, 13, 0) for 2.13.0+cpu."""
    return tuple(int(part) for part in re.findall(r"\d+", version.split("+")[0])[:3])


LIGHT = "compile"  # the extra of Cortado's own package with what only compiling needs
TORCH = Package("torch", "2.13.0", "2.11", "2.15", "compiling models", extra=LIGHT)
TORCHAO = Package("torchao", "0.18.0", "0.17", "0.18", "compiling models: quantization", extra=LIGHT)
EXECUTORCH = Package(
    "executorch", "1.5.1", "1.5", "1.5", "writing and running .pte files", newer_works=False, extra="executorch"
)
PYTHON = Package("python", "3.11", "3.11", "3.13", "everything")
PACKAGES = (
    TORCH,
    TORCHAO,
    EXECUTORCH,
    Package("numpy", "2.4.6", "2", "2", "data in and out"),
    Package("rich", "15.0.0", "13", "15", "the progress display"),
    Package("shtab", "1.13.0", "1.7", "1.13", "completion for shells"),
    Package("pyelftools", "0.33", "0.31", "0.33", "reading firmware images"),
)


def newer_than_tested() -> str | None:
    """Returns a sentence on packages newer than any tested one, or None; raises for one that is too old."""
    said = []
    for package in (TORCH, TORCHAO):
        version = package.found
        if version is None:
            continue
        verdict = package.verdict(version)
        if verdict is Verdict.OLDER:
            raise CortadoError(
                f"{package.name} {version} is too old: Cortado is tested with {package.tested}. Install a newer one: "
                f"{package.install}"
            )
        if verdict is Verdict.NEWER:
            said.append(f"{package.name} {version} is newer than any that Cortado is tested with ({package.tested})")
    return "; ".join(said) or None
