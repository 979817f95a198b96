"""What loading a .pte takes of the runtime's allocators: exactly what `inspect` says, on this machine and in the types
of a 32-bit core."""

import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from cortado.api import Compiled, Model, Options, prepare
from cortado.base.errors import CortadoError
from cortado.options import Activations
from cortado.pte.info import Method
from cortado.pte.method import Pointer
from cortado.pte.reader import read_pte
from cortado.pte.text import format_info, info_as_json
from cortado.run.executorch_host import FLOAT_TEMP_BYTES, run_pte, wheel

pytestmark = pytest.mark.filterwarnings("ignore::cortado.base.errors.CortadoWarning")

Tensor = torch.Tensor


class Joined(nn.Module):
    """Lists of tensors, layers of several ranks, a buffer that lasts."""

    last: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(2, 4, 3, padding=1), nn.Conv2d(2, 4, 1)
        self.register_buffer("last", torch.zeros(1, 8))

    def forward(self, x: Tensor) -> Tensor:
        y = torch.cat([self.first(x), self.second(x)], 1).mean((2, 3))
        self.last = self.last * 0.5 + y
        return torch.softmax(self.last, 1)


class Recurrent(nn.Module):
    """Written out in float kernels."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.out = nn.LSTM(8, 4, batch_first=True), nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.out(self.layer(x)[0])
        return y


def compiled(kind: type[nn.Module], shape: tuple[int, ...], options: Options) -> Compiled:
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(5)
        model = kind().eval()
        data = [(torch.randn(shape),) for _ in range(8)]
    return prepare(model, data[0], data, options=Options(state=Activations.INT8)).compile("cortex-m4", options)


def method_of(data: bytes) -> Method:
    method = read_pte(data).method("forward")
    assert method is not None
    return method


def runs(data: bytes, shape: tuple[int, ...], method_bytes: int, temp_bytes: int) -> bool:
    try:
        run_pte(data, [[np.zeros(shape, np.float32)]], method_bytes=method_bytes, temp_bytes=temp_bytes)
    except CortadoError as error:
        if "MemoryAllocationFailed" not in str(error):
            raise
        return False
    return True


@pytest.mark.host
@pytest.mark.parametrize(
    ("kind", "shape", "allow_float"),
    [(Joined, (1, 2, 6, 6), False), (Recurrent, (1, 3, 8), True)],
    ids=["operators and state", "float"],
)
def test_a_method_loads_in_just_these_bytes(kind: type[nn.Module], shape: tuple[int, ...], allow_float: bool) -> None:
    pte = compiled(kind, shape, Options(allow_float=allow_float)).pte
    assert pte is not None
    needed = method_of(pte.data).host_loading
    temp = max(needed.temp_bytes, FLOAT_TEMP_BYTES if allow_float else 0)
    assert runs(pte.data, shape, needed.method_bytes, temp)
    assert not runs(pte.data, shape, needed.method_bytes - 1, temp)
    assert runs(pte.data, shape, needed.alone_bytes, 0)
    assert not runs(pte.data, shape, needed.alone_bytes - 1, 0)
    assert needed.method_bytes < needed.alone_bytes


def test_inspect_says_it(tiny: Model) -> None:
    pte = tiny.compile("cortex-m55").pte
    assert pte is not None
    info, needed = read_pte(pte.data), method_of(pte.data).loading
    assert 500 < needed.method_bytes < needed.alone_bytes < method_of(pte.data).host_loading.alone_bytes
    text = format_info(info)
    assert f"method allocator {needed.method_bytes:,} bytes and temp allocator {needed.temp_bytes:,}" in text
    assert f"or method allocator {needed.alone_bytes:,} alone" in text
    (forward,) = [method for method in info_as_json(info)["methods"] if method["name"] == "forward"]
    assert forward["loading"]["method_bytes"] == needed.method_bytes


TYPES = """
#include <executorch/runtime/core/evalue.h>
#include <executorch/runtime/core/exec_aten/util/tensor_dimension_limit.h>
#include <executorch/runtime/executor/method.h>
#include <executorch/runtime/kernel/operator_registry.h>
using executorch::aten::Tensor;
using executorch::aten::TensorImpl;
using executorch::runtime::ArrayRef;
using executorch::runtime::BoxedEvalueList;
using executorch::runtime::EValue;
using executorch::runtime::InstructionArgs;
using executorch::runtime::OpFunction;
using executorch::runtime::TensorMeta;
static_assert(sizeof(void *) == POINTER, "");
static_assert(sizeof(EValue) == 16 && alignof(EValue) == 8, "");
static_assert(sizeof(TensorImpl) == 8 * POINTER && alignof(TensorImpl) == POINTER, "");
static_assert(sizeof(Tensor) == POINTER && sizeof(std::optional<Tensor>) == 2 * POINTER, "");
static_assert(sizeof(BoxedEvalueList<int64_t>) == 3 * POINTER && sizeof(BoxedEvalueList<Tensor>) == 3 * POINTER, "");
static_assert(sizeof(ArrayRef<bool>) == 2 * POINTER && sizeof(InstructionArgs) == 2 * POINTER, "");
static_assert(sizeof(OpFunction) == POINTER && sizeof(TensorMeta) == 3 * POINTER, "");
static_assert(sizeof(Tensor::SizesType) == 4 && sizeof(Tensor::StridesType) == 4, "");
static_assert(sizeof(Tensor::DimOrderType) == 1 && executorch::runtime::kTensorDimensionLimit == 16, "");
"""


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    ("compiler", "pointer"),
    [
        (("c++",), Pointer.HOST),
        (("arm-none-eabi-g++", "-mcpu=cortex-m0plus", "-mthumb"), Pointer.CORE),
        (("arm-none-eabi-g++", "-mcpu=cortex-m55", "-mthumb"), Pointer.CORE),
    ],
    ids=["host", "M0+", "M55"],
)
def test_the_runtimes_types_have_these_sizes(compiler: tuple[str, ...], pointer: Pointer, tmp_path: Path) -> None:
    source = tmp_path / "types.cpp"
    source.write_text(TYPES)
    flags = ["-std=c++17", "-fsyntax-only", f"-DPOINTER={int(pointer)}", *wheel().compile_flags]
    done = subprocess.run([*compiler, *flags, str(source)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
