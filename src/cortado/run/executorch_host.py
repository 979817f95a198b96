"""Runs a .pte on the real ExecuTorch runtime of this machine, with Cortado's kernels as the `cortex_m` operators.

The wheel's runtime library is linked to a small program that acts as firmware: it gives the file its planned arena and
nothing else. It runs in a process of its own, so a damaged file can crash only that process. Everything is built on
first use and cached by content.
"""

import importlib.metadata
import importlib.util
import re
import signal
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from cortado.base.arrays import ArrayType
from cortado.base.errors import CortadoError
from cortado.base.system import KERNEL_FILES, KERNEL_FOLDERS, KERNELS
from cortado.pte.info import Dynamism, Method, MethodPort, ScalarType, TensorInfo
from cortado.pte.reader import read_pte
from cortado.run import sandbox, toolchain
from cortado.run.sandbox import Limits, TooMuch

ADAPTER = KERNELS / "executorch"
HEADER = ADAPTER / "cortex_m_ops.h"
METHOD = "forward"
TIMEOUT_SECONDS = 600.0
FILE_BYTES = 4 << 30  # of outputs
FLOAT_TEMP_BYTES = 1 << 20  # some of ExecuTorch's float kernels (topk) take memory from the temp allocator

ADAPTER_SOURCES = (
    "arguments.cpp",
    "arm_limits.cpp",
    "ops_convolution.cpp",
    "ops_elementwise.cpp",
    "ops_matmul.cpp",
    "ops_movement.cpp",
    "ops_pool.cpp",
    "registration.cpp",
    "workspace.cpp",
)
"""The operator library; the CMakeLists.txt in that folder lists the same files."""

LINKED_KERNELS = (
    "add_s8.c",
    "avg_pool2d_s8.c",
    "batch_matmul_s8.c",
    "conv1x1_s8.c",
    "conv2d_s8.c",
    "depthwise_s8.c",
    "dequantize_s8_f32.c",
    "div_s8.c",
    "max_pool2d_s8.c",
    "maximum_s8.c",
    "minimum_s8.c",
    "mul_s8.c",
    "pad_s8.c",
    "quantize_f32_s8.c",
    "softmax_s8.c",
    "table_s8.c",
    "transpose_conv2d_s8.c",
    "transpose_s8.c",
)
"""The portable kernels that the operators call: they read a .pte's constants without repacking."""

_NUMPY = {
    ScalarType.UINT8: np.uint8,
    ScalarType.INT8: np.int8,
    ScalarType.INT16: np.int16,
    ScalarType.INT32: np.int32,
    ScalarType.INT64: np.int64,
    ScalarType.FLOAT32: np.float32,
    ScalarType.FLOAT64: np.float64,
    ScalarType.BOOL: np.bool_,
}


# ---- The installed ExecuTorch ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Wheel:
    """ExecuTorch as pip installed it: headers and prebuilt runtime."""

    root: Path
    version: str

    @property
    def libraries(self) -> Path:
        return self.root / "lib"

    @property
    def compile_flags(self) -> tuple[str, ...]:
        include = self.root / "include"
        c10 = include / "executorch" / "runtime" / "core" / "portable_type" / "c10"
        # The version is part of the cache key: the headers themselves are too many to hash.
        definitions = ("-DC10_USING_CUSTOM_GENERATED_MACROS", f'-DCORTADO_EXECUTORCH_VERSION="{self.version}"')
        # Profiling hooks cost nothing without a tracer, and let ExecuTorch's Inspector see the operators.
        return (*definitions, "-DET_EVENT_TRACER_ENABLED", "-isystem", str(include), "-isystem", str(c10))

    @property
    def link_flags(self) -> tuple[str, ...]:
        folder = str(self.libraries)
        kernels = ("-lexecutorch_kernels_optimized", "-lexecutorch_kernels_quantized")
        libraries = ("-Wl,--no-as-needed", "-lexecutorch", *kernels)
        return (f"-L{folder}", f"-Wl,-rpath,{folder}", "-Wl,-z,defs", *libraries)


