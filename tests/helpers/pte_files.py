"""`.pte` files to read: real ones, ones put together value by value, and damaged ones."""

import random
import re
import struct
from dataclasses import dataclass
from functools import cache

import torch
from executorch.exir import EdgeProgramManager, schema, to_edge
from executorch.exir._serialize._program import PTEFile, deserialize_pte_binary, serialize_pte_binary
from executorch.exir.dialects._ops import ops as exir_ops
from executorch.exir.passes import make_alloc_node

from cortado.base.errors import CortadoError
from cortado.pte.info import IoQParams, PteInfo, ValueKind, metadata_text
from cortado.pte.reader import read_pte

POOL = "cortex_m::quantized_avg_pool2d_nhwc"
SCRATCH_BYTES = 1234
QPARAMS = IoQParams(0.0235294122248888, -128)
METADATA = metadata_text("cortex-m55", "0.1.0", "NHWC", (QPARAMS,), (QPARAMS,))


class TwoInputs(torch.nn.Module):
    """Two inputs, two outputs, weights, a tensor list and an integer constant."""

    table: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(5, 3)
        self.register_buffer("table", torch.arange(7, dtype=torch.int64))

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.relu(self.linear(x)), torch.cat([y, self.table, y])


class Table(torch.nn.Module):
    table: torch.Tensor

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


def patched(data: bytes, at: int, code: str, value: int) -> bytes:
    changed = bytearray(data)
    struct.pack_into(f"<{code}", changed, at, value)
    return bytes(changed)


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
