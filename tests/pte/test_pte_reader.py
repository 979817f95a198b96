"""The torch-free .pte reader and the firmware's target check, against ExecuTorch's own serializer and mutated files."""

import json
import os
import random
import re
import struct
import subprocess
import sys
import time
import tracemalloc
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from executorch.exir import EdgeProgramManager, schema, to_edge
from executorch.exir._serialize._flatbuffer_program import _program_to_flatbuffer
from executorch.exir._serialize._program import PTEFile, deserialize_pte_binary, serialize_pte_binary
from executorch.exir.dialects._ops import ops as exir_ops
from executorch.exir.passes import make_alloc_node
from executorch.exir.tensor import scalar_type_table

from cortado.base.data import KERNELS as KERNELS_FOLDER
from cortado.base.errors import CortadoError
from cortado.pte.arguments import OPERATOR_ARGUMENTS
from cortado.pte.flatbuffer import SCHEMA
from cortado.pte.info import (
    ConstantUse,
    Delegate,
    DType,
    Dynamism,
    InstructionKind,
    IoQParams,
    OperatorUse,
    Placement,
    Port,
    PteInfo,
    Scratch,
    ValueKind,
)
from cortado.pte.metadata import metadata_text, require_target
from cortado.pte.reader import read_pte, read_pte_file
from cortado.pte.text import format_info, info_as_json

KERNELS = KERNELS_FOLDER / "executorch"
POOL = "cortex_m::quantized_avg_pool2d_nhwc"
SCRATCH_BYTES = 1234
QPARAMS = IoQParams(0.0235294122248888, -128)
METADATA = metadata_text("cortex-m55", "0.1.0", "NHWC", (QPARAMS,), (QPARAMS,))

# The codes of pte_target.h.
OK, NOT_A_PTE, DAMAGED, NO_TARGET, TOO_LONG = 0, -2, -3, -4, -5


def executorch_file(relative: str) -> str:
    """A text file of the installed ExecuTorch."""
    spec = find_spec("executorch")
    assert spec is not None
    assert spec.submodule_search_locations
    return (Path(spec.submodule_search_locations[0]) / relative).read_text()


# ---- Real files ------------------------------------------------------------------------------------------------------


class TwoInputs(torch.nn.Module):
    """Two inputs, two outputs, weights, a tensor list and an integer constant."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(5, 3)
        self.register_buffer("table", torch.arange(7, dtype=torch.int64))

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.relu(self.linear(x)), torch.cat([y, self.table, y])


class Table(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("table", torch.arange(64, dtype=torch.int8).reshape(1, 1, 1, 64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.minimum(x, self.table)


_ARGUMENTS = (
    "(Tensor input, int[] kernel_size, int[] stride, int[] padding, bool ceil_mode, int zero_point,"
    " int multiplier, int shift, Tensor scratch"
)
LIBRARY = torch.library.Library("pte_reader_test", "FRAGMENT")
LIBRARY.define(f"pool{_ARGUMENTS}) -> Tensor")
LIBRARY.define(f"pool.out{_ARGUMENTS}, *, Tensor(a!) out) -> Tensor(a!)")
LIBRARY.impl("pool", lambda x, *_: x.new_empty(1, 2, 2, 64), "CompositeExplicitAutograd")
LIBRARY.impl("pool.out", lambda *_, out: out, "CompositeExplicitAutograd")


@cache
def float_pte() -> bytes:
    """A float model as ExecuTorch writes it, with another constant method beside Cortado's."""
    torch.manual_seed(0)
    exported = torch.export.export(TwoInputs().eval(), (torch.zeros(2, 5), torch.zeros(4, dtype=torch.int64)))
    edge = to_edge(exported, constant_methods={"cortado": METADATA, "sample_rate": 16000})
    return bytes(edge.to_executorch().buffer)


@cache
def foreign_pte() -> bytes:
    """A file that Cortado did not write."""
    exported = torch.export.export(Table().eval(), (torch.zeros(1, 4, 4, 64, dtype=torch.int8),))
    return bytes(to_edge(exported).to_executorch().buffer)


