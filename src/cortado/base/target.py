"""The Cortex-M cores Cortado compiles for: instruction sets, target strings, compiler flags, emulated boards."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from types import ModuleType
from typing import Any

from cortado.base.errors import CortadoError

# No contraction of float multiply and add, so that the float borders are exact. No vectorizer: gcc 12 miscompiles some
# MVE loops, and loops worth it are vectorized by hand. ALIGNED_ONLY: all loads and stores are aligned.
ALIGNED_ONLY = ("-DCORTADO_ALIGNED_ONLY", "-mno-unaligned-access")
BUNDLE_FLAGS = ("-O2", "-fno-tree-vectorize", "-ffp-contract=off", "-ffunction-sections", "-fdata-sections")
# For WebAssembly, where clang's vectorizer is correct.
WASM_FLAGS = ("-O2", "-ffp-contract=off", "-ffunction-sections", "-fdata-sections")


class CortexM(Enum):
    """A core; the value is its target string. ANY means one artifact that is correct on all of them."""

    M0 = "cortex-m0"
    M0PLUS = "cortex-m0plus"
    M3 = "cortex-m3"
    M4 = "cortex-m4"
    M7 = "cortex-m7"
    M23 = "cortex-m23"
    M33 = "cortex-m33"
    M35P = "cortex-m35p"
    M52 = "cortex-m52"
    M55 = "cortex-m55"
    M85 = "cortex-m85"
    ANY = "cortex-m"


class Isa(IntEnum):
    """Instruction set levels for kernels; each contains the ones before it."""

    SCALAR = 0
    DSP = 1
    MVE = 2


class Core(IntEnum):
    """The kinds of core that kernels are written for: by instruction set, and within SCALAR by whether there is a long
    multiply."""

    SMALL = 0  # Armv6-M, Armv8-M Baseline
    LONG = 1  # Armv7-M, Armv8-M Mainline without DSP
    DSP = 2
    MVE = 3
    PORTABLE = 4  # any machine with a C compiler, such as this one


class Compiler(Enum):
    """The C compilers a bundle is built and tested with."""

    GCC = "gcc"
    CLANG = "clang"


class Machine(Enum):
    """An emulated board; the value is QEMU's name for it."""

    MPS2_AN385 = "mps2-an385"
    MPS2_AN386 = "mps2-an386"
    MPS2_AN500 = "mps2-an500"
    MPS2_AN505 = "mps2-an505"
    MPS3_AN547 = "mps3-an547"
    MICROBIT = "microbit"


@dataclass(frozen=True)
class _Core:
    """Facts about one core. `march` maps each ISA level to the -march (and float ABI) flags for it."""

    machine: Machine
    march: Mapping[Isa, str]
    floats: Mapping[Isa, tuple[str, ...]] = field(default_factory=dict)

    @property
    def default(self) -> Isa:
        return max(self.march)

    def has_fpu(self, isa: Isa) -> bool:
        """Whether code for an instruction set uses a float unit."""
        return self.floats.get(isa, _SOFT) != _SOFT

    def flags(self, isa: Isa, *, fpu: bool) -> tuple[str, ...]:
        """Returns the flags for architecture and float ABI. (Integer vectors use the float unit's registers even
        without one.)"""
        march = self.march[isa]
        if fpu or not self.has_fpu(isa):
            return (f"-march={march}", "-mthumb", *self.floats.get(isa, _SOFT))
        march = march.replace("mve.fp", "mve").removesuffix("+fp.dp")
        return (f"-march={march}", "-mthumb", *(_HARD if isa is Isa.MVE else _SOFT))


_SOFT = ("-mfloat-abi=soft",)
_HARD_SP16 = ("-mfpu=fpv4-sp-d16", "-mfloat-abi=hard")
_HARD_DP16 = ("-mfpu=fpv5-d16", "-mfloat-abi=hard")
_HARD_SP5 = ("-mfpu=fpv5-sp-d16", "-mfloat-abi=hard")
_HARD = ("-mfloat-abi=hard",)

# With an MVE core, "no MVE" still leaves DSP and the scalar FPU; "no DSP" leaves only what SCALAR needs.
_V81M = {
    Isa.SCALAR: "armv8.1-m.main",
    Isa.DSP: "armv8.1-m.main+dsp+fp.dp",
    Isa.MVE: "armv8.1-m.main+mve.fp+fp.dp",
}
_V81M_FLOATS = {Isa.SCALAR: _SOFT, Isa.DSP: _HARD, Isa.MVE: _HARD}
_V8M = {Isa.SCALAR: "armv8-m.main", Isa.DSP: "armv8-m.main+dsp"}
_V7EM = {Isa.SCALAR: "armv7-m", Isa.DSP: "armv7e-m"}

