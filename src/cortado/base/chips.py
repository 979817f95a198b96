"""Chips and boards: core, clock, memories, and the document that they are taken from.

Also their memory maps, and why code can't run from the flash of some: for loading firmware.
"""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass

from cortado.base.errors import CortadoError
from cortado.base.target import CortexM, CortexMTargetConfig

# ---- chips -----------------------------------------------------------------------------------------------

KB = 1024


@dataclass(frozen=True)
class Bank:
    """A contiguous piece of RAM: an arena lies within one. Adjacent banks without a gap count as one."""

    name: str
    kilobytes: int

    @property
    def bytes(self) -> int:
        return self.kilobytes * KB


@dataclass(frozen=True)
class Chip:
    """A part, or a board with one, with the figures of its maker. The clock is the highest that is allowed."""

    name: str
    title: str
    cpu: CortexM
    megahertz: int
    banks: tuple[Bank, ...]  # the largest first
    flash_kilobytes: int | None  # None: code is in external memory, whose size depends on the board
    source: str

    @property
    def target(self) -> CortexMTargetConfig:
        return CortexMTargetConfig(self.cpu)

    def require(self, target: CortexMTargetConfig) -> None:
        """Raises unless the target is this chip's core; it may use fewer of the core's instructions."""
        if target.cpu is not self.cpu:
            raise CortadoError(
                f"{self.name} has a {self.cpu.value}, the target is {target.target_string}; leave one of the two out"
            )

    @property
    def ram_bytes(self) -> int:
        """The largest arena that fits."""
        return self.banks[0].bytes

    @property
    def flash_bytes(self) -> int | None:
        return None if self.flash_kilobytes is None else self.flash_kilobytes * KB


def _chip(
    name: str, title: str, cpu: CortexM, megahertz: int, ram: str, flash_kilobytes: int | None, source: str
) -> Chip:
    """Builds a chip. `ram`: banks as in "AXI 512, DTCM 128", in kilobytes."""
    pairs = [bank.strip().rsplit(" ", 1) for bank in ram.split(",")]
    banks = tuple(sorted((Bank(label, int(size)) for label, size in pairs), key=lambda bank: -bank.kilobytes))
    return Chip(name, title, cpu, megahertz, banks, flash_kilobytes, source)


_M0, _M0P, _M3, _M4, _M7 = CortexM.M0, CortexM.M0PLUS, CortexM.M3, CortexM.M4, CortexM.M7
_M33, _M55, _M85 = CortexM.M33, CortexM.M55, CortexM.M85
_H7_RAM = "AXI 512, SRAM1-3 288, DTCM 128, ITCM 64, SRAM4 64"

