"""The torch-free .pte reader against ExecuTorch's own: what it finds, and what people and programs see of it."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest
from executorch.exir import schema
from executorch.exir._serialize._flatbuffer_program import _program_to_flatbuffer
from executorch.exir._serialize._program import deserialize_pte_binary
from executorch.exir.tensor import scalar_type_table

from cortado.base.errors import CortadoError
from cortado.pte.flatbuffer import SCHEMA
from cortado.pte.info import (
    ConstantUse,
    Dynamism,
    InstructionKind,
    IoQParams,
    MethodPort,
    OperatorUse,
    PlannedAddress,
    ScalarType,
    Scratch,
    ValueKind,
    metadata_text,
    require_target,
)
from cortado.pte.method import OPERATOR_ARGUMENTS
from cortado.pte.reader import read_pte, read_pte_file
from cortado.pte.text import format_info, info_as_json
from helpers.pte_files import (
    METADATA,
    POOL,
    QPARAMS,
    SCRATCH_BYTES,
    call,
    everything_pte,
    float_pte,
    foreign_pte,
    plan,
    scratch_pte,
    tensor,
    text_plan,
    write,
)


def executorch_file(relative: str) -> str:
    """A text file of the installed ExecuTorch."""
    spec = find_spec("executorch")
    assert spec is not None
    assert spec.submodule_search_locations
    return (Path(spec.submodule_search_locations[0]) / relative).read_text()


# ---- Against ExecuTorch's own reader ---------------------------------------------------------------------------------


def expected_ports(plan: schema.ExecutionPlan, indices: list[int]) -> list[object]:
    values = [plan.values[i].val for i in indices]
    return [(int(v.scalar_type), tuple(v.sizes)) if isinstance(v, schema.Tensor) else type(v).__name__ for v in values]


def found_ports(ports: tuple[MethodPort, ...]) -> list[object]:
    return [
        (int(port.tensor.dtype), port.tensor.shape) if port.tensor else port.kind.name.title().replace("_", "")
        for port in ports
    ]


@pytest.mark.parametrize("make", [float_pte, foreign_pte, scratch_pte, everything_pte])
def test_says_what_executorchs_reader_says(make: Callable[[], bytes]) -> None:
    data = make()
    info, file = read_pte(data), deserialize_pte_binary(data)
    program = file.program
    assert (info.size, info.version) == (len(data), program.version)
    assert [method.name for method in info.methods] == [wanted.name for wanted in program.execution_plan]
    for method, wanted in zip(info.methods, program.execution_plan, strict=True):
        instructions = [instruction.instr_args for chain in wanted.chains for instruction in chain.instructions]
        kernels = [wanted.operators[c.op_index] for c in instructions if isinstance(c, schema.KernelCall)]
        assert method.calls == tuple(f"{op.name}.{op.overload}" if op.overload else op.name for op in kernels)
        assert method.instructions == len(instructions)
        assert list(method.arena) == wanted.non_const_buffer_sizes
        assert [delegate.name for delegate in method.delegates] == [delegate.id for delegate in wanted.delegates]
        assert found_ports(method.inputs) == expected_ports(wanted, wanted.inputs)
        assert found_ports(method.outputs) == expected_ports(wanted, wanted.outputs)
    buffers = [buffer.storage for buffer in program.constant_buffer[1:]]
    assert [data[constant.offset :][: constant.stored] for constant in info.constants] == buffers


def test_a_float_model() -> None:
    info = read_pte(float_pte())
    forward = info.method("forward")
    assert forward is not None
    shapes = [(port.tensor.dtype, port.tensor.shape, port.tensor.nbytes) for port in forward.inputs if port.tensor]
    assert shapes == [(ScalarType.FLOAT32, (2, 5), 40), (ScalarType.INT64, (4,), 32)]
    assert {constant.shape: (constant.dtype, constant.nbytes) for constant in info.constants} == {
        (3, 5): (ScalarType.FLOAT32, 60),
        (3,): (ScalarType.FLOAT32, 12),
        (7,): (ScalarType.INT64, 56),
    }
    assert all(len(constant.uses) == 1 for constant in info.constants)
    assert info.constant_bytes == sum(segment.size for segment in info.segments)
    assert info.method("sample_rate") is not None
    assert info.method("backward") is None


def test_scratch_is_found_by_its_argument() -> None:
    forward = read_pte(scratch_pte()).method("forward")
    assert forward is not None
    assert forward.operators == (OperatorUse("aten::minimum.out", 1), OperatorUse(f"{POOL}.out", 1))
    (found,) = forward.scratch
    assert isinstance(found.placement, PlannedAddress)
    assert found == Scratch(1, f"{POOL}.out", "scratch", SCRATCH_BYTES, found.placement)
    assert forward.scratch_bytes == SCRATCH_BYTES
    assert forward.arena_bytes == forward.arena[1] >= SCRATCH_BYTES


def test_two_scratch_buffers_of_one_call_add_up() -> None:
    operator = schema.Operator("cortex_m::quantized_transpose_conv2d_nhwc", "out")
    names = OPERATOR_ARGUMENTS["cortex_m::quantized_transpose_conv2d_nhwc.out"]
    values = [tensor([1], at=0), tensor([100], at=16), tensor([30], at=128), tensor([6], constant=1)]
    special = {"scratch": 1, "output_scratch": 2, "weight": 3}
    args = [special.get(name, 0) for name in names] + [0, 0]
    short = [call(schema.KernelCall(0, args[:-1]))]  # not this operator's number of arguments: nothing is known
    chain = schema.Chain([], [], [call(schema.KernelCall(0, args)), *short, call(schema.KernelCall(0, args))], None)
    forward = plan("forward", values=values, operators=[operator], chains=[chain], non_const_buffer_sizes=[0, 158])
    info = read_pte(write(forward, constants=(b"weight",)))
    buffers = [(buffer.instruction, buffer.argument, buffer.nbytes) for buffer in info.methods[0].scratch]
    assert buffers == [(0, "scratch", 100), (0, "output_scratch", 30), (2, "scratch", 100), (2, "output_scratch", 30)]
    assert info.methods[0].scratch_bytes == 130
    assert [use.argument for use in info.constants[0].uses] == ["weight", "#1", "weight"]


def test_every_kind_of_value_and_instruction() -> None:
    info = read_pte(everything_pte())
    forward = info.methods[0]
    assert forward.calls == ("aten::cat.out", "aten::index", "aten::cat.out")
    assert forward.operators == (OperatorUse("aten::cat.out", 2), OperatorUse("aten::index", 1))
    assert (forward.instructions, forward.arena_bytes) == (7, 148)
    assert [(one.name, one.nbytes, one.settings) for one in forward.delegates] == [("SomeBackend", 36, ("key",))]
    assert [port.kind for port in forward.inputs] == [ValueKind.TENSOR, ValueKind.INT]
    output = forward.outputs[0].tensor
    assert output is not None
    assert (output.dynamism, output.placement) == (Dynamism.BOUNDED, PlannedAddress(1, 32))
    shared, dead = info.constants
    assert (shared.nbytes, shared.stored, shared.dtype) == (6, 16, ScalarType.INT8)
    assert shared.uses == (
        ConstantUse("forward", 0, "aten::cat.out", "#0"),
        ConstantUse("forward", 1, "aten::index", "#1"),
        ConstantUse("forward", 6, "aten::cat.out", "#0"),
        ConstantUse("forward", 7, "", "output"),
    )
    assert (dead.nbytes, dead.dtype, dead.uses) == (11, None, ())


def test_a_file_without_an_extended_header() -> None:
    program = deserialize_pte_binary(write(text_plan(METADATA))).program
    data = bytes(_program_to_flatbuffer(program).data)
    assert data[8:12] != b"eh00"
    info = read_pte(data)
    assert (info.program_size, sum(segment.size for segment in info.segments)) == (len(data), 0)
    assert info.metadata is not None


# ---- The facts this reader restates ----------------------------------------------------------------------------------


def test_slots_are_those_of_the_schema() -> None:
    text = re.sub(r"//.*", "", executorch_file("schema/program.fbs"))
    unions = set(re.findall(r"union (\w+)", text))
    for name, slots in SCHEMA.items():
        body = re.search(rf"table {name} {{(.*?)}}", text, re.DOTALL)
        assert body is not None, name
        fields = []
        for field, kind in re.findall(r"(\w+)\s*:\s*([\w\[\]]+)", body.group(1).replace("force_align:", "")):
            fields += [f"{field}_type", field] if kind in unions else [field]
        assert list(slots) == fields, name
        assert list(slots.values()) == list(range(len(fields))), name


@pytest.mark.parametrize(("union", "kinds"), [("KernelTypes", ValueKind), ("InstructionArguments", InstructionKind)])
def test_kinds_are_those_of_the_schema(union: str, kinds: type[ValueKind] | type[InstructionKind]) -> None:
    body = re.search(rf"union {union} {{(.*?)}}", executorch_file("schema/program.fbs"), re.DOTALL)
    assert body is not None
    names = [name.removesuffix("Call") for name in re.findall(r"\w+", body.group(1))]
    snake = [re.sub(r"(?<!^)([A-Z])", r"_\1", name).upper() for name in names]
    assert snake == [kind.name for kind in kinds if kind]
    assert [kind.value for kind in kinds if kind] == list(range(1, len(names) + 1))


def test_dtypes_are_those_of_the_schema() -> None:
    text = re.sub(r"//.*", "", executorch_file("schema/scalar_type.fbs"))
    complex_codes = {8, 9, 10}  # not in the schema, but ExecuTorch's exporter writes them
    assert {dtype.value for dtype in ScalarType} - complex_codes == {int(code) for code in re.findall(r"= (\d+)", text)}
    for dtype, code in scalar_type_table.items():
        ours = ScalarType[str(dtype).removeprefix("torch.").replace("_", "").upper()]
        assert (ours.value, ours.itemsize) == (int(code), dtype.itemsize), dtype


def test_arguments_are_those_of_the_operator_library() -> None:
    text = executorch_file("backends/cortex_m/ops/operators.yaml")
    operators = {}
    for name, arguments in re.findall(r"func: (cortex_m::[\w.]+)\((.*?), \*,", text):
        operators[name] = tuple(argument.split()[-1] for argument in arguments.split(", "))
    assert operators == OPERATOR_ARGUMENTS


def test_importing_it_brings_in_no_torch() -> None:
    heavy = ["torch", "numpy", "executorch", "flatbuffers"]
    script = f"import sys, cortado.pte.reader; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# ---- Metadata and target ---------------------------------------------------------------------------------------------


def test_metadata_comes_back() -> None:
    text = metadata_text("cortex-m0plus", "1.2.3", "NCHW", (IoQParams(0.1, 3), None), (IoQParams(1e-9, -128),))
    metadata = read_pte(write(text_plan(text))).metadata
    assert metadata is not None
    assert (metadata.target, metadata.version, metadata.layout) == ("cortex-m0plus", "1.2.3", "NCHW")
    assert metadata.inputs == (IoQParams(0.1, 3), None)
    assert metadata.outputs == (IoQParams(1e-9, -128),)
    assert metadata.text == text


BAD_METADATA = {
    "not JSON": "{",
    "empty": "",
    "not an object": "[]",
    "no target": "{}",
    "target not a string": '{"target": 5}',
    "empty target": '{"target": ""}',
    "target with a space": '{"target": "cortex m"}',
    "target with an escape": '{"target": "cortex\\u002dm55"}',
    "key with an escape": '{"\\u0074arget": "cortex-m55"}',
    "two targets": '{"target": "cortex-m55", "target": "cortex-m4"}',
    "version not a string": '{"target": "cortex-m55", "version": 1}',
    "inputs not a list": '{"target": "cortex-m55", "inputs": {}}',
    "input not an object": '{"target": "cortex-m55", "inputs": [1]}',
    "no zero point": '{"target": "cortex-m55", "inputs": [{"scale": 1}]}',
    "zero scale": '{"target": "cortex-m55", "inputs": [{"scale": 0, "zero_point": 1}]}',
    "infinite scale": '{"target": "cortex-m55", "inputs": [{"scale": Infinity, "zero_point": 1}]}',
    "huge scale": '{"target": "cortex-m55", "inputs": [{"scale": 1%s, "zero_point": 1}]}' % ("0" * 5000),
    "scale not a number": '{"target": "cortex-m55", "inputs": [{"scale": true, "zero_point": 1}]}',
    "zero point not an int": '{"target": "cortex-m55", "inputs": [{"scale": 1, "zero_point": 1.5}]}',
    "wide zero point": '{"target": "cortex-m55", "inputs": [{"scale": 1, "zero_point": 2147483648}]}',
    "nested too deep": '{"target": "cortex-m55", "x": %s}' % ("[" * 100_000),
}


@pytest.mark.parametrize("text", BAD_METADATA.values(), ids=BAD_METADATA.keys())
def test_metadata_that_cortado_does_not_write(text: str) -> None:
    with pytest.raises(CortadoError, match=r"is not a readable \.pte: the text of the method 'cortado'"):
        read_pte(write(text_plan(text)))


def test_a_cortado_method_that_returns_no_text() -> None:
    with pytest.raises(CortadoError, match="does not return one text"):
        read_pte(write(plan("cortado", values=[schema.EValue(schema.Int(1))], outputs=[0])))


def test_another_target_is_refused() -> None:
    info = read_pte(scratch_pte())
    require_target(info, "cortex-m55", "a.pte")
    with pytest.raises(CortadoError, match=r"a\.pte was compiled for cortex-m55, expected cortex-m4.*--target"):
        require_target(info, "cortex-m4", "a.pte")
    with pytest.raises(CortadoError, match="Cortado did not write it"):
        require_target(read_pte(foreign_pte()), "cortex-m4", "a.pte")
    require_target(read_pte(write(text_plan('{"target": "cortex-m"}'))), "cortex-m4", "a.pte")


# ---- What people and programs see ------------------------------------------------------------------------------------

EXPECTED_TEXT = """\
target       cortex-m55
written by   Cortado 0.1.0
layout       NHWC
runtime      ExecuTorch 1.5.1 or newer with the cortex_m operators (for the _nhwc ones)
file         {size:,} bytes: program {program:,}, data 64