@cache
def scratch_pte() -> bytes:
    """A file with a cortex_m operator and its planned scratch.

    The graph calls an operator of this test's own namespace, and its name is changed in the finished file, so that
    no cortex_m operator gets registered here beside the real ones.
    """
    exported = torch.export.export(Table().eval(), (torch.zeros(1, 4, 4, 64, dtype=torch.int8),))
    program = to_edge(exported).exported_program()
    module = program.graph_module
    last = next(node for node in reversed(module.graph.nodes) if node.op == "call_function")
    with last.meta["val"].fake_mode:
        scratch_value = torch.empty(SCRATCH_BYTES, dtype=torch.int8)
        pool_value = torch.empty(1, 2, 2, 64, dtype=torch.int8)
    with module.graph.inserting_after(last):
        scratch = make_alloc_node(module, scratch_value, None)
    with module.graph.inserting_after(scratch):
        window = ([2, 2], [2, 2], [0, 0], False, 0, 0, 0)
        pool = module.graph.call_function(exir_ops.edge.pte_reader_test.pool.default, (last, *window, scratch))
    pool.meta["val"] = pool_value
    module.graph.output_node().replace_input_with(last, pool)
    program.graph_signature.output_specs[0].arg.name = pool.name
    module.recompile()
    written = EdgeProgramManager({"forward": program}, constant_methods={"cortado": METADATA}).to_executorch().buffer
    file = deserialize_pte_binary(bytes(written))
    for operator in file.program.execution_plan[0].operators:
        operator.name = operator.name.replace("pte_reader_test::pool", POOL)
    return bytes(serialize_pte_binary(file, constant_tensor_alignment=16))


def tensor(sizes: list[int], constant: int = 0, at: int | None = None, **changes: object) -> schema.EValue:
    """An int8 tensor value for ExecuTorch's serializer."""
    fields: dict[str, object] = {
        "scalar_type": schema.ScalarType.CHAR,
        "storage_offset": 0,
        "sizes": sizes,
        "dim_order": list(range(len(sizes))),
        "requires_grad": False,
        "layout": 0,
        "data_buffer_idx": constant,
        "allocation_info": None if at is None else schema.AllocationDetails(1, at, 0),
        "shape_dynamism": schema.TensorShapeDynamism.STATIC,
    }
    return schema.EValue(schema.Tensor(**(fields | changes)))


def plan(name: str, **changes: object) -> schema.ExecutionPlan:
    """A method for ExecuTorch's serializer."""
    fields: dict[str, object] = {
        "name": name,
        "container_meta_type": schema.ContainerMetadata("", ""),
        "values": [],
        "inputs": [],
        "outputs": [],
        "chains": [],
        "operators": [],
        "delegates": [],
        "non_const_buffer_sizes": [0],
    }
    return schema.ExecutionPlan(**(fields | changes))


def text_plan(text: str, name: str = "cortado") -> schema.ExecutionPlan:
    return plan(name, values=[schema.EValue(schema.String(text))], outputs=[0])


def write(*plans: schema.ExecutionPlan, constants: tuple[bytes, ...] = (), state: bytes | None = None) -> bytes:
    """The file ExecuTorch's serializer makes of these methods."""
    buffers = [schema.Buffer(b""), *(schema.Buffer(data) for data in constants)]
    blobs = [schema.BackendDelegateInlineData(b"blob" * 9)] if any(plan.delegates for plan in plans) else []
    program = schema.Program(0, list(plans), buffers, blobs, [], schema.SubsegmentOffsets(0, []), None, [])
    mutable = None if state is None else [schema.Buffer(b""), schema.Buffer(state)]
    file = PTEFile(program, mutable_data=mutable)
    return bytes(serialize_pte_binary(file, extract_delegate_segments=bool(blobs), constant_tensor_alignment=16))


def call(arguments: object) -> schema.Instruction:
    return schema.Instruction(arguments)


