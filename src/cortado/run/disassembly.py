"""The instructions of a firmware, read back from it."""

from functools import lru_cache
from pathlib import Path

from cortado.base.errors import CortadoError
from cortado.base.target import CortexM
from cortado.run import limited, toolchain
from cortado.run.toolchain import Tool
from cortado.timing.instructions import Instruction, parse

# objdump takes vector instructions for those of a coprocessor unless it is told the architecture.
_ARCHITECTURE = {cpu: "armv8.1-m.main" for cpu in (CortexM.M52, CortexM.M55, CortexM.M85)}


def disassemble(elf: Path, cpu: CortexM) -> dict[int, Instruction]:
    """Every instruction of a firmware for this core, by address."""
    return _disassemble(elf, elf.stat().st_mtime_ns, _ARCHITECTURE.get(cpu))


@lru_cache(maxsize=4)
def _disassemble(elf: Path, mtime_ns: int, architecture: str | None) -> dict[int, Instruction]:
    gcc = toolchain.require(Tool.ARM_GCC)
    objdump = gcc.with_name(gcc.name.removesuffix("gcc") + "objdump")
    machine = [] if architecture is None else ["-m", architecture]
    command: list[str | Path] = [objdump, "-d", *machine, elf]
    done = limited.run(command, limited.COMPILER, doing=f"reading the instructions of {elf.name}")
    if done.code != 0:
        raise CortadoError(f"{objdump.name} can't read {elf.name}: {done.errors.strip()}")
    return parse(done.stdout.decode(errors="replace"))