method forward: 2 instructions
  input 0    int8  [1, 4, 4, 64]  1,024 bytes  scale 0.0235294122, zero point -128
  output 0   int8  [1, 2, 2, 64]  256 bytes  scale 0.0235294122, zero point -128
  arena      {arena:,} bytes
  scratch    1,234 bytes at most (1 buffer), inside the arena
  loading    method allocator 736 bytes and temp allocator 308, or method allocator 945 alone
  operators  1  aten::minimum.out
             1  cortex_m::quantized_avg_pool2d_nhwc.out

constants: 64 bytes in 1 tensor, and 0 bytes of padding
  64 bytes  argument #1 of aten::minimum.out (1 tensor)
"""
EVERYTHING_TEXT = """\
method forward: 7 instructions
  input 0    int8  [2, 3]  6 bytes  scale 0.0235294122, zero point -128
  input 1    int
  output 0   int8  [4, 4] at most  16 bytes  scale 0.0235294122, zero point -128
  output 1   int8  [6]              6 bytes
  arena      148 bytes in memories of 48, 100
  state      4 bytes (1 buffer) that persist from call to call, inside the arena
  loading    method allocator 920 bytes and temp allocator 112, or method allocator 1,080 alone
  delegate   SomeBackend: 36 bytes
  operators  2  aten::cat.out
             1  aten::index

