"""ELF files: sections, functions, symbols."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from elftools.elf.elffile import ELFFile

from cortado.base.errors import CortadoError


@dataclass(frozen=True)
class Symbol:
    """A function or an object in an ELF file; a function's address has its Thumb bit removed."""

    name: str
    address: int
    size: int
    is_function: bool


@dataclass(frozen=True)
class Image:
    """Sections and symbols of an ELF file."""

    path: Path
    symbols: tuple[Symbol, ...]
    functions: tuple[Symbol, ...]  # by address, one for each
    sections: Mapping[str, int]  # bytes in memory

    def find(self, name: str) -> Symbol | None:
        """Returns the symbol of that name, or None. Two local symbols of one name are ambiguous, and an error."""
        found = [symbol for symbol in self.symbols if symbol.name == name]
        if len(found) > 1:
            raise CortadoError(f"{self.path.name} has {len(found)} symbols called {name}: rename all but one")
        return found[0] if found else None

    def require(self, name: str) -> Symbol:
        symbol = self.find(name)
        if symbol is None:
            raise CortadoError(f"{self.path.name} has no symbol {name}: is it defined, and used so that it is linked?")
        return symbol

    def function_at(self, pc: int) -> str:
        """Returns the name of the function that contains an instruction."""
        symbol = self._function(pc)
        return symbol.name if symbol else f"{pc:#010x}"

    def place(self, pc: int) -> str:
        """Formats an address as function+offset, for messages."""
        symbol = self._function(pc)
        return f"{symbol.name}+{pc - symbol.address:#x}" if symbol else f"{pc:#010x}"

    def _function(self, pc: int) -> Symbol | None:
        # Chosen by the nearest start below: assembly functions of the C library have no size.
        index = bisect_right(self.functions, pc, key=lambda symbol: symbol.address) - 1
        return self.functions[index] if index >= 0 else None


def load_image(path: Path) -> Image:
    """Returns the symbols and section sizes of an ELF file."""
    stat = path.stat()
    return _load_image(path, stat.st_mtime_ns, stat.st_size)


@lru_cache(maxsize=32)
def _load_image(path: Path, mtime_ns: int, size: int) -> Image:
    with path.open("rb") as file:
        elf = ELFFile(file)
        table = elf.get_section_by_name(".symtab")
        symbols = [] if table is None else [_symbol(entry) for entry in table.iter_symbols()]
        sections = {
            section.name: int(section["sh_size"])
            for section in elf.iter_sections()
            if section["sh_flags"] & 2  # SHF_ALLOC
        }
    kept = tuple(symbol for symbol in symbols if symbol is not None)
    return Image(path, kept, _functions(kept), sections)


def _functions(symbols: Sequence[Symbol]) -> tuple[Symbol, ...]:
    """Returns one function per address; of two aliases, the one without leading underscores (memcpy, not __memcpy)."""
    by_address: dict[int, Symbol] = {}
    for symbol in sorted(symbols, key=lambda symbol: (symbol.name.startswith("_"), symbol.name)):
        if symbol.is_function:
            by_address.setdefault(symbol.address, symbol)
    return tuple(by_address[address] for address in sorted(by_address))


def _symbol(entry: Any) -> Symbol | None:  # pyelftools has no types
    kind = entry["st_info"]["type"]
    if kind not in ("STT_FUNC", "STT_OBJECT", "STT_NOTYPE") or not entry.name or entry.name.startswith("$"):
        return None
    is_function = kind == "STT_FUNC"
    address = int(entry["st_value"])
    return Symbol(str(entry.name), address & ~1 if is_function else address, int(entry["st_size"]), is_function)
