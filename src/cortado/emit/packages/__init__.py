"""A bundle packaged for a build system that firmware projects use: its manifest, an example, a README."""

from collections.abc import Callable, Mapping

from cortado.emit.packages.arduino import arduino, platformio
from cortado.emit.packages.cmake import cmake, pico
from cortado.emit.packages.cmsis_pack import cmsis_pack
from cortado.emit.packages.content import Content
from cortado.emit.packages.zephyr import zephyr
from cortado.options import PackageKind

_MAKERS: Mapping[PackageKind, Callable[[Content], Mapping[str, str | bytes]]] = {
    PackageKind.ZEPHYR: zephyr,
    PackageKind.ARDUINO: arduino,
    PackageKind.CMSIS_PACK: cmsis_pack,
    PackageKind.PLATFORMIO: platformio,
    PackageKind.PICO: pico,
    PackageKind.CMAKE: cmake,
}


def package_files(kind: PackageKind, content: Content) -> dict[str, str | bytes]:
    """Returns the files of a package, in a folder with the system's name."""
    return {f"{kind.value}/{name}": data for name, data in _MAKERS[kind](content).items()}