@cache
def wheel() -> Wheel:
    """Locates the installed ExecuTorch, without importing its Python code."""
    spec = importlib.util.find_spec("executorch")
    if spec is None or not spec.submodule_search_locations:
        raise CortadoError(
            "ExecuTorch is not installed; it is needed to run a .pte. Install it with: pip install executorch==1.5.1"
        )
    found = Wheel(Path(next(iter(spec.submodule_search_locations))), importlib.metadata.version("executorch"))
    for part in (found.libraries / "libexecutorch.so", found.root / "include"):
        if not part.exists():
            raise CortadoError(
                f"the installed ExecuTorch {found.version} has no {part.relative_to(found.root)}, expected the "
                "runtime of a Linux wheel of 1.5.1. Install it with: pip install executorch==1.5.1"
            )
    return found


# ---- Building ----------------------------------------------------------------------------------------------------

# The host has enough stack: no layer, however wide, needs a temp allocator here.
HOST_FLAGS = ("-O2", "-ffp-contract=off", "-DCORTADO_ET_STACK_BYTES=262144")


def adapter_sources() -> list[Path]:
    return [*(ADAPTER / name for name in ADAPTER_SOURCES), *(KERNEL_FILES[name] for name in LINKED_KERNELS)]


def include_dirs() -> list[Path]:
    return [*KERNEL_FOLDERS, ADAPTER]


def operator_library(flags: Sequence[str] = ()) -> Path:
    """Builds a shared library that registers the `cortex_m` operators when it is loaded.

    To run a .pte from Python: `import executorch.runtime`, then load this with `ctypes.CDLL(path,
    mode=ctypes.RTLD_GLOBAL)`, then `Runtime.get().load_program(...)`.
    """
    found = wheel()
    all_flags = [*HOST_FLAGS, *found.compile_flags, *flags]
    return toolchain.compile_shared(
        adapter_sources(), include_dirs(), all_flags, "cortado_cortex_m_ops", found.link_flags
    )


def runner_program(flags: Sequence[str] = ()) -> Path:
    """Builds the program that runs a .pte; `flags` are passed on to the compiler."""
    return build_program([ADAPTER / "pte_runner.cpp", ADAPTER / "pte_target.c"], "pte_runner", flags)


def build_program(sources: Sequence[Path], name: str, flags: Sequence[str] = ()) -> Path:
    """Builds a program from these sources, the operator library and the runtime."""
    found = wheel()
    # -fPIC only to share object files with operator_library.
    all_flags = [*HOST_FLAGS, *found.compile_flags, *flags, "-fPIC"]
    all_sources = [*adapter_sources(), *sources]
    return toolchain.build_executable(all_sources, include_dirs(), all_flags, name, found.link_flags)


@dataclass(frozen=True)
class DelegateKernels:
    """The sources that CortadoBackend is linked with: cortado_kernels.c, and the files of kernels/src that it needs."""

    table: str
    sources: tuple[str, ...]

    def files(self, folder: Path) -> list[Path]:
        """Returns the delegate, the loader, the kernels, and the table, which it writes to the folder."""
        table = folder / "cortado_kernels.c"
        table.write_text(self.table)
        return [
            ADAPTER / "delegate.cpp",
            table,
            *(KERNEL_FILES[name] for name in ("cortado_image.c", *self.sources)),
        ]


def _delegate_program(kernels: DelegateKernels, flags: Sequence[str]) -> Path:
    """Builds the runner with the delegate in addition to the operators."""
    with tempfile.TemporaryDirectory(prefix="cortado-") as temporary:
        more = [path for path in kernels.files(Path(temporary)) if path.name not in LINKED_KERNELS]
        own = [ADAPTER / "pte_runner.cpp", ADAPTER / "pte_target.c"]
        return build_program([*own, *more], "delegate_runner", flags)


# ---- Running -----------------------------------------------------------------------------------------------------