_CHIPS = (
    # STMicroelectronics. Flash is that of the largest part of the line, as in STM32F446xE.
    _chip("stm32f103", "STM32F103xB", _M3, 72, "SRAM 20", 128, "ST DS5319"),
    _chip("stm32f401", "STM32F401xE", _M4, 84, "SRAM 96", 512, "ST DS10086"),
    _chip("stm32f405", "STM32F405xG", _M4, 168, "SRAM1-2 128, CCM 64", 1024, "ST DS8626"),
    _chip("stm32f407", "STM32F407xG", _M4, 168, "SRAM1-2 128, CCM 64", 1024, "ST DS8626"),
    _chip("stm32f411", "STM32F411xE", _M4, 100, "SRAM 128", 512, "ST DS10314"),
    _chip("stm32f429", "STM32F429xI", _M4, 180, "SRAM1-3 192, CCM 64", 2048, "ST DS9405"),
    _chip("stm32f446", "STM32F446xE", _M4, 180, "SRAM1-2 128", 512, "ST DS10693"),
    _chip("stm32f746", "STM32F746xG", _M7, 216, "DTCM and SRAM1-2 320, ITCM 16", 1024, "ST DS10916"),
    _chip("stm32f767", "STM32F767xI", _M7, 216, "DTCM and SRAM1-2 512, ITCM 16", 2048, "ST DS11532"),
    _chip("stm32g071", "STM32G071xB", _M0P, 64, "SRAM 36", 128, "ST DS12232"),
    _chip("stm32g0b1", "STM32G0B1xE", _M0P, 64, "SRAM 144", 512, "ST DS13560"),
    _chip("stm32g474", "STM32G474xE", _M4, 170, "SRAM1-2 96, CCM 32", 512, "ST DS12288"),
    _chip("stm32h563", "STM32H563xI", _M33, 250, "SRAM1-3 640", 2048, "ST DS14258"),
    _chip("stm32h743", "STM32H743xI", _M7, 480, _H7_RAM, 2048, "ST DS12110"),
    _chip("stm32h747", "STM32H747xI, its Cortex-M7", _M7, 480, _H7_RAM, 2048, "ST DS12930"),
    _chip("stm32l476", "STM32L476xG", _M4, 80, "SRAM1 96, SRAM2 32", 1024, "ST DS10198"),
    _chip("stm32l4r5", "STM32L4R5xI", _M4, 120, "SRAM1-3 640", 2048, "ST DS12023"),
    _chip("stm32l552", "STM32L552xE", _M33, 110, "SRAM1-2 256", 512, "ST DS12737"),
    _chip("stm32n657", "STM32N657x0", _M55, 800, "AXISRAM1-6 and others 4224", None, "ST DS14791"),
    _chip("stm32u575", "STM32U575xI", _M33, 160, "SRAM1-3 768, SRAM4 16", 2048, "ST DS13737"),
    _chip("stm32u5a5", "STM32U5A5xJ", _M33, 160, "SRAM1-3 and 5 2496, SRAM4 16", 4096, "ST DS13543"),
    _chip("stm32wb55", "STM32WB55xG, its Cortex-M4", _M4, 64, "SRAM1 192, SRAM2 64", 1024, "ST DS11929"),
    # Nordic Semiconductor
    _chip("nrf51822", "nRF51822-QFAA", _M0, 16, "RAM 16", 256, "Nordic nRF51822 Product Specification"),
    _chip("nrf52832", "nRF52832-QFAA", _M4, 64, "RAM 64", 512, "Nordic nRF52832 Product Specification"),
    _chip("nrf52833", "nRF52833", _M4, 64, "RAM 128", 512, "Nordic nRF52833 Product Specification"),
    _chip("nrf52840", "nRF52840", _M4, 64, "RAM 256", 1024, "Nordic nRF52840 Product Specification"),
    _chip(
        "nrf5340", "nRF5340, its application core", _M33, 128, "RAM 512", 1024, "Nordic nRF5340 Product Specification"
    ),
    _chip("nrf54l15", "nRF54L15", _M33, 128, "RAM 256", 1524, "Nordic nRF54L15 Datasheet"),
    # Raspberry Pi
    _chip("rp2040", "RP2040", _M0P, 133, "SRAM0-5 264", None, "Raspberry Pi RP2040 Datasheet"),
    _chip("rp2350", "RP2350, its Arm cores", _M33, 150, "SRAM0-9 520", None, "Raspberry Pi RP2350 Datasheet"),
    # Microchip
    _chip("sam3x8e", "SAM3X8E", _M3, 84, "SRAM0-1 96", 512, "Microchip Atmel-11057"),
    _chip("samd21g18", "SAMD21G18A", _M0P, 48, "SRAM 32", 256, "Microchip DS40001882"),
    _chip("samd51j19", "SAMD51J19A", _M4, 120, "SRAM 192", 512, "Microchip DS60001507"),
    _chip("samd51p20", "SAMD51P20A", _M4, 120, "SRAM 256", 1024, "Microchip DS60001507"),
    # NXP
    _chip("lpc55s69", "LPC55S69", _M33, 150, "SRAM0-4 272, SRAMX 32, USB 16", 630, "NXP LPC55S6x Product data sheet"),
    _chip("mimxrt1062", "i.MX RT1062", _M7, 600, "FlexRAM 512, OCRAM2 512", None, "NXP IMXRT1060CEC"),
    # Ambiq; the highest clocks are those of its burst modes
    _chip("apollo3", "Apollo3 Blue", _M4, 96, "TCM and SRAM 384", 1024, "Ambiq Apollo3 Blue SoC Datasheet"),
    _chip("apollo4p", "Apollo4 Plus", _M4, 192, "TCM and SRAM 2816", 2048, "Ambiq Apollo4 Plus SoC Datasheet"),
    _chip("apollo510", "Apollo510", _M55, 250, "SSRAM 3072, DTCM 512, ITCM 256", 4096, "Ambiq Apollo510 SoC Datasheet"),
    # Alif Semiconductor
    _chip(
        "alif-e7-hp",
        "Ensemble E7, its high-performance Cortex-M55",
        _M55,
        400,
        "SRAM0 4096, SRAM1 2560, DTCM 1024, ITCM 256",
        5632,
        "Alif Ensemble E7 Datasheet, AWPR0003",
    ),
    _chip(
        "alif-e7-he",
        "Ensemble E7, its high-efficiency Cortex-M55",
        _M55,
        160,
        "SRAM0 4096, SRAM1 2560, DTCM 256, ITCM 256",
        5632,
        "Alif Ensemble E7 Datasheet, AWPR0003",
    ),
    # Renesas
    _chip("ra4m1", "RA4M1", _M4, 48, "SRAM0 32", 256, "Renesas R01DS0355"),
    _chip("ra6m5", "RA6M5", _M33, 200, "SRAM0 512", 2048, "Renesas R01DS0366"),
    _chip("ra8d1", "RA8D1", _M85, 480, "SRAM 896, DTCM 64, ITCM 64", 2016, "Renesas RA8D1 Group Datasheet"),
    # Boards
    _chip("microbit", "BBC micro:bit v1 (nRF51822)", _M0, 16, "RAM 16", 256, "micro:bit Hardware: 1.x"),
    _chip("microbit-v2", "BBC micro:bit v2 (nRF52833)", _M4, 64, "RAM 128", 512, "micro:bit Hardware: 2.x"),
    _chip("arduino-due", "Arduino Due (SAM3X8E)", _M3, 84, "SRAM0-1 96", 512, "Arduino A000062 product page"),
    _chip("arduino-zero", "Arduino Zero (SAMD21G18A)", _M0P, 48, "SRAM 32", 256, "Arduino ABX00003 product page"),
    _chip(
        "arduino-nano-33-ble", "Arduino Nano 33 BLE (nRF52840)", _M4, 64, "RAM 256", 1024, "Arduino ABX00030 datasheet"
    ),
    _chip("arduino-uno-r4", "Arduino UNO R4 (RA4M1)", _M4, 48, "SRAM0 32", 256, "Arduino ABX00080 datasheet"),
    _chip(
        "arduino-portenta-h7", "Arduino Portenta H7 (STM32H747)", _M7, 480, _H7_RAM, 2048, "Arduino ABX00042 datasheet"
    ),
    _chip("pico", "Raspberry Pi Pico (RP2040)", _M0P, 133, "SRAM0-5 264", 2048, "Raspberry Pi Pico Datasheet"),
    _chip("pico2", "Raspberry Pi Pico 2 (RP2350)", _M33, 150, "SRAM0-9 520", 4096, "Raspberry Pi Pico 2 Datasheet"),
    _chip("teensy41", "Teensy 4.1 (i.MX RT1062)", _M7, 600, "FlexRAM 512, OCRAM2 512", 7936, "PJRC Teensy 4.1 page"),
)
CHIPS: Mapping[str, Chip] = {chip.name: chip for chip in _CHIPS}


