"""Chips by name: what they have, what they set, and names that are none."""

import re
from dataclasses import replace

import pytest

from cortado.base.chips import CHIPS, KB, find_chip, table
from cortado.base.errors import CortadoError
from cortado.base.target import CortexM, from_target_string
from cortado.options import DEFAULTS, Options

# What these parts are known for, written down once more from their makers' pages.
KNOWN = {
    "stm32l4r5": (CortexM.M4, 120, 640, 2048),
    "stm32f407": (CortexM.M4, 168, 128, 1024),
    "stm32h743": (CortexM.M7, 480, 512, 2048),
    "nrf52840": (CortexM.M4, 64, 256, 1024),
    "nrf5340": (CortexM.M33, 128, 512, 1024),
    "rp2040": (CortexM.M0PLUS, 133, 264, None),
    "rp2350": (CortexM.M33, 150, 520, None),
    "ra8d1": (CortexM.M85, 480, 896, 2016),
    "stm32n657": (CortexM.M55, 800, 4224, None),
    "microbit": (CortexM.M0, 16, 16, 256),
}


@pytest.mark.parametrize("name", KNOWN)
def test_well_known_parts(name: str) -> None:
    chip = find_chip(name)
    cpu, megahertz, ram, flash = KNOWN[name]
    assert (chip.cpu, chip.megahertz, chip.ram_bytes) == (cpu, megahertz, ram * KB)
    assert chip.flash_bytes == (None if flash is None else flash * KB)


def test_every_row_is_whole() -> None:
    assert len(CHIPS) >= 40
    for name, chip in CHIPS.items():
        assert re.fullmatch("[a-z0-9]+(-[a-z0-9]+)*", name)
        assert [bank.kilobytes for bank in chip.banks] == sorted((b.kilobytes for b in chip.banks), reverse=True)
        assert all(bank.kilobytes > 0 for bank in chip.banks)
        assert chip.source
        assert 16 <= chip.megahertz <= 1000
    assert len({chip.title for chip in CHIPS.values()}) == len(CHIPS)


def test_boards_have_what_their_chips_have() -> None:
    pairs = {"microbit": "nrf51822", "microbit-v2": "nrf52833", "arduino-nano-33-ble": "nrf52840", "pico": "rp2040"}
    pairs |= {"arduino-zero": "samd21g18", "arduino-due": "sam3x8e", "arduino-uno-r4": "ra4m1", "pico2": "rp2350"}
    pairs |= {"arduino-portenta-h7": "stm32h747", "teensy41": "mimxrt1062"}
    for board, chip in pairs.items():
        assert replace(find_chip(board), name="", title="", source="", flash_kilobytes=None) == replace(
            find_chip(chip), name="", title="", source="", flash_kilobytes=None
        )


@pytest.mark.parametrize("name", ["STM32L4R5ZI", "stm32l4r5zit6", " stm32l4r5", "Stm32L4R5"])
def test_a_part_number_is_its_line(name: str) -> None:
    assert find_chip(name).name == "stm32l4r5"


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("stm32l4r6", "stm32l4r5"),
        ("nrf52480", "nrf52840"),
        ("pico-w", "pico"),
        ("arduino-nano-33", "arduino-nano-33-b"),
    ],
)
def test_an_unknown_chip_is_refused_with_its_neighbours(name: str, near: str) -> None:
    with pytest.raises(CortadoError, match=rf"unknown chip '{name}'; nearest: .*\b{near}.*`cortado chips` lists them"):
        find_chip(name)


def test_nothing_near() -> None:
    with pytest.raises(CortadoError, match="unknown chip 'zzzzzz'; `cortado chips` lists them"):
        find_chip("zzzzzz")


def test_a_chip_takes_its_own_core_with_any_of_its_instruction_sets() -> None:
    chip = find_chip("stm32l4r5")
    chip.require(from_target_string("cortex-m4"))
    chip.require(from_target_string("cortex-m4+nodsp"))
    for other in ("cortex-m55", "cortex-m"):
        with pytest.raises(CortadoError, match=f"stm32l4r5 has a cortex-m4, the target is {other};"):
            chip.require(from_target_string(other))


def test_limits_are_the_budgets_or_else_the_chips() -> None:
    chip = find_chip("rp2040")
    assert (DEFAULTS.ram_limit, DEFAULTS.flash_limit) == (None, None)
    assert (Options(chip=chip).ram_limit, Options(chip=chip).flash_limit) == (264 * KB, None)
    assert (Options(chip=chip, ram_budget=7).ram_limit, Options(flash_budget=9).flash_limit) == (7, 9)
    assert Options(chip="rp2040").chip == chip  # type: ignore[arg-type]


def test_the_table_says_it_in_bytes_and_hertz() -> None:
    row = next(row for row in table() if row.chip == "stm32f407")
    assert (row.target, row.isa, row.clock_hz, row.flash_bytes) == ("cortex-m4", "DSP", 168_000_000, 1 << 20)
    assert [(bank.name, bank.bytes) for bank in row.banks] == [("SRAM1-2", 131_072), ("CCM", 65_536)]
