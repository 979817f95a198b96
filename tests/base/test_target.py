"""Targets: the lineup, overrides, target strings, compiler flags, boards, and the binding that knows CMSIS-NN."""

import contextlib
import dataclasses
import subprocess
from pathlib import Path

import pytest
from executorch.backends.cortex_m.library import cmsis_nn
from hypothesis import given
from hypothesis import strategies as st

from cortado.base.errors import CortadoError
from cortado.base.target import ANY, Compiler, CortexM, CortexMTargetConfig, Isa, Machine, from_target_string, table
from cortado.run import toolchain

SCALAR, DSP, MVE = Isa.SCALAR, Isa.DSP, Isa.MVE

# What a core can have, the default last, and the board that stands for it.
LINEUP = {
    CortexM.M0: ((SCALAR,), Machine.MPS2_AN385),
    CortexM.M0PLUS: ((SCALAR,), Machine.MPS2_AN385),
    CortexM.M3: ((SCALAR,), Machine.MPS2_AN385),
    CortexM.M4: ((SCALAR, DSP), Machine.MPS2_AN386),
    CortexM.M7: ((SCALAR, DSP), Machine.MPS2_AN500),
    CortexM.M23: ((SCALAR,), Machine.MPS2_AN505),
    CortexM.M33: ((SCALAR, DSP), Machine.MPS2_AN505),
    CortexM.M35P: ((SCALAR, DSP), Machine.MPS2_AN505),
    CortexM.M52: ((SCALAR, DSP, MVE), Machine.MPS3_AN547),
    CortexM.M55: ((SCALAR, DSP, MVE), Machine.MPS3_AN547),
    CortexM.M85: ((SCALAR, DSP, MVE), Machine.MPS3_AN547),
}
ALL_FLOATS = [CortexMTargetConfig(cpu, isa) for cpu, (isas, _) in LINEUP.items() for isa in isas]
CONFIGS = [*ALL_FLOATS, *(dataclasses.replace(one, fpu=False) for one in ALL_FLOATS if one.fpu)]
IDS = [config.target_string for config in CONFIGS]


def test_the_lineup_is_complete() -> None:
    assert set(CortexM) == {*LINEUP, CortexM.ANY}
    assert SCALAR < DSP < MVE


@pytest.mark.parametrize("cpu", LINEUP)
def test_what_a_core_can_have(cpu: CortexM) -> None:
    isas, machine = LINEUP[cpu]
    config = CortexMTargetConfig(cpu)
    assert config.supported == isas
    assert config.isa is isas[-1]
    assert config.isas == (isas[-1],)
    assert config.machine is machine


# ---- errors -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cpu", "isa"), [(cpu, isa) for cpu, (isas, _) in LINEUP.items() for isa in Isa if isa not in isas]
)
def test_an_isa_the_core_lacks_is_refused(cpu: CortexM, isa: Isa) -> None:
    names = ", ".join(known.name for known in LINEUP[cpu][0])
    with pytest.raises(CortadoError) as caught:
        CortexMTargetConfig(cpu, isa)
    assert str(caught.value) == f"{isa.name} is not supported on {cpu.value}; supported: {names}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cortex-m99", "unknown target 'cortex-m99'; known targets: cortex-m0, cortex-m0plus, cortex-m3"),
        ("", "unknown target ''"),
        ("cortex-m55+int8", "a target names a core, and +int8 is not an attribute of a core; write 'cortex-m55'"),
        ("cortex-m55+fast", "unknown extension '+fast'; known: +nomve, +nodsp, +nofp"),
        ("cortex-m0+nomve", "cortex-m0 has no MVE to leave out; supported: SCALAR"),
        ("cortex-m4+nomve", "cortex-m4 has no MVE to leave out; supported: SCALAR, DSP"),
        ("cortex-m+nodsp", "cortex-m has no DSP to leave out"),
        ("cortex-m55+", "unknown extension '+'"),
        ("cortex-m0+nofp", "cortex-m0 has no float unit to leave out; write 'cortex-m0'"),
        ("cortex-m33+nodsp+nofp", "cortex-m33+nodsp has no float unit to leave out"),
        ("cortex-m+nofp", "cortex-m has no float unit to leave out"),
    ],
)
def test_a_bad_target_string_gets_a_sentence(text: str, message: str) -> None:
    with pytest.raises(CortadoError) as caught:
        from_target_string(text)
    assert message in str(caught.value)


def test_a_float_unit_that_is_not_there_is_refused() -> None:
    with pytest.raises(CortadoError, match="cortex-m0plus has no float unit"):
        CortexMTargetConfig(CortexM.M0PLUS, fpu=True)


@pytest.mark.parametrize("config", [config for config in CONFIGS if not config.fpu], ids=lambda one: one.target_string)
def test_code_without_a_float_unit_has_no_float_instructions(config: CortexMTargetConfig) -> None:
    source = "float f(float a, float b) { return a * b; }"
    command = [str(toolchain.arm_gcc().path), *config.compiler_flags(), "-O1", "-S", "-x", "c", "-", "-o", "-"]
    made = subprocess.run(command, input=source, capture_output=True, text=True, check=True).stdout
    assert "__aeabi_fmul" in made
    assert "vmul" not in made


def test_types_are_checked() -> None:
    with pytest.raises(CortadoError, match="cpu must be a CortexM, found 'cortex-m4'; for a string use"):
        CortexMTargetConfig("cortex-m4")  # type: ignore[arg-type]
    with pytest.raises(CortadoError, match="isa must be an Isa or None, found 1"):
        CortexMTargetConfig(CortexM.M4, 1)  # type: ignore[arg-type]