def run_pte(
    pte: bytes | str | Path,
    samples: Sequence[Sequence[ArrayType]],
    *,
    flags: Sequence[str] = (),
    temp_bytes: int = 0,
    method_bytes: int = 0,
    imitate: bool = True,
    timeout: float = TIMEOUT_SECONDS,
    delegate: DelegateKernels | None = None,
    method_name: str = METHOD,
) -> list[list[ArrayType]]:
    """Returns every output of every sample. `samples` have the file's own input types and shapes; if dynamic, the
    largest.

    `flags` are passed on to the compiler of the runner. `temp_bytes` is the size of the runtime's temp allocator, which
    Cortado's files need only for float operators; `method_bytes` that of its method allocator, by default as much as it
    requests. Without `imitate`, operators return the reference's bits even where those of the file's target differ: the
    float32 to int8 conversion on MVE. `delegate` adds CortadoBackend with these kernels.
    """
    data, name = _read(pte)
    info = read_pte(data, name)
    method = info.method(method_name)
    if method is None:
        raise CortadoError(f"{name} has no method '{method_name}', only {', '.join(m.name for m in info.methods)}")
    _check_operators(method, name)
    feed = b"".join(_input_bytes(method, sample, position, name) for position, sample in enumerate(samples))
    outputs = [_static(port, f"output {i} of {name}") for i, port in enumerate(method.outputs)]
    program = runner_program(flags) if delegate is None else _delegate_program(delegate, flags)
    with tempfile.TemporaryDirectory(prefix="cortado-") as temporary:
        folder = Path(temporary)
        model, given, got = folder / "model.pte", folder / "inputs.bin", folder / "outputs.bin"
        model.write_bytes(data)
        given.write_bytes(feed)
        command = [program, model, given, got, len(samples), temp_bytes, method_bytes, int(imitate), method_name]
        _run_child([str(word) for word in command], name, timeout)
        return _split(got.read_bytes(), outputs, len(samples), name)


def _read(pte: bytes | str | Path) -> tuple[bytes, str]:
    if isinstance(pte, bytes):
        return pte, "the .pte"
    try:
        return Path(pte).read_bytes(), str(pte)
    except OSError as error:
        raise CortadoError(f"can't read {pte}: {error.strerror}; give the path of a .pte file") from error


def _check_operators(method: Method, name: str) -> None:
    """Raises for unknown `cortex_m` operators with a clear message; operators of other libraries are left to the
    runtime."""
    known = registered_operators()
    unknown = [use.name for use in method.operators if use.name.startswith("cortex_m::") and use.name not in known]
    if unknown:
        raise CortadoError(
            f"{name} calls {', '.join(unknown)}, which Cortado's operator library does not have; "
            "compile the model with this version of Cortado"
        )


def _static(port: MethodPort, what: str) -> TensorInfo:
    if port.tensor is None:
        raise CortadoError(f"{what} is a {port.kind.name.lower()}, expected a tensor")
    if port.tensor.dynamism is Dynamism.UNBOUNDED or port.tensor.dtype not in _NUMPY:
        shape = "a dynamic shape" if port.tensor.dtype in _NUMPY else f"type {port.tensor.dtype.name.lower()}"
        raise CortadoError(f"{what} has {shape}, which this runner does not support")
    return port.tensor


def _input_bytes(method: Method, sample: Sequence[ArrayType], position: int, name: str) -> bytes:
    if len(sample) != len(method.inputs):
        raise CortadoError(f"sample {position} has {len(sample)} inputs, but {name} takes {len(method.inputs)}")
    parts = []
    for i, (value, port) in enumerate(zip(sample, method.inputs, strict=True)):
        tensor = _static(port, f"input {i} of {name}")
        expected = np.dtype(_NUMPY[tensor.dtype])
        if tuple(value.shape) != tensor.shape or value.dtype != expected:
            raise CortadoError(
                f"input {i} of sample {position} is {value.dtype} {list(value.shape)}, but {name} takes {expected} "
                f"{list(tensor.shape)}"
            )
        # The file may store dimensions in another order than that of its shape.
        order = tensor.dim_order or tuple(range(len(tensor.shape)))
        parts.append(np.ascontiguousarray(value.transpose(order)).tobytes())
    return b"".join(parts)


def _split(data: bytes, outputs: Sequence[TensorInfo], count: int, name: str) -> list[list[ArrayType]]:
    total = sum(tensor.nbytes for tensor in outputs)
    if len(data) != total * count:
        raise CortadoError(f"running {name} returned {len(data)} bytes, expected {total * count}")
    samples, position = [], 0
    for _ in range(count):
        sample = []
        for tensor in outputs:
            piece: ArrayType = np.frombuffer(data[position : position + tensor.nbytes], dtype=_NUMPY[tensor.dtype])
            order = tensor.dim_order or tuple(range(len(tensor.shape)))
            stored = piece.reshape([tensor.shape[dim] for dim in order])
            sample.append(stored.transpose(np.argsort(order)) if order else stored)
            position += tensor.nbytes
        samples.append(sample)
    return samples


_LOG_LINES = 8
# The lines that the runtime adds to a refusal: one per argument of the call.
_NOISE = re.compile(r"\] arg \d+ with type id \d+$")


