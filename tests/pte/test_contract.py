"""ExecuTorch's `cortex_m` operators as the installed package has them: what a .pte calls has not changed there."""

import ast
from importlib.util import find_spec
from pathlib import Path

import pytest

from cortado.ir.op import Operator, registry

OPERATORS = {operator.base: operator for operator in registry().operators.values() if operator.namespace == "cortex_m"}
ADVICE = "ExecuTorch changed an operator that .pte files call: adapt its file in src/cortado/ops and kernels/executorch"


def installed(relative: str) -> str:
    spec = find_spec("executorch")
    assert spec is not None
    assert spec.submodule_search_locations
    return (Path(spec.submodule_search_locations[0]) / "backends" / "cortex_m" / "ops" / relative).read_text()


def plain(schema: str) -> str:
    """Without the names that results may have."""
    return " ".join(schema.removeprefix("cortex_m::").split()).replace("(Tensor Z)", "Tensor")


def of_runtime() -> set[str]:
    """The schemas that the runtime's kernels are registered by."""
    lines = [line.strip() for line in installed("operators.yaml").splitlines()]
    return {plain(line.removeprefix("- func: ")) for line in lines if line.startswith("- func: ")}


def of_export() -> set[str]:
    """The schemas that ExecuTorch's own Python operators define."""
    calls = [node for node in ast.walk(ast.parse(installed("operators.py"))) if isinstance(node, ast.Call)]
    defined = [call for call in calls if isinstance(call.func, ast.Attribute) and call.func.attr == "define"]
    return {plain(ast.literal_eval(call.args[0])) for call in defined}


def of_cortado(operator: Operator) -> tuple[str, str]:
    """What a lowered graph calls, and what the runtime is asked for."""
    name, arguments = operator.base, operator.arguments
    return f"{name}({arguments}) -> Tensor", f"{name}.out({arguments}, *, Tensor(a!) out) -> Tensor(a!)"


def experimental() -> set[str]:
    """The operators that ExecuTorch says may change."""
    found = set()
    for function in ast.walk(ast.parse(installed("operators.py"))):
        if isinstance(function, ast.FunctionDef):
            called = [one for one in function.decorator_list if isinstance(one, ast.Call)]
            names = {one.func.id: one for one in called if isinstance(one.func, ast.Name)}
            if {"experimental", "register_fake"} <= names.keys():
                found.add(str(ast.literal_eval(names["register_fake"].args[0])).removeprefix("cortex_m::"))
    return found


@pytest.mark.cases(5)
@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_is_what_executorch_has(name: str) -> None:
    functional, out = of_cortado(OPERATORS[name])
    assert out in of_runtime(), ADVICE
    assert functional in of_export(), ADVICE
    assert out in of_export(), ADVICE


def test_the_operators_that_may_change_are_known() -> None:
    """Those on NHWC tensors, as docs/executorch.md says; look again when ExecuTorch settles them, or others no more."""
    used = {name for name in OPERATORS if name.endswith("_nhwc")}
    assert experimental() == used
    text = (Path(__file__).parents[2] / "docs" / "executorch.md").read_text()
    assert "marks the `_nhwc` operators as experimental" in text


def test_a_change_would_be_found() -> None:
    """Another order, another type, another name."""
    linear = of_cortado(OPERATORS["quantized_linear"])[1]
    assert linear in of_runtime()
    changes = (
        ("int activation_max, int activation_min", "int activation_min, int activation_max"),
        ("int[] requantize_shifts", "Tensor requantize_shifts"),
        ("kernel_sum", "kernel_sums"),
    )
    for old, new in changes:
        assert old in linear
        assert linear.replace(old, new) not in of_runtime()