constants: 17 bytes in 2 tensors, and 10 bytes of padding
  11 bytes  unused (1 tensor)
   6 bytes  argument #0 of aten::cat.out (1 tensor)
"""


def test_the_text_for_people() -> None:
    info = read_pte(scratch_pte())
    arena = info.methods[0].arena_bytes
    assert format_info(info) == EXPECTED_TEXT.format(size=info.size, program=info.program_size, arena=arena)
    assert format_info(read_pte(everything_pte())).endswith(EVERYTHING_TEXT)
    foreign = format_info(read_pte(foreign_pte()))
    assert foreign.startswith("target       not recorded: Cortado did not write this file\nfile  ")
    assert "method sample_rate: 0 instructions\n  output 0   int\n" in format_info(read_pte(float_pte()))


def test_the_text_holds_no_terminal_commands() -> None:
    hostile = metadata_text("cortex-m4", "\x1b[2J", "\ud800\x07", (), ())
    text = format_info(read_pte(write(text_plan(hostile), plan("\x1b]0;title\x07"))))
    assert text.replace("\n", "").isprintable()


def test_the_json_for_programs() -> None:
    info = read_pte(everything_pte())
    facts = json.loads(json.dumps(info_as_json(info)))
    assert facts["metadata"]["target"] == "cortex-m55"
    assert facts["metadata"]["inputs"] == [{"scale": QPARAMS.scale, "zero_point": QPARAMS.zero_point}]
    assert facts["constant_bytes"] == info.constant_bytes
    forward = facts["methods"][0]
    assert (forward["arena_bytes"], forward["scratch_bytes"]) == (148, 0)
    assert forward["operators"][0] == {"name": "aten::cat.out", "count": 2}
    assert forward["inputs"][0]["kind"] == "tensor"
    assert forward["inputs"][0]["tensor"]["dtype"] == "int8"
    assert facts["constants"][0]["uses"][-1]["argument"] == "output"
    assert info_as_json(read_pte(foreign_pte()))["metadata"] is None


def test_reading_from_disk(tmp_path: Path) -> None:
    path = tmp_path / "model.pte"
    path.write_bytes(scratch_pte())
    assert read_pte_file(path) == read_pte(scratch_pte())
    path.write_bytes(b"short")
    with pytest.raises(CortadoError, match=r"model\.pte is not a readable \.pte: it has 5 bytes.*at byte 5"):
        read_pte_file(path)
    with pytest.raises(CortadoError, match=r"can't read .*nothing\.pte: No such file"):
        read_pte_file(tmp_path / "nothing.pte")
    with pytest.raises(CortadoError, match="can't read"):
        read_pte_file(tmp_path)