def _run_child(command: Sequence[str], name: str, timeout: float) -> None:
    try:
        done = sandbox.run(command, Limits(seconds=timeout, file_bytes=FILE_BYTES), doing=name)
    except TooMuch as error:
        raise CortadoError(
            f"the ExecuTorch runtime did not finish {name} in {timeout:.0f} seconds; "
            "the file may be damaged (compile the model again), or give it fewer samples at a time"
        ) from error
    if done.code == 0:
        return
    lines = done.errors.splitlines()
    lines = [line for line in lines if line.strip() and not _NOISE.search(line)]
    log = "\n  ".join(lines[-_LOG_LINES:]) or "(it printed nothing)"
    if done.code < 0:
        raise CortadoError(
            f"the ExecuTorch runtime was killed by {_signal_name(-done.code)} while it ran {name}; "
            f"the file is damaged, or was changed after it was compiled. Compile the model again. It printed:\n  {log}"
        )
    raise CortadoError(f"the ExecuTorch runtime refused {name}:\n  {log}")


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


# ---- The operator list: cortex_m_ops.h is written from the registry ----------------------------------------------

_CPP_TYPES = {
    "Tensor": "const Tensor &",
    "Tensor?": "const std::optional<Tensor> &",
    "int": "int64_t ",
    "float": "double ",
    "bool": "bool ",
    "int[]": "ArrayRef<int64_t> ",
    "ScalarType": "ScalarType ",
}
_WIDTH = 120
_NHWC = "_nhwc"


@cache
def registered_operators() -> frozenset[str]:
    """Returns the full names of the operators that the library registers, read from its header."""
    lines = HEADER.read_text().splitlines()
    bases = [line.strip()[2:].split(")")[0] for line in lines if line.strip().startswith("X(")]
    return frozenset(f"cortex_m::{base}.out" for base in bases)


def operator_header() -> str:
    """Returns cortex_m_ops.h: declarations of all `cortex_m` operators in the registry that a .pte can contain, and
    their list.

    An operator on NHWC tensors also gets a twin, whose tensors have NCHW shapes and channels-last memory format.
    """
    from cortado.ir.op import registry

    operators = [operator for operator in registry().operators.values() if operator.namespace == "cortex_m"]
    entries = {operator.base: operator.arguments for operator in operators}
    entries |= {base.removesuffix(_NHWC): arguments for base, arguments in entries.items() if base.endswith(_NHWC)}
    declarations = "\n".join(_declaration(base, arguments) for base, arguments in sorted(entries.items()))
    listed = " \\\n".join(f"    X({base})" for base in sorted(entries))
    return _TEMPLATE.format(declarations=declarations, listed=listed)


def _declaration(base: str, arguments: str) -> str:
    words = [part.strip().split(" ") for part in arguments.split(",")]
    parameters = [f"{_CPP_TYPES[kind]}{name}" for kind, name in words]
    start = f"Tensor &{base}_out("
    lines, indent = [start], " " * len(start)
    for parameter in ("KernelRuntimeContext &context", *parameters, "Tensor &out"):
        piece = parameter + (");" if parameter == "Tensor &out" else ",")
        if len(lines[-1]) + 1 + len(piece) > _WIDTH:
            lines.append(indent + piece)
        else:
            lines[-1] += piece if lines[-1].endswith("(") else f" {piece}"
    return "\n".join(lines)


_TEMPLATE = """\
/* SPDX-License-Identifier: Apache-2.0
 *
 * Written by `python -m cortado.run.executorch_host` from Cortado's operator registry; do not edit.
 */
#ifndef CORTADO_CORTEX_M_OPS_H
#define CORTADO_CORTEX_M_OPS_H

#include <executorch/runtime/kernel/kernel_includes.h>

#include <cstdint>
#include <optional>

namespace cortex_m {{
namespace native {{

using executorch::aten::ArrayRef;
using executorch::aten::ScalarType;
using executorch::aten::Tensor;
using executorch::runtime::KernelRuntimeContext;

{declarations}

}} // namespace native
}} // namespace cortex_m

#define CORTADO_CORTEX_M_OPS(X) \\
{listed}

/* Registers them; for builds with CORTADO_ET_MANUAL_REGISTRATION. Call it once. Returns 0. */
extern "C" int cortado_register_cortex_m_ops(void);

#endif /* CORTADO_CORTEX_M_OPS_H */
"""


def main() -> None:
    """Writes cortex_m_ops.h."""
    HEADER.write_text(operator_header())


if __name__ == "__main__":
    main()
