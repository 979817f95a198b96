"""Memory maps of chips, and what keeps code from running in their flash: for those who load firmware."""

from collections.abc import Mapping
from dataclasses import dataclass

from cortado.base.chips import CHIPS, Chip
from cortado.base.errors import CortadoError


@dataclass(frozen=True)
class ChipMemory:
    """Addresses of flash and of the largest bank of RAM. `ram_only`: why code is loaded into RAM alone. `writes`:
    registers to be set before anything runs."""

    flash: int | None
    ram: int
    ram_only: str = ""
    writes: tuple[tuple[int, int], ...] = ()


_STM32, _AT_0 = ChipMemory(0x08000000, 0x20000000), ChipMemory(0x00000000, 0x20000000)
_STM32_H7 = ChipMemory(0x08000000, 0x24000000)
_RP = ChipMemory(
    None, 0x20000000, "its flash can be read only after a second stage of the boot loader has set up the interface"
)
_RT = ChipMemory(None, 0x20200000, "its flash needs a header, and an interface that the boot ROM sets up from it")
# The watchdog of the SAM3X runs from reset on; its mode can be written once.
_SAM3X = ChipMemory(0x00080000, 0x20070000, writes=((0x400E1A54, 0x00008000),))

_MEMORIES: Mapping[str, ChipMemory] = {
    **{name: _STM32 for name in CHIPS if name.startswith("stm32") and name != "stm32n657"},
    **dict.fromkeys(("stm32h743", "stm32h747", "arduino-portenta-h7"), _STM32_H7),
    **{name: _AT_0 for name in CHIPS if name.startswith("nrf")},
    **dict.fromkeys(("microbit", "microbit-v2", "arduino-nano-33-ble"), _AT_0),
    **dict.fromkeys(("samd21g18", "samd51j19", "samd51p20", "arduino-zero"), _AT_0),
    **dict.fromkeys(("sam3x8e", "arduino-due"), _SAM3X),
    **dict.fromkeys(("rp2040", "rp2350", "pico", "pico2"), _RP),
    **dict.fromkeys(("mimxrt1062", "teensy41"), _RT),
    **dict.fromkeys(("lpc55s69", "ra4m1", "ra6m5", "arduino-uno-r4"), _AT_0),
    "ra8d1": ChipMemory(0x02000000, 0x22000000),
    "apollo3": ChipMemory(0x0000C000, 0x10000000),
}


def chip_memory(chip: Chip) -> ChipMemory:
    """Returns the memories of a chip of the table; those whose addresses are not in it have to be told."""
    found = _MEMORIES.get(chip.name)
    if found is None:
        raise CortadoError(
            f"the addresses of {chip.name}'s memories are not known here: give them, as in "
            "--flash 0x08000000:1M --ram 0x20000000:128K, or --load ram with --ram alone"
        )
    return found
