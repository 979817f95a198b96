"""A chip, checked before anything is loaded: which core it has, with which instructions, and whether its RAM exists."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from cortado.base.errors import CortadoError
from cortado.base.target import CortexM, CortexMTargetConfig, Isa
from cortado.run.silicon.gdb import Gdb, GdbRefused
from cortado.run.silicon.place import ProbePlace

# Cores by the part number in CPUID.
PARTS: Mapping[int, CortexM] = {
    0xC20: CortexM.M0,
    0xC60: CortexM.M0PLUS,
    0xC23: CortexM.M3,
    0xC24: CortexM.M4,
    0xC27: CortexM.M7,
    0xD20: CortexM.M23,
    0xD21: CortexM.M33,
    0xD31: CortexM.M35P,
    0xD24: CortexM.M52,
    0xD22: CortexM.M55,
    0xD23: CortexM.M85,
}
_SAME_CODE = ({CortexM.M0, CortexM.M0PLUS}, {CortexM.M33, CortexM.M35P})
_MAYBE_DSP = (CortexM.M33, CortexM.M35P)  # all others always have DSP instructions, or never do
# Registers that describe a core's optional features; Armv6-M and Armv8-M Baseline have none of these registers.
_ID_ISAR3, _MVFR0, _MVFR1 = 0xE000ED6C, 0xE000EF40, 0xE000EF44
_NO_OPTIONS = (CortexM.M0, CortexM.M0PLUS, CortexM.M23, CortexM.M3)


@dataclass(frozen=True)
class Features:
    """The optional features of a core."""

    dsp: bool
    fpu: bool
    mve: bool

    @staticmethod
    def read(word: Callable[[int], int]) -> "Features":
        """Reads the SIMD field of ID_ISAR3, single precision in MVFR0, and MVE in MVFR1."""
        return Features(
            dsp=word(_ID_ISAR3) >> 4 & 0xF >= 3, fpu=word(_MVFR0) >> 4 & 0xF > 0, mve=word(_MVFR1) >> 8 & 0xF > 0
        )


def check_core(cpuid: int, target: CortexMTargetConfig, place: str) -> CortexM:
    """Identifies the core, and refuses one that is not the target's, before anything is loaded."""
    found = PARTS.get((cpuid >> 4) & 0xFFF)
    if found is None or cpuid >> 24 not in (0x41, 0x63):
        raise CortadoError(
            f"what answers at {place} is not a known Cortex-M (CPUID {cpuid:#010x}); expected {target.target_string}"
        )
    same = {found}.union(*(group for group in _SAME_CODE if found in group))
    if target.cpu is not CortexM.ANY and target.cpu not in same:
        raise CortadoError(
            f"the chip at {place} has a {found.value} (CPUID {cpuid:#010x}), but the model was compiled for "
            f"{target.target_string}; compile it with --target {found.value}"
        )
    return found


def check_features(word: Callable[[int], int], target: CortexMTargetConfig, core: CortexM, place: str) -> None:
    """Checks that the chip has the features that the target's code uses: otherwise the firmware would fault."""
    built = target if target.cpu is not CortexM.ANY else CortexMTargetConfig(core)
    if core in _NO_OPTIONS:
        return
    found = Features.read(word)
    needs = {
        "DSP instructions": (built.isas[0] is Isa.DSP and core in _MAYBE_DSP, found.dsp, "+nodsp"),
        "vector instructions (MVE)": (built.isas[0] is Isa.MVE, found.mve, "+nomve"),
        "a floating-point unit": (built.fpu is True, found.fpu, "+nofp"),
    }
    missing = {name: without for name, (used, there, without) in needs.items() if used and not there}
    if missing:
        name, without = next(iter(missing.items()))
        raise CortadoError(
            f"the {core.value} at {place} has no {name.removeprefix('a ')}, which {built.target_string} uses; compile "
            f"the model with --target {core.value}{without}"
        )


def check_ram(gdb: Gdb, place: ProbePlace) -> None:
    """Checks that words all over the RAM keep distinct values: beyond a smaller RAM there is nothing, or an alias of
    the same words."""
    start, size = place.ram.origin, place.ram.length
    addresses = [start, *(start + (1 << bit) for bit in range(8, size.bit_length()) if 1 << bit < size - 4)]
    addresses = sorted({*addresses, start + (size - 4) // 4 * 4})
    patterns = {address: (0xC0DE0000 ^ address * 2654435761) & 0xFFFFFFFF for address in addresses}
    try:
        for address, value in patterns.items():
            gdb.write(address, value.to_bytes(4, "little"))
        wrong = next((address for address, value in patterns.items() if gdb.word(address) != value), None)
    except GdbRefused as error:
        raise CortadoError(_no_ram(place, str(error))) from None
    if wrong is not None:
        raise CortadoError(_no_ram(place, f"the word at {wrong:#010x} does not keep what is written to it"))


def _no_ram(place: ProbePlace, why: str) -> str:
    ram = place.ram
    return (
        f"the chip at {place.name} has no RAM of {ram.length:,} bytes at {ram.origin:#010x} ({why}); state what it has "
        "with --chip or --ram ORIGIN:SIZE"
    )
