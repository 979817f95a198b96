"""docs/onnx.md: its table of operators, from their builders."""

from cortado.onnx.files import OLDEST_OPSET
from cortado.onnx.reader import registered


def table() -> str:
    rows = [f"| `{kind}` | {found.limits or '-'} |" for kind, found in sorted(registered().items())]
    head = [f"{len(rows)} operators of ONNX, opset {OLDEST_OPSET} and newer.", "", "| operator | limits |", "|---|---|"]
    return "\n".join([*head, *rows]) + "\n"