_CORES: dict[CortexM, _Core] = {
    CortexM.M0: _Core(Machine.MPS2_AN385, {Isa.SCALAR: "armv6-m"}),
    CortexM.M0PLUS: _Core(Machine.MPS2_AN385, {Isa.SCALAR: "armv6-m"}),
    CortexM.M3: _Core(Machine.MPS2_AN385, {Isa.SCALAR: "armv7-m"}),
    CortexM.M4: _Core(Machine.MPS2_AN386, _V7EM, {Isa.DSP: _HARD_SP16}),
    CortexM.M7: _Core(Machine.MPS2_AN500, _V7EM, {Isa.DSP: _HARD_DP16}),
    CortexM.M23: _Core(Machine.MPS2_AN505, {Isa.SCALAR: "armv8-m.base"}),
    CortexM.M33: _Core(Machine.MPS2_AN505, _V8M, {Isa.DSP: _HARD_SP5}),
    CortexM.M35P: _Core(Machine.MPS2_AN505, _V8M, {Isa.DSP: _HARD_SP5}),
    CortexM.M52: _Core(Machine.MPS3_AN547, _V81M, _V81M_FLOATS),
    CortexM.M55: _Core(Machine.MPS3_AN547, _V81M, _V81M_FLOATS),
    CortexM.M85: _Core(Machine.MPS3_AN547, _V81M, _V81M_FLOATS),
}

_OVERRIDES = {"nomve": Isa.DSP, "nodsp": Isa.SCALAR}
_NO_FPU = "nofp"


def _binding() -> ModuleType:
    """Imports the native binding that knows CMSIS-NN's sizes; late, because it costs a second."""
    from executorch.backends.cortex_m.library import cmsis_nn

    binding: ModuleType = cmsis_nn
    return binding


def _default_backend(cpu: CortexM) -> Any:
    """Returns the binding's backend for a core; the binding is the single source of truth, except for M52 (Armv8.1-M
    with MVE), which it doesn't list."""
    binding = _binding()
    if cpu is CortexM.M52:
        return binding.Backend.MVE
    return binding.resolve_backend(getattr(binding.CortexM, cpu.name))


@dataclass(frozen=True)
class CortexMTargetConfig:
    """A target: a core and the instruction set that its kernels can use (the core's default unless overridden).

    If omitted, `isa` is filled in, and so is `fpu`, whether there are float instructions; both stay None only for ANY.
    """

    cpu: CortexM
    isa: Isa | None = None
    fpu: bool | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.cpu, CortexM):
            raise CortadoError(f"cpu must be a CortexM, found {self.cpu!r}; for a string use from_target_string")
        if self.isa is None and self.cpu is not CortexM.ANY:
            object.__setattr__(self, "isa", _CORES[self.cpu].default)
        if self.isa is not None and not isinstance(self.isa, Isa):
            raise CortadoError(f"isa must be an Isa or None, found {self.isa!r}")
        if self.isa is not None and self.isa not in self.supported:
            names = ", ".join(isa.name for isa in self.supported) or "none (it stands for all of them)"
            raise CortadoError(f"{self.isa.name} is not supported on {self.cpu.value}; supported: {names}")
        has_fpu = self.isa is not None and _CORES[self.cpu].has_fpu(self.isa)
        if self.fpu and not has_fpu:
            raise CortadoError(f"{self.target_string} has no float unit")
        if self.fpu is None and self.isa is not None:
            object.__setattr__(self, "fpu", has_fpu)

    @property
    def supported(self) -> tuple[Isa, ...]:
        """The instruction sets that this core can have, the default last."""
        return () if self.cpu is CortexM.ANY else tuple(sorted(_CORES[self.cpu].march))

    @property
    def isas(self) -> tuple[Isa, ...]:
        """The instruction sets on which an artifact for this target must be correct: one, or all three for ANY."""
        return tuple(Isa) if self.isa is None else (self.isa,)

    @property
    def cores(self) -> tuple[Core, ...]:
        """The kinds of kernels that an artifact for this target needs: one, or all of them for ANY."""
        if self.isa is None:
            return (Core.SMALL, Core.LONG, Core.DSP, Core.MVE)
        if self.isa is not Isa.SCALAR:
            return (Core.MVE if self.isa is Isa.MVE else Core.DSP,)
        small = _CORES[self.cpu].march[Isa.SCALAR] in ("armv6-m", "armv8-m.base")
        return (Core.SMALL if small else Core.LONG,)

    @property
    def backends(self) -> tuple[Any, ...]:
        """CMSIS-NN's names of `isas`, for its scratch sizes."""
        if self.cpu is not CortexM.ANY and self.isa is _CORES[self.cpu].default:
            return (_default_backend(self.cpu),)
        return tuple(getattr(_binding().Backend, isa.name) for isa in self.isas)

    @property
    def backend(self) -> Any:
        """CMSIS-NN's backend for a single target; ANY has three, so asking it for one is an error."""
        if self.cpu is CortexM.ANY:
            raise CortadoError("cortex-m stands for SCALAR, DSP and MVE at once: it has `backends`, not one `backend`")
        return self.backends[0]

    @property
    def target_string(self) -> str:
        if self.isa is None:
            return self.cpu.value
        core = _CORES[self.cpu]
        left_out = [name for name, isa in _OVERRIDES.items() if isa is self.isa and isa is not core.default]
        without = [_NO_FPU] if self.fpu is False and core.has_fpu(self.isa) else []
        return "+".join([self.cpu.value, *left_out, *without])

    @property
    def machine(self) -> Machine:
        """The emulated board for this core; ANY's artifact runs on each, the M4's is its default."""
        return Machine.MPS2_AN386 if self.cpu is CortexM.ANY else _CORES[self.cpu].machine

    def compiler_flags(self, compiler: Compiler = Compiler.GCC) -> tuple[str, ...]:
        """Returns the flags for architecture and float ABI. ANY has none: its bundle is compiled for the core it will
        run on."""
        if self.cpu is CortexM.ANY:
            raise CortadoError("cortex-m has no compiler flags of its own: name the core the bundle is compiled for")
        flags = _CORES[self.cpu].flags(self.isas[0], fpu=bool(self.fpu))
        return flags if compiler is Compiler.GCC else ("--target=arm-none-eabi", *flags)


