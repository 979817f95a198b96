"""C calls as text: the functions of MODEL.c that call kernels, and those that work out a kernel's scratch."""

from cortado.emit.c.text import listed
from cortado.ir.c_call import (
    Absent,
    Argument,
    Bytes,
    Callee,
    CCall,
    Member,
    Number,
    Offset,
    Operand,
    Row,
    Typed,
    Written,
)

# The parameters of cortado_call_t. A function that has a descriptor calls it L, of its own type.
_DECLARED = {
    Operand.LAYER: "const void *layer",
    Operand.ROWS: "const int8_t *const rows[]",
    Operand.OUT: "int8_t *out",
    Operand.N: "int32_t n",
    Operand.SCRATCH: "void *scratch",
    Operand.Y: "int32_t y",
}
_NAMES = {
    Operand.LAYER: "layer",
    Operand.ROWS: "rows",
    Operand.OUT: "out",
    Operand.N: "n",
    Operand.SCRATCH: "scratch",
    Operand.Y: "y",
}


def parameters(indent: int) -> str:
    """Returns the parameters of cortado_call_t."""
    return listed((_DECLARED[operand] for operand in Operand), indent=indent)


def call_function(name: str, struct: str | None, call: CCall) -> str:
    """The function of a step that makes this kernel call."""
    head = f"static void {name}("
    used = {operand for argument in call.arguments for operand in _read(argument)}
    used |= {Operand.LAYER} if struct else set()
    unused = "".join(f"    (void){_NAMES[operand]};\n" for operand in Operand if operand not in used)
    return f"{head}{parameters(len(head))})\n{{\n{_binding(struct)}{unused}    {call_text(call)};\n}}\n"


def need_function(name: str, struct: str | None, call: CCall) -> str:
    """The function of the checks build that works out a kernel's scratch from its layer."""
    return f"static int32_t {name}(const void *layer)\n{{\n{_binding(struct)}    return {call_text(call)};\n}}\n"


def call_text(call: CCall) -> str:
    return f"{call.function}({', '.join(map(_text, call.arguments))})"


def _binding(struct: str | None) -> str:
    return f"    const {struct} *L = layer;\n" if struct else ""


def _text(argument: Argument) -> str:
    """An argument inside a function that calls its descriptor L."""
    match argument:
        case Operand():
            return "L" if argument is Operand.LAYER else _NAMES[argument]
        case Row(index):
            return f"{_NAMES[Operand.ROWS]}[{index}]"
        case Bytes(row):
            return _text(row)
        case Written(row):  # one of the pointers to rows, which are otherwise read
            return f"(int8_t *)(uintptr_t){_text(row)}"
        case Typed(row, c_type):
            const = "const " if isinstance(row, Row) else ""
            return f"({const}{c_type} *)({const}void *){_text(row)}"
        case Member(name, phases):
            return f"L->{name}" + ("" if phases is None else f"[{_NAMES[Operand.Y]} & {phases - 1}]")
        case Offset(pointer, by):
            return f"{_text(pointer)} + {_text(by)}"
        case Callee(name):
            return name
    return _plain(argument)


def _plain(argument: Argument) -> str:
    """One that is no operand."""
    if isinstance(argument, Number):
        return f"number[{argument.index}]"
    return "0" if isinstance(argument, Absent) else str(argument)


def _read(argument: Argument) -> set[Operand]:
    """The parameters that an argument reads."""
    match argument:
        case Operand():
            return {argument}
        case Row():
            return {Operand.ROWS}
        case Bytes(row) | Typed(row, _) | Written(row):
            return _read(row)
        case Member(_, phases):
            return {Operand.LAYER} | ({Operand.Y} if phases is not None else set())
        case Offset(pointer, by):
            return _read(pointer) | _read(by)
        case Number():
            return {Operand.LAYER}
    return set()
