"""The text of a bundle: C calls as they are printed."""

import pytest

from cortado.base.errors import CortadoError
from cortado.emit.c.calls import call_function, call_text
from cortado.ir.c_call import Argument, CCall, Floats, Function, Member, Offset, Operand, Row
from cortado.ir.op import Kernel


@pytest.mark.parametrize(
    ("argument", "text", "unused"),
    [
        (Operand.LAYER, "L", {"rows", "out", "n", "scratch", "y"}),
        (Operand.N, "n", {"rows", "out", "scratch", "y"}),
        (Row(1), "rows[1]", {"out", "n", "scratch", "y"}),
        (Floats(Row(0)), "(const float *)(const void *)rows[0]", {"out", "n", "scratch", "y"}),
        (Floats(Operand.OUT), "(float *)(void *)out", {"rows", "n", "scratch", "y"}),
        (Member("scale"), "L->scale", {"rows", "out", "n", "scratch", "y"}),
        (Member("phase", phases=4), "L->phase[y & 3]", {"rows", "out", "n", "scratch"}),
        (Offset(Operand.ROWS, by=Member("top", phases=2)), "rows + L->top[y & 1]", {"out", "n", "scratch"}),
        (Function("cortado_means_s8"), "cortado_means_s8", {"rows", "out", "n", "scratch", "y"}),
        (12, "12", {"rows", "out", "n", "scratch", "y"}),
    ],
)
def test_a_call_reads_what_its_arguments_say(argument: Argument, text: str, unused: set[str]) -> None:
    """And what it does not read is no warning."""
    call = CCall("cortado_f", (argument,))
    assert call_text(call) == f"cortado_f({text})"
    lines = call_function("call_f", Kernel(call=call, sources=(), struct="cortado_f_t")).splitlines()
    assert "    const cortado_f_t *L = layer;" in lines
    assert f"    cortado_f({text});" in lines
    assert {line.strip() for line in lines if "(void)" in line} == {f"(void){name};" for name in unused}


def test_a_kernel_without_a_descriptor_ignores_its_layer() -> None:
    text = call_function("call_f", Kernel(call=CCall("cortado_f", (Row(0), Operand.OUT)), sources=()))
    assert "(void)layer;" in text
    assert "L = layer" not in text


def test_a_kernel_with_scratch_says_how_much_it_needs() -> None:
    """The checks build works it out again."""
    with pytest.raises(CortadoError, match="cortado_f: a kernel with scratch has a descriptor and a function"):
        Kernel(call=CCall("cortado_f", (Operand.SCRATCH,)), sources=(), struct="cortado_f_t", scratch=4)
