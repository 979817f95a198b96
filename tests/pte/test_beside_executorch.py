"""Cortado in one process with ExecuTorch's own `cortex_m` package, whose operators have the same names."""

import ast
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import torch

from cortado.ir import schemas

THEIRS = "executorch.backends" + schemas.THEIRS

PROGRAM = """
import importlib, sys
import torch
from executorch.exir.dialects._ops import ops as exir_ops
from cortado.emit.pte.program import register_operators

register_operators()
known = exir_ops.edge.cortex_m.quantized_add.default
assert known._op is torch.ops.cortex_m.quantized_add.default
package = importlib.import_module({package!r})
package.__path__ = [sys.argv[1]]
importlib.import_module({theirs!r})
assert "Tensor Z" in str(torch.ops.cortex_m.quantize_per_tensor.default._schema)
register_operators()
assert exir_ops.edge.cortex_m.quantized_add.default._op is torch.ops.cortex_m.quantized_add.default is not known._op
print("both")
"""


def _stand_in() -> str:
    """A module that registers what ExecuTorch's does, as it does: it needs packages that are not here for the rest."""
    spec = find_spec("executorch")
    assert spec is not None
    assert spec.submodule_search_locations
    path = Path(spec.submodule_search_locations[0]) / "backends" / "cortex_m" / "ops" / "operators.py"
    calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
    defined = [call for call in calls if isinstance(call.func, ast.Attribute) and call.func.attr == "define"]
    schemas = [ast.literal_eval(call.args[0]) for call in defined]
    assert any("quantized_conv2d_nhwc" in schema for schema in schemas)
    lines = "".join(f"lib.define({schema!r})\n" for schema in schemas)
    return f'from torch.library import Library\nlib = Library("cortex_m", "DEF")\n{lines}'


def test_executorchs_operators_are_imported_after_ours_and_taken_from_then_on(tmp_path: Path) -> None:
    (tmp_path / "operators.py").write_text(_stand_in())
    program = PROGRAM.format(package=THEIRS.rpartition(".")[0], theirs=THEIRS)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program, tmp_path], capture_output=True, text=True, check=False
    )
    assert done.stdout.endswith("both\n"), done.stderr


def test_a_schema_is_compared_by_what_it_means() -> None:
    base, end = "cortex_m::scale(Tensor input, int zero_point=0)", " -> Tensor"
    known = schemas._meaning(torch._C.parse_schema(base + end))
    assert schemas._meaning(torch._C.parse_schema(f"{base} -> Tensor Z")) == known
    for other in (f"{base} -> Tensor[]", base.replace("=0", "=1") + end, base.replace("int ", "float ") + end):
        assert schemas._meaning(torch._C.parse_schema(other)) != known