@cache
def everything_pte() -> bytes:
    """Every kind of value and instruction, a delegate, a tensor with an initial state, shared and dead constants."""
    extra = schema.ExtraTensorInfo(fully_qualified_name="weight.bin", location=schema.TensorDataLocation.EXTERNAL)
    values = [
        tensor([2, 3], at=0),  # 0: the input
        tensor([2, 3], constant=1),
        tensor([6], constant=1),  # 2: the same bytes in another shape
        tensor([2, 2], constant=1, at=16),  # 3: planned, with an initial state
        tensor([4, 4], at=32, shape_dynamism=schema.TensorShapeDynamism.DYNAMIC_BOUND),
        tensor([9], shape_dynamism=schema.TensorShapeDynamism.DYNAMIC_UNBOUND),
        tensor([3], constant=7, extra_tensor_info=extra),
        schema.EValue(schema.TensorList([0, 1])),  # 7
        schema.EValue(schema.OptionalTensorList([-1, 2])),
        schema.EValue(schema.Null()),
        schema.EValue(schema.Int(-5)),
        schema.EValue(schema.Bool(True)),
        schema.EValue(schema.Double(0.5)),
        schema.EValue(schema.String("text")),
        schema.EValue(schema.IntList([10, 10])),
        schema.EValue(schema.DoubleList([0.5, 1.5])),
        schema.EValue(schema.BoolList([True, False])),
    ]
    instructions = [
        call(schema.KernelCall(0, [7, 10, 4, 4])),
        call(schema.KernelCall(1, [0, 8, 4, 4])),
        call(schema.DelegateCall(0, [0, 3])),
        call(schema.MoveCall(3, 4)),
        call(schema.JumpFalseCall(11, 0)),
        call(schema.FreeCall(5)),
        call(schema.KernelCall(0, [7, 10, 4, 4])),
    ]
    reference = schema.BackendDelegateDataReference(schema.DataLocation.INLINE, 0)
    forward = plan(
        "forward",
        values=values,
        inputs=[0, 10],
        outputs=[4, 2],
        chains=[schema.Chain([], [], instructions[:3], None), schema.Chain([], [], instructions[3:], None)],
        operators=[schema.Operator("aten::cat", "out"), schema.Operator("aten::index", "")],
        delegates=[schema.BackendDelegate("SomeBackend", reference, [schema.CompileSpec("key", b"value")])],
        non_const_buffer_sizes=[0, 48, 100],
    )
    return write(forward, text_plan(METADATA), constants=(b"abcdef", b"dead weight"), state=b"1234")


def all_ptes() -> list[bytes]:
    return [float_pte(), scratch_pte(), everything_pte()]


# ---- Against ExecuTorch's own reader ---------------------------------------------------------------------------------


def expected_ports(plan: schema.ExecutionPlan, indices: list[int]) -> list[object]:
    values = [plan.values[i].val for i in indices]
    return [(int(v.scalar_type), tuple(v.sizes)) if isinstance(v, schema.Tensor) else type(v).__name__ for v in values]


def found_ports(ports: tuple[Port, ...]) -> list[object]:
    return [
        (int(port.tensor.dtype), port.tensor.shape) if port.tensor else port.kind.name.title().replace("_", "")
        for port in ports
    ]


@pytest.mark.parametrize("make", [float_pte, foreign_pte, scratch_pte, everything_pte])
def test_says_what_executorchs_reader_says(make) -> None:
    data = make()
    info, file = read_pte(data), deserialize_pte_binary(data)
    program = file.program
    assert (info.size, info.version) == (len(data), program.version)
    assert [method.name for method in info.methods] == [plan.name for plan in program.execution_plan]
    for method, plan in zip(info.methods, program.execution_plan, strict=True):
        instructions = [instruction.instr_args for chain in plan.chains for instruction in chain.instructions]
        kernels = [plan.operators[c.op_index] for c in instructions if isinstance(c, schema.KernelCall)]
        assert method.calls == tuple(f"{op.name}.{op.overload}" if op.overload else op.name for op in kernels)
        assert method.instructions == len(instructions)
        assert list(method.arena) == plan.non_const_buffer_sizes
        assert [delegate.name for delegate in method.delegates] == [delegate.id for delegate in plan.delegates]
        assert found_ports(method.inputs) == expected_ports(plan, plan.inputs)
        assert found_ports(method.outputs) == expected_ports(plan, plan.outputs)
    buffers = [buffer.storage for buffer in program.constant_buffer[1:]]
    assert [data[constant.offset :][: constant.stored] for constant in info.constants] == buffers