def find_chip(name: str) -> Chip:
    """Finds a chip by its name; part numbers such as STM32L4R5ZI stand for the line that they belong to."""
    wanted = name.strip().lower().replace("_", "-").replace(" ", "-")
    if wanted in CHIPS:
        return CHIPS[wanted]
    lines = [chip for chip in _CHIPS if wanted.startswith(chip.name)]
    if lines and not wanted.removeprefix(lines[0].name).startswith("-"):
        return lines[0]
    near = difflib.get_close_matches(wanted, CHIPS, n=4, cutoff=0.4)
    which = f"nearest: {', '.join(near)}; " if near else ""
    raise CortadoError(
        f"unknown chip '{name}'; {which}`cortado chips` lists them. For any other part name its core with --target and "
        "its memories with --ram-budget and --flash-budget"
    )


@dataclass(frozen=True)
class BankRow:
    """A bank of RAM in `cortado chips --json`."""

    name: str
    bytes: int


@dataclass(frozen=True)
class ChipRow:
    """One line of `cortado chips`."""

    chip: str
    title: str
    target: str
    isa: str
    clock_hz: int
    ram_bytes: int  # of the largest bank
    banks: tuple[BankRow, ...]
    flash_bytes: int | None
    source: str


def table() -> tuple[ChipRow, ...]:
    return tuple(_row(chip) for chip in _CHIPS)


def _row(chip: Chip) -> ChipRow:
    return ChipRow(
        chip=chip.name,
        title=chip.title,
        target=chip.target.target_string,
        isa=chip.target.isas[0].name,
        clock_hz=chip.megahertz * 1_000_000,
        ram_bytes=chip.ram_bytes,
        banks=tuple(BankRow(bank.name, bank.bytes) for bank in chip.banks),
        flash_bytes=chip.flash_bytes,
        source=chip.source,
    )


# ---- chip memory -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ChipMemory:
    """The addresses of flash and of the largest bank of RAM. `ram_only`: why code can be loaded into RAM only.
    `writes`: registers to be set before anything runs."""

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
    """Returns the memories of a chip of the table; the user has to give addresses that are not in it."""
    found = _MEMORIES.get(chip.name)
    if found is None:
        raise CortadoError(
            f"the addresses of {chip.name}'s memories are not known here: give them, as in "
            "--flash 0x08000000:1M --ram 0x20000000:128K, or --load ram with --ram alone"
        )
    return found