def test_a_target_can_not_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        CortexMTargetConfig(CortexM.M4).isa = SCALAR  # type: ignore[misc]


# ---- target strings ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("config", [*CONFIGS, ANY], ids=[*IDS, "cortex-m"])
def test_target_strings_are_inverses(config: CortexMTargetConfig) -> None:
    assert from_target_string(config.target_string) == config
    assert "int8" not in config.target_string


@pytest.mark.parametrize(
    ("text", "cpu", "isa"),
    [
        ("cortex-m55", CortexM.M55, MVE),
        ("cortex-m55+nomve", CortexM.M55, DSP),
        ("cortex-m85+nodsp", CortexM.M85, SCALAR),
        ("cortex-m33+nodsp", CortexM.M33, SCALAR),
        ("cortex-m0+", CortexM.M0PLUS, SCALAR),
        ("cortex-m0plus", CortexM.M0PLUS, SCALAR),
        (" Cortex-M4 ", CortexM.M4, DSP),
        ("cortex-m", CortexM.ANY, None),
    ],
)
def test_spellings(text: str, cpu: CortexM, isa: Isa | None) -> None:
    config = from_target_string(text)
    assert (config.cpu, config.isa) == (cpu, isa)


@given(st.text(alphabet="cortex-m0123458p+nodspmveint, \n\t\x00ü", max_size=24))
def test_any_text_is_a_target_or_a_clear_error(text: str) -> None:
    with contextlib.suppress(CortadoError):  # anything else that is raised fails the test
        assert from_target_string(from_target_string(text).target_string) == from_target_string(text)


# ---- CMSIS-NN's backends --------------------------------------------------------------------------------------------


def test_the_binding_agrees_with_the_table() -> None:
    """Ours is a table of what cores have; CMSIS-NN's own opinion is the binding's."""
    for name in cmsis_nn.CortexM.__members__:
        backend = cmsis_nn.resolve_backend(getattr(cmsis_nn.CortexM, name))
        assert CortexMTargetConfig(CortexM[name]).backend == backend
        assert LINEUP[CortexM[name]][0][-1].name == backend.name


def test_the_one_core_the_binding_lacks() -> None:
    assert {cpu.name for cpu in LINEUP} - set(cmsis_nn.CortexM.__members__) == {"M52"}
    assert CortexMTargetConfig(CortexM.M52).backend == cmsis_nn.Backend.MVE


@pytest.mark.parametrize("config", CONFIGS, ids=IDS)
def test_a_single_target_has_one_backend(config: CortexMTargetConfig) -> None:
    assert config.isa is not None
    assert config.backends == (config.backend,) == (getattr(cmsis_nn.Backend, config.isa.name),)


def test_any_has_three_backends_and_not_one() -> None:
    assert ANY.isas == (SCALAR, DSP, MVE)
    assert [backend.name for backend in ANY.backends] == ["SCALAR", "DSP", "MVE"]
    with pytest.raises(CortadoError, match="it has `backends`, not one `backend`"):
        _ = ANY.backend
    with pytest.raises(CortadoError, match="name the core the bundle is compiled for"):
        ANY.compiler_flags()


# ---- compiler flags -------------------------------------------------------------------------------------------------

# What the compiler says of itself must be what the target promises its kernels.
PROBE = """
#include <stdint.h>
#if {dsp} != (defined(__ARM_FEATURE_DSP) + 0)
#error "DSP"
#endif
#if {mve} != (defined(__ARM_FEATURE_MVE) + 0)
#error "MVE"
#endif
float scale(float x, int32_t y) {{ return x * (float)y; }}
"""


@pytest.mark.host
@pytest.mark.parametrize("compiler", [Compiler.GCC, Compiler.CLANG], ids=["gcc", "clang"])
@pytest.mark.parametrize("config", CONFIGS, ids=IDS)
def test_flags_compile_and_give_the_isa(config: CortexMTargetConfig, compiler: Compiler, tmp_path: Path) -> None:
    assert config.isa is not None
    source = tmp_path / "probe.c"
    source.write_text(PROBE.format(dsp=int(config.isa >= DSP), mve=int(config.isa >= MVE)))
    if compiler is Compiler.GCC:
        tool, alone = toolchain.Tool.ARM_GCC, []
    else:  # clang has no C library of its own to take stdint.h from
        tool, alone = toolchain.Tool.CLANG, ["-ffreestanding"]
    command = [str(toolchain.require(tool)), *config.compiler_flags(compiler), *alone, "-O2", "-Werror", "-c"]
    done = subprocess.run([*command, str(source), "-o", str(tmp_path / "probe.o")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.host
@pytest.mark.parametrize("config", CONFIGS, ids=IDS)
def test_flags_have_a_c_library(config: CortexMTargetConfig) -> None:
    """gcc picks the library by architecture and float ABI: a pair it has no library for links something wrong."""
    gcc = toolchain.require(toolchain.Tool.ARM_GCC)
    command = [str(gcc), *config.compiler_flags(), "-print-multi-directory"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    hard = "-mfloat-abi=hard" in config.compiler_flags()
    assert done.stdout.strip() not in ("", ".")
    assert done.stdout.strip().endswith("hard" if hard else "nofp")


def test_the_table_is_every_target() -> None:
    rows = {row.target: row for row in table()}
    assert list(rows) == [cpu.value for cpu in CortexM]
    for cpu, (isas, machine) in LINEUP.items():
        row = rows[cpu.value]
        assert (row.isa, row.supported, row.board) == (isas[-1].name, tuple(i.name for i in isas), machine.value)
        assert row.flags.split(" ") == list(CortexMTargetConfig(cpu).compiler_flags())
