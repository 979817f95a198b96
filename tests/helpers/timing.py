"""Pieces of assembly as the models of timing see them."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

from cortado.base.target import Compiler, CortexM, CortexMTargetConfig
from cortado.run import toolchain
from cortado.run.stack import disassemble
from cortado.run.toolchain import Tool
from cortado.timing.cycles import NONE, Cycles
from cortado.timing.instructions import Instruction
from cortado.timing.models import MODELS


def assembled(folder: Path, cpu: CortexM, text: str) -> list[Instruction]:
    """Statements, with ; between them, as instructions of a function of their own."""
    body = "\n".join(statement.strip() for statement in text.split(";"))
    source = folder / f"{cpu.value}-{abs(hash(text))}.S"
    source.write_text(
        f".syntax unified\n.thumb\n.section .text\n.type one, %function\none:\n{body}\n.size one, . - one\n"
    )
    flags = CortexMTargetConfig(cpu).compiler_flags(Compiler.GCC)
    output = source.with_suffix(".o")
    subprocess.run([toolchain.require(Tool.ARM_GCC), *flags, "-c", source, "-o", output], check=True)
    code = disassemble(output, cpu)
    return [code[address] for address in sorted(code)]


def cycles(folder: Path, cpu: CortexM, text: str, before: Sequence[Instruction] = ()) -> Cycles:
    """What a piece of code takes behind another one, jumps not taken."""
    return sum(MODELS[cpu].block(before, False, assembled(folder, cpu, text)), NONE)


def taken(folder: Path, cpu: CortexM, text: str) -> Cycles:
    """What a piece of code takes that ends with a jump, taken."""
    instructions = assembled(folder, cpu, text)
    return sum(MODELS[cpu].block((), False, instructions), NONE) + MODELS[cpu].jump(instructions[-1])