ANY = CortexMTargetConfig(CortexM.ANY)
# A target for each kind of kernels in an artifact for any core (see `cores`).
ONE_OF_EACH = tuple(CortexMTargetConfig(cpu) for cpu in (CortexM.M0PLUS, CortexM.M3, CortexM.M4, CortexM.M55))


def _parse_override(text: str, cpu: CortexM, suffix: str) -> Isa:
    if suffix == "int8":
        raise CortadoError(
            f"'{text}': a target names a core, and +int8 is not an attribute of a core; write '{cpu.value}' (Cortado "
            "always quantizes to int8)"
        )
    if suffix not in _OVERRIDES:
        known = ", ".join("+" + name for name in (*_OVERRIDES, _NO_FPU))
        raise CortadoError(f"'{text}': unknown extension '+{suffix}'; known: {known}")
    isa = _OVERRIDES[suffix]
    removed = Isa(isa + 1)
    if cpu is CortexM.ANY or removed not in _CORES[cpu].march:
        has = "every instruction set" if cpu is CortexM.ANY else ", ".join(i.name for i in sorted(_CORES[cpu].march))
        raise CortadoError(f"'{text}': {cpu.value} has no {removed.name} to leave out; supported: {has}")
    return isa


def from_target_string(text: str) -> CortexMTargetConfig:
    """Reads a target string: 'cortex-m55', 'cortex-m55+nomve', 'cortex-m' (any core): the inverse of
    `target_string`."""
    name, *suffixes = text.strip().lower().split("+")
    name = {"cortex-m0+": "cortex-m0plus", "any": "cortex-m"}.get(name, name)
    if name == "cortex-m0" and suffixes[:1] == [""]:  # "cortex-m0+"
        name, suffixes = "cortex-m0plus", suffixes[1:]
    try:
        cpu = CortexM(name)
    except ValueError:
        known = ", ".join(c.value for c in CortexM)
        raise CortadoError(
            f"unknown target '{text}'; known targets: {known}. A chip is named with --chip (`cortado chips` lists them)"
        ) from None
    if not suffixes:
        return CortexMTargetConfig(cpu)
    isas = [_parse_override(text, cpu, suffix) for suffix in suffixes if suffix != _NO_FPU]
    target = CortexMTargetConfig(cpu, min(isas, default=None))
    if _NO_FPU not in suffixes:
        return target
    if not target.fpu:
        raise CortadoError(
            f"'{text}': {target.target_string} has no float unit to leave out; write '{target.target_string}'"
        )
    return CortexMTargetConfig(cpu, target.isa, fpu=False)


@dataclass(frozen=True)
class TargetRow:
    """One line of `cortado targets`."""

    target: str
    isa: str
    supported: tuple[str, ...]
    board: str
    flags: str


def table() -> tuple[TargetRow, ...]:
    """Lists every target, for people and for --json; fast, as it needs no binding."""
    rows = []
    for cpu, core in _CORES.items():
        config = CortexMTargetConfig(cpu, core.default)
        names = tuple(isa.name for isa in config.supported)
        flags = " ".join(config.compiler_flags())
        rows.append(TargetRow(cpu.value, core.default.name, names, core.machine.value, flags))
    every = tuple(isa.name for isa in Isa)
    rows.append(TargetRow(CortexM.ANY.value, "any", every, "each of the above", "those of the core it is compiled for"))
    return tuple(rows)