def test_a_float_model() -> None:
    info = read_pte(float_pte())
    forward = info.method("forward")
    assert forward is not None
    shapes = [(port.tensor.dtype, port.tensor.shape, port.tensor.nbytes) for port in forward.inputs if port.tensor]
    assert shapes == [(DType.FLOAT32, (2, 5), 40), (DType.INT64, (4,), 32)]
    assert {constant.shape: (constant.dtype, constant.nbytes) for constant in info.constants} == {
        (3, 5): (DType.FLOAT32, 60),
        (3,): (DType.FLOAT32, 12),
        (7,): (DType.INT64, 56),
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
    assert isinstance(found.placement, Placement)
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
    assert forward.delegates == (Delegate("SomeBackend", 36),)
    assert [port.kind for port in forward.inputs] == [ValueKind.TENSOR, ValueKind.INT]
    output = forward.outputs[0].tensor
    assert output is not None
    assert (output.dynamism, output.placement) == (Dynamism.BOUNDED, Placement(1, 32))
    shared, dead = info.constants
    assert (shared.nbytes, shared.stored, shared.dtype) == (6, 16, DType.INT8)
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
    assert {dtype.value for dtype in DType} - complex_codes == {int(code) for code in re.findall(r"= (\d+)", text)}
    for dtype, code in scalar_type_table.items():
        ours = DType[str(dtype).removeprefix("torch.").replace("_", "").upper()]
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


# ---- Damaged files ---------------------------------------------------------------------------------------------------


def patched(data: bytes, at: int, code: str, value: int) -> bytes:
    changed = bytearray(data)
    struct.pack_into(f"<{code}", changed, at, value)
    return bytes(changed)


def broken_plan(**changes: object) -> bytes:
    """A method with one planned and one constant tensor and one call; `changes` break it."""
    values = [tensor([16], at=0), tensor([4], constant=1)]
    chain = schema.Chain([], [], [call(schema.KernelCall(0, [0, 1]))], None)
    fields: dict[str, object] = {
        "values": values,
        "inputs": [0],
        "chains": [chain],
        "operators": [schema.Operator("aten::relu", "out")],
        "non_const_buffer_sizes": [0, 16],
    }
    return write(plan("forward", **(fields | changes)), constants=(b"four",))


def chain_of(*instructions: object) -> dict[str, object]:
    return {"chains": [schema.Chain([], [], [call(instruction) for instruction in instructions], None)]}


BROKEN_PLANS: dict[str, tuple[dict[str, object], str]] = {
    "input": ({"inputs": [2]}, "refers to value 2, and there are 2"),
    "output": ({"outputs": [-1]}, "refers to value -1, and there are 2"),
    "operator": (chain_of(schema.KernelCall(1, [])), "refers to operator 1, and there are 1"),
    "argument": (chain_of(schema.KernelCall(0, [5])), "refers to value 5"),
    "delegate": (chain_of(schema.DelegateCall(0, [])), "refers to delegate 0, and there are 0"),
    "move": (chain_of(schema.MoveCall(0, 7)), "refers to value 7"),
    "jump": (chain_of(schema.JumpFalseCall(7, 0)), "refers to value 7"),
    "free": (chain_of(schema.FreeCall(7)), "refers to value 7"),
    "arena too small": ({"non_const_buffer_sizes": [0, 15]}, "ends at byte 16 of memory 1 of 15"),
    "no such memory": ({"non_const_buffer_sizes": [0]}, "refers to memory 1, and there are 1"),
    "negative arena": ({"non_const_buffer_sizes": [0, -16]}, "-16 bytes of memory"),
    "no such constant": ({"values": [tensor([1], at=0), tensor([4], constant=2)]}, "refers to constant 2"),
    "constant too short": ({"values": [tensor([1], at=0), tensor([5], constant=1)]}, "needs 5 bytes of data and has 4"),
    "no state": ({"values": [tensor([1], constant=1, at=0), tensor([1])]}, "mutable data segment 0, and there are 0"),
    "negative size": ({"values": [tensor([-1], at=0), tensor([1])]}, r"1 sizes, \[-1\]"),
    "rank": ({"values": [tensor([1] * 17, at=0), tensor([1])]}, "has 17 sizes"),
    "dim order": ({"values": [tensor([1, 1], at=0, dim_order=[0, 0]), tensor([1])]}, "order of dimensions"),
    "tensor list": ({"values": [*[tensor([1])] * 2, schema.EValue(schema.TensorList([-1]))]}, "refers to value -1"),
    "optional": ({"values": [*[tensor([1])] * 2, schema.EValue(schema.OptionalTensorList([-2]))]}, "value -2"),
}


@pytest.mark.parametrize(("changes", "message"), BROKEN_PLANS.values(), ids=BROKEN_PLANS.keys())
def test_a_method_that_contradicts_itself(changes: dict[str, object], message: str) -> None:
    read_pte(broken_plan())
    with pytest.raises(CortadoError, match=rf"^x is not a readable \.pte: .*{message}.*\(at byte \d+\)$"):
        read_pte(broken_plan(**changes), "x")


HEADERS = {
    "another file": (lambda data: data[:4] + b"TFL3" + data[8:], r"identifier b'TFL3', expected b'ET12' \(at byte 4\)"),
    "a bundle": (lambda data: data[:4] + b"BP08" + data[8:], "bundled program"),
    "header length": (lambda data: patched(data, 12, "I", 23), "23 bytes long, expected at least 24"),
    "program size": (lambda data: patched(data, 16, "Q", len(data) + 1), "it is cut off"),
    "segment base": (lambda data: patched(data, 24, "Q", 2**63), "it is cut off"),
    "no segment base": (lambda data: patched(data, 24, "Q", 0), "no header says where the data starts"),
    "segments cut off": (lambda data: data[:-1], "it is cut off"),
    "segments cut off silently": (lambda data: patched(data, 32, "Q", 0)[:-1], "1 bytes behind the file's end"),
    "only the header": (lambda data: data[:8], "."),
    "tiny program": (lambda data: patched(data, 16, "Q", 3), "outside the program's 3 bytes"),
    "root offset zero": (lambda data: patched(data, 0, "I", 0), "an offset of 0"),
    "root offset huge": (lambda data: patched(data, 0, "I", 2**32 - 4), "leads outside"),
    "root not aligned": (lambda data: patched(data, 0, "I", 61), "not aligned"),
}


@pytest.mark.parametrize(("change", "message"), HEADERS.values(), ids=HEADERS.keys())
def test_a_header_that_contradicts_the_file(change, message: str) -> None:
    with pytest.raises(CortadoError, match=message):
        read_pte(change(scratch_pte()))


def test_methods_need_different_names() -> None:
    with pytest.raises(CortadoError, match="two of its methods have the same name, 'cortado'"):
        read_pte(write(text_plan(METADATA), text_plan(METADATA)))
    with pytest.raises(CortadoError, match="no methods"):
        read_pte(write())


def bomb(plans: int, values: int) -> bytes:
    """A small file that describes plans x values tables, by referring to one method and one value again and again."""
    program, method = 8, 11 + plans
    value = method + 3 + values
    words = [4 * program, int.from_bytes(b"ET12", "little")]
    words += [8 | 8 << 16, 4 << 16]  # at 2: Program's layout, execution_plan (slot 1) at byte 4
    words += [10 | 8 << 16, 0, 4]  # at 4: ExecutionPlan's layout, values (slot 2) at byte 4
    words += [4 | 4 << 16]  # at 7: EValue's layout, all fields absent
    words += [4 * (program - 2), 4, plans, *(4 * (method - (11 + i)) for i in range(plans))]
    words += [4 * (method - 4), 4, values, *(4 * (value - (method + 3 + i)) for i in range(values))]
    words += [4 * (value - 7)]
    return struct.pack(f"<{len(words)}I", *words)


def test_a_small_file_that_describes_a_huge_one() -> None:
    (method,) = read_pte(bomb(1, 3)).methods
    assert method.name == ""
    start = time.process_time()
    with pytest.raises(CortadoError, match="far more than the file holds"):
        read_pte(bomb(30_000, 30_000))
    assert time.process_time() - start < 5


def test_lists_shared_by_many_calls_are_bounded_too() -> None:
    values = [tensor([1], constant=1), schema.EValue(schema.TensorList([0] * 2000))]
    instructions = [schema.KernelCall(0, [1])] * 2000
    operators = [schema.Operator("aten::cat", "out")]
    with pytest.raises(CortadoError, match="far more than the file holds"):
        read_pte(
            write(plan("forward", values=values, operators=operators, **chain_of(*instructions)), constants=(b"1",))
        )


def tiny_pte(text: bytes, outputs: int = 1) -> bytes:
    """The least that holds a metadata text, put together by hand so that the text's last byte is the file's last."""
    words = [4 * 12, int.from_bytes(b"ET12", "little")]
    words += [8 | 8 << 16, 4 << 16]  # at 2: Program's layout, execution_plan (slot 1) at byte 4
    words += [14 | 16 << 16, 4, 8, 12]  # at 4: ExecutionPlan's: name at byte 4, values at 8, outputs at 12
    words += [8 | 12 << 16, 4 | 8 << 16]  # at 8: EValue's: type at byte 4, value at 8
    words += [6 | 8 << 16, 4]  # at 10: String's: text at byte 4
    words += [4 * (12 - 2), 4, 1, 4]  # at 12: the Program and its list of one method
    words += [4 * (16 - 4), 4 * 3, 4 * 7, 4 * 4]  # at 16: the method
    words += [7, *struct.unpack("<2I", b"cortado\0"), outputs, 0, 1, 4]  # at 20: name; at 23: outputs; at 25: values
    words += [4 * (27 - 8), ValueKind.STRING, 4, 4 * (30 - 10), 4, len(text)]  # at 27: the value; at 30: its String
    return struct.pack(f"<{len(words)}I", *words) + text


@cache
def systematic() -> tuple[bytes, ...]:
    """The tiny file with every 16-bit and 32-bit number in turn replaced, and with every truncation."""
    data = tiny_pte(b'{"target":"cortex-m4"}')
    files = [data[:size] for size in range(len(data))]
    for code, size in (("H", 2), ("I", 4)):
        limit = 1 << 8 * size
        for at in range(0, len(data) - size + 1, size):
            (old,) = struct.unpack_from(f"<{code}", data, at)
            near = [(old + step) % limit for step in (-64, -16, -8, -4, -2, -1, 1, 2, 4, 8, 16, 64)]
            ends = [len(data) - at - rest for rest in range(9)]
            extremes = [value for value in EXTREMES if value < limit]
            files += [patched(data, at, code, value) for value in [*near, *ends, *extremes] if value >= 0]
    return tuple(files)


def test_the_tiny_file_is_a_good_one() -> None:
    info = read_pte(tiny_pte(b'{"target":"cortex-m4"}'))
    assert info.metadata is not None
    assert info.metadata.target == "cortex-m4"


EXTREMES = (0, 1, 2, 3, 4, 7, 8, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 2**31 - 1, 2**31, 2**32 - 4, 2**32 - 1)


@dataclass(frozen=True)
class Mutator:
    """Makes damaged files of good ones; most damage goes where the structure is, some into the metadata."""

    rng: random.Random
    seeds: list[bytes]

    def file(self) -> bytes:
        data = bytearray(self.rng.choice(self.seeds))
        for _ in range(self.rng.choice((1, 1, 1, 2, 4, 16))):
            self.rng.choice((self.flip, self.overwrite, self.overwrite, self.nudge, self.splice, self.truncate))(data)
        return bytes(data)

    def spot(self, data: bytearray) -> int:
        """A position: anywhere, in the program, or near the metadata."""
        metadata = data.find(b'{"target"')
        low, high = self.rng.choice(((0, len(data) + 1), (0, 64), (64, 2400), (metadata - 8, metadata + len(METADATA))))
        return min(max(0, self.rng.randrange(low, high)), max(0, len(data) - 1))

    def flip(self, data: bytearray) -> None:
        if data:
            data[self.spot(data)] ^= 1 << self.rng.randrange(8)

    def overwrite(self, data: bytearray) -> None:
        at = self.spot(data) & ~3
        value = self.rng.choice((*EXTREMES, len(data), len(data) - at, self.rng.getrandbits(32))) % 2**32
        data[at : at + 4] = struct.pack("<I", value)[: max(0, len(data) - at)]

    def nudge(self, data: bytearray) -> None:
        at = self.spot(data) & ~1
        if at + 2 <= len(data):
            (value,) = struct.unpack_from("<H", data, at)
            struct.pack_into("<H", data, at, (value + self.rng.choice((-8, -4, -2, -1, 1, 2, 4, 8))) % 2**16)

    def splice(self, data: bytearray) -> None:
        other = self.rng.choice(self.seeds)
        length, start = self.rng.choice((4, 8, 40, 400)), self.rng.randrange(len(other))
        at = self.spot(data)
        keep_size = self.rng.random() < 0.7
        data[at : at + length if keep_size else at] = other[start : start + length]

    def truncate(self, data: bytearray) -> None:
        if self.rng.random() < 0.3:
            del data[self.spot(data) :]


@cache
def damaged(count: int = 5000) -> tuple[bytes, ...]:
    mutator = Mutator(random.Random(20260701), all_ptes())
    return tuple(mutator.file() for _ in range(count))


def read_or_none(data: bytes) -> PteInfo | None:
    """What the reader says, or None for its one error; any other exception escapes."""
    try:
        return read_pte(data)
    except CortadoError as error:
        message = str(error)
    assert re.fullmatch(r"the file is not a readable \.pte: .*\(at byte \d+\)", message, re.DOTALL)
    return None


def test_5000_damaged_files_give_information_or_one_error() -> None:
    readable, slowest = 0, 0.0
    for data in (*damaged(), *systematic()):
        start = time.process_time()
        info = read_or_none(data)
        if info is not None:
            readable += 1
            json.dumps(info_as_json(info))
            assert format_info(info).replace("\n", "").isprintable()
        slowest = max(slowest, time.process_time() - start)
    assert len(damaged()) == 5000
    assert slowest < 1
    assert 500 < readable < 4000, "damage that is never or always noticed tests nothing"


def test_every_truncation_gives_the_error() -> None:
    data = scratch_pte()
    for size in range(len(data)):
        assert read_or_none(data[:size]) is None, size


def test_damaged_files_take_no_more_memory_than_good_ones() -> None:
    files = damaged()[:300]  # made before the count starts
    tracemalloc.start()
    try:
        for data in files:
            read_or_none(data)
        assert tracemalloc.get_traced_memory()[1] < 4_000_000
    finally:
        tracemalloc.stop()


# ---- The firmware's reader -------------------------------------------------------------------------------------------

STRICT = ["-std=c99", "-Wall", "-Wextra", "-Wconversion", "-pedantic", "-Werror"]
SANITIZE = ["-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The fuzz driver, built with the address and undefined-behaviour sanitizers."""
    program = tmp_path_factory.mktemp("fuzz") / "fuzz_pte_target"
    sources = [str(Path(__file__).parent / "fuzz_pte_target.c"), str(KERNELS / "pte_target.c")]
    subprocess.run(["cc", *STRICT, *SANITIZE, "-I", str(KERNELS), *sources, "-o", str(program)], check=True)
    return program


def firmware_says(driver: Path, files: list[bytes]) -> list[tuple[int, str]]:
    """The code and target that cortado_pte_target gives for each file, all in one process."""
    pack = driver.with_suffix(".pack")
    pack.write_bytes(b"".join(struct.pack("<I", len(data)) + data for data in files))
    # Nothing here allocates but the driver itself, and looking for leaks costs seconds.
    environment = os.environ | {"ASAN_OPTIONS": "detect_leaks=0"}
    command = [str(driver), str(pack)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    lines = [line.split(" ", 1) for line in done.stdout.splitlines()]
    assert len(lines) == len(files)
    return [(int(code), target) for code, target in lines]


@pytest.mark.host
def test_firmware_reads_the_target(driver: Path) -> None:
    good = [float_pte(), scratch_pte(), everything_pte()]
    assert firmware_says(driver, good) == [(OK, "cortex-m55")] * 3
    longest = '{"target": "%s"}' % ("x" * 31)
    too_long = '{"target": "%s"}' % ("x" * 32)
    files = [foreign_pte(), b"", b"short", b"x" * 100, write(text_plan(longest)), write(text_plan(too_long))]
    codes = [(NO_TARGET, ""), (NOT_A_PTE, ""), (NOT_A_PTE, ""), (NOT_A_PTE, ""), (OK, "x" * 31), (TOO_LONG, "")]
    assert firmware_says(driver, files) == codes


TEXTS = {
    '{"target":"a"}': (OK, "a"),
    ' \t\r\n{ "target" \n:\t"cortex-m4" }': (OK, "cortex-m4"),
    '{"x":{"target":"b"},"y":["target","c",{"target":"d"}],"target":"e"}': (OK, "e"),
    '{"x":"target","target":"f"}': (OK, "f"),
    '{"x":"\\",\\"target\\":\\"g\\"","target":"h"}': (OK, "h"),
    '{"x":"\\\\","target":"i"}': (OK, "i"),
    '{"inputs":[{"scale":0.5,"zero_point":-1}],"target":"j"}': (OK, "j"),
    '{"targets":"k","targe":"l"}': (NO_TARGET, ""),
    "{}": (NO_TARGET, ""),
    '["target","m"]': (DAMAGED, ""),
    '{"target"': (DAMAGED, ""),
    '{"target":': (DAMAGED, ""),
    '{"target":"': (DAMAGED, ""),
    '{"target":"n': (DAMAGED, ""),
    '{"target":""}': (DAMAGED, ""),
    '{"target":5}': (DAMAGED, ""),
    '{"target":"a b"}': (DAMAGED, ""),
    '{"target":"a\\n"}': (DAMAGED, ""),
    '{"target":"\u00e9"}': (DAMAGED, ""),
    '{"x\\': (DAMAGED, ""),
    "": (DAMAGED, ""),
    " ": (DAMAGED, ""),
    "[" * 3000: (DAMAGED, ""),
    "{" * 3000: (DAMAGED, ""),
}


@pytest.mark.host
def test_firmware_reads_json(driver: Path) -> None:
    files = [write(plan("forward"), text_plan(text)) for text in TEXTS]
    assert dict(zip(TEXTS, firmware_says(driver, files), strict=True)) == TEXTS
    at_the_end = [tiny_pte(text.encode()) for text in TEXTS]
    assert dict(zip(TEXTS, firmware_says(driver, at_the_end), strict=True)) == TEXTS


@pytest.mark.host
def test_firmware_wants_exactly_one_text(driver: Path) -> None:
    text = schema.EValue(schema.String(METADATA))
    number = schema.EValue(schema.Int(1))
    plans = [
        plan("cortado", values=[number, text], outputs=[1]),
        plan("cortado", values=[number, text], outputs=[0]),
        plan("cortado", values=[number, text], outputs=[]),
        plan("cortado", values=[text, text], outputs=[0, 1]),
        plan("cortado", values=[text], outputs=[1]),
        plan("cortado", values=[text], outputs=[-1]),
        plan("cortad0", values=[text], outputs=[0]),
    ]
    codes = [code for code, _ in firmware_says(driver, [write(method) for method in plans])]
    assert codes == [OK, DAMAGED, DAMAGED, DAMAGED, DAMAGED, DAMAGED, NO_TARGET]


@pytest.mark.host
def test_firmware_agrees_with_the_reader_on_5000_damaged_files(driver: Path) -> None:
    files = [*damaged(), *systematic()]
    counts = {OK: 0, NOT_A_PTE: 0, DAMAGED: 0, NO_TARGET: 0, TOO_LONG: 0}
    for data, (code, target) in zip(files, firmware_says(driver, files), strict=True):
        counts[code] += 1
        info = read_or_none(data)
        if info is None:
            continue  # the reader looks at the whole file, the firmware only at the way to the target
        if info.metadata is None:
            assert (code, target) == (NO_TARGET, "")
        else:
            assert (code, target) == (OK, info.metadata.target)
    assert min(counts[OK], counts[DAMAGED], counts[NO_TARGET], counts[NOT_A_PTE]) > 20, counts


@pytest.mark.host
def test_firmware_survives_every_truncation(driver: Path) -> None:
    data = scratch_pte()
    program_size = read_pte(data).program_size
    codes = [code for code, _ in firmware_says(driver, [data[:size] for size in range(len(data))])]
    assert set(codes[:8]) == {NOT_A_PTE}
    assert set(codes[8:program_size]) == {DAMAGED}
    assert set(codes[program_size:]) == {OK}


@pytest.mark.host
def test_firmware_needs_almost_nothing(tmp_path: Path) -> None:
    """On the smallest core: no library but memcmp and memcpy (no division helper), and little flash."""
    built = tmp_path / "pte_target.o"
    source = str(KERNELS / "pte_target.c")
    flags = ["-mcpu=cortex-m0", "-mthumb", "-Os"]
    subprocess.run(["arm-none-eabi-gcc", *STRICT, *flags, "-c", source, "-o", str(built)], check=True)
    symbols = subprocess.run(["arm-none-eabi-nm", "-u", str(built)], capture_output=True, text=True, check=True).stdout
    assert set(symbols.split()) <= {"U", "memcmp", "memcpy"}
    sizes = subprocess.run(["arm-none-eabi-size", str(built)], capture_output=True, text=True, check=True).stdout
    text, data, bss = (int(number) for number in sizes.splitlines()[1].split()[:3])
    assert text < 1300
    assert (data, bss) == (0, 0)


@pytest.mark.host
@pytest.mark.parametrize(
    ("compiler", "suffix"), [(["cc", *STRICT], "c"), (["c++", "-Wall", "-Wextra", "-Werror"], "cpp")]
)
def test_the_headers_example_compiles(compiler: list[str], suffix: str, tmp_path: Path) -> None:
    header = (KERNELS / "pte_target.h").read_text()
    comment = header[: header.index("*/")]
    example = [line[7:] for line in comment.splitlines() if line.startswith(" *     ")]
    assert any("cortado_pte_target(" in line for line in example)
    source = tmp_path / f"example.{suffix}"
    main = "int main(void) { return model_fits(); }"
    source.write_text("\n".join(['#include "pte_target.h"', "#include <string.h>", *example, main, ""]))
    subprocess.run([*compiler, "-fsyntax-only", "-I", str(KERNELS), str(source)], check=True)
