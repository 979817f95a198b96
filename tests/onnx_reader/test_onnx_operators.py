"""Every operator that is read from ONNX files, on the official cases of ONNX itself: equal, or refused by name."""

from pathlib import Path

import numpy as np
import pytest
import torch

from cortado.base.errors import CortadoError
from cortado.onnx.model import load_onnx
from cortado.onnx.reader import registered
from helpers.onnx_models import official_cases, with_one_input

# Operators whose official cases have something that no compiled model has: only constants, random masks, codes alone.
WITHOUT_CASES = {"Constant", "Shape", "Size", "ConstantOfShape", "Range", "CastLike", "QuantizeLinear", "GRU"}
# Codes of uint8 are int8 here; which of equal values comes first is torch's choice.
OTHERWISE = ("test_quantizelinear", "test_top_k_same_values")
# Cases that are refused, by operator: no operator may refuse all of its cases.
MOST_REFUSED = 0.9
PLAIN = {kind for kind, one in registered().items() if "" in one.domains}  # test_onnx_ml.py has the others
pytestmark = pytest.mark.xdist_group("onnx")  # the cases are made once


@pytest.mark.parametrize("kind", sorted(PLAIN - WITHOUT_CASES))
def test_official_cases(kind: str, tmp_path: Path) -> None:
    checked, refused, reasons = 0, 0, list[str]()
    for case in official_cases().get(kind, []):
        if case.name.startswith(OTHERWISE):
            continue
        path, given, expected = with_one_input(case, tmp_path)
        name = case.model.graph.input[0].name
        try:
            model = load_onnx(path, {name: given.shape} if given.ndim and given.size else None)
        except CortadoError as error:
            refused += 1
            reasons.append(str(error))
            continue
        with torch.no_grad():
            found = model(torch.from_numpy(given.astype(np.float32) if given.dtype.kind == "f" else given.copy()))
        for output, right in zip(found if isinstance(found, tuple) else (found,), expected, strict=False):
            assert tuple(output.shape) == right.shape, case.name
            np.testing.assert_allclose(
                output.numpy().astype(np.float64),
                right.astype(np.float64),
                rtol=1e-3,
                atol=1e-5,
                err_msg=case.name,
            )
        checked += 1
    assert checked > 0, "no case was checked"
    assert [one for one in reasons if f"({kind}) of model.onnx" not in one and "has the shape" not in one] == []
    assert refused <= MOST_REFUSED * (checked + refused)


def test_every_operator_has_cases() -> None:
    assert PLAIN - set(official_cases()) <= WITHOUT_CASES
