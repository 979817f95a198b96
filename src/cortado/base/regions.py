"""Memories and sections named by the user: regions of RAM for the arena, and sections for the weights of layers."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cortado.base.chips import Chip
from cortado.base.errors import CortadoError

ByteRange = tuple[int, int]
"""A range of bytes in a memory: the first, and the one after the last."""
AUTO = "auto"
MOST_REGIONS = 8
REGION_NAME = "[a-z][a-z0-9_]*"
DEVICE_MEMORY = "device"  # a suffix of the size of a memory
_UNITS = {"": 1, "K": 1024, "M": 1024 * 1024}
# A region is a member of a structure in C, which can be compiled as C++.
_WORDS_OF_C = (
    "alignas alignof and asm auto bool break case catch char class concept const constexpr continue decltype default "
    "delete do double else enum explicit export extern false float for friend goto if inline int long mutable "
    "namespace new noexcept not nullptr operator or private protected public register requires restrict return short "
    "signed sizeof static struct switch template this throw true try typedef typeid typename union unsigned using "
    "virtual void volatile while xor"
)
_KEYWORDS = frozenset(_WORDS_OF_C.split())
_CLOSE = re.compile("TCM|CCM")  # tightly coupled to the core; other RAM is reached over a bus
_CODE = re.compile("ITCM")  # meant for instructions


@dataclass(frozen=True)
class Region:
    """A memory by name, and its bytes available to the arena. `device`: it is device memory, where an unaligned access
    faults."""

    name: str
    bytes: int
    device: bool = False


@dataclass(frozen=True)
class WeightPlacement:
    """The placement of weights: those of layers whose module's name matches go to a section."""

    pattern: str
    section: str

    def matches(self, module: str) -> bool:
        """Whether the pattern matches the whole name, as in `features.1[0-9].*`."""
        return re.fullmatch(self.pattern, module) is not None


def parse_bytes(text: str) -> int:
    """Reads a size: '262144', '256K', '1M', with or without a B at the end."""
    found = re.fullmatch(r"\s*(\d+)\s*([KM]?)(?:I?B)?\s*", text.upper())
    if found is None:
        raise CortadoError(f"'{text}' is not a size; expected bytes, as in 262144, 256K or 1M")
    return int(found.group(1)) * _UNITS[found.group(2)]


def regions_of(given: object, chip: Chip | None) -> tuple[Region, ...]:
    """Reads memories from 'dtcm=64K,sram=256K:device', from {"dtcm": "64K", "sram": 262144}, or with a chip from
    'auto'."""
    if isinstance(given, str):
        given = _banks(chip) if given.strip() == AUTO else [_pair(part) for part in given.split(",") if part.strip()]
    elif isinstance(given, Mapping):
        given = list(given.items())
    if not isinstance(given, Sequence):
        raise CortadoError(
            f"memory={given!r} does not name memories; expected a text such as 'dtcm=64K,sram=256K', or None"
        )
    regions = tuple(one if isinstance(one, Region) else _region(*one) for one in given)
    names = [region.name for region in regions]
    if not regions or len(regions) > MOST_REGIONS or len(set(names)) < len(names):
        raise CortadoError(
            f"found the memories {', '.join(names) or '(none)'}; expected 1 to {MOST_REGIONS} of different names, the "
            "fastest first, as in dtcm=64K,sram=256K"
        )
    return regions


def _pair(part: str) -> tuple[str, str]:
    name, equals, size = part.partition("=")
    if not equals:
        raise CortadoError(f"'{part.strip()}' is not a memory; expected NAME=BYTES, as in dtcm=64K")
    return name, size


def _region(name: str, size: str | int) -> Region:
    kind = ""
    if isinstance(size, str):
        size, _, kind = size.partition(":")
    number = parse_bytes(size) if isinstance(size, str) else size
    if not isinstance(number, int) or number < 1:
        raise CortadoError(f"the memory {name} has {size} bytes; expected 1 or more")
    if kind.strip() not in ("", DEVICE_MEMORY):
        raise CortadoError(
            f"the memory {name} is marked as '{kind.strip()}'; expected nothing after its size, or "
            f"{name.strip()}={size}:{DEVICE_MEMORY} if it is device memory, where unaligned accesses fault"
        )
    return Region(_checked(name, "a memory"), number, bool(kind))


def _checked(name: str, what: str) -> str:
    lower = name.strip().lower()
    if not re.fullmatch(REGION_NAME, lower) or len(lower) > 30 or lower in _KEYWORDS:
        raise CortadoError(
            f"'{name.strip()}' can't be the name of {what}: it becomes a name in C. Expected at most 30 letters, "
            "digits and underscores, a letter first, and no keyword of C"
        )
    return lower


def _banks(chip: Chip | None) -> list[tuple[str, int]]:
    """Returns a chip's RAM without instruction memory: tightly coupled banks first, then the largest."""
    if chip is None:
        raise CortadoError(
            "--memory auto takes the memories of a chip; name one with --chip, or the memories themselves"
        )
    banks = sorted(
        (bank for bank in chip.banks if not _CODE.search(bank.name)), key=lambda b: not _CLOSE.search(b.name)
    )
    return [(re.sub("[^a-z0-9]+", "_", bank.name.lower()), bank.bytes) for bank in banks[:MOST_REGIONS]]


def places_of(given: object) -> tuple[WeightPlacement, ...]:
    """Reads placements of weights from 'REGEX=SECTION', or a sequence of such texts."""
    texts = (given,) if isinstance(given, str | WeightPlacement) else given
    if not isinstance(texts, Sequence):
        raise CortadoError(f"place={given!r}: expected texts such as 'features.1[0-9].*=external'")
    return tuple(one if isinstance(one, WeightPlacement) else _place(one) for one in texts)


def _place(text: str) -> WeightPlacement:
    pattern, equals, section = text.rpartition("=")
    if not equals or not pattern.strip():
        raise CortadoError(
            f"'{text}' does not place anything; expected REGEX=SECTION, as in 'features.1[0-9].*=external'"
        )
    try:
        re.compile(pattern.strip())
    except re.error as error:
        raise CortadoError(
            f"'{pattern}' is not a regular expression ({error}); expected one that matches names of modules, as in "
            "'features.1[0-9].*=external'"
        ) from None
    return WeightPlacement(pattern.strip(), _checked(section, "a section"))
