"""For ExecuTorch's developer tools: ETRecord and bundled programs."""

import io
import re
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.export import ExportedProgram

from cortado.base.arrays import ArrayType
from cortado.emit.pte.edge import METHOD, edge_manager
from cortado.ir.op import registry
from cortado.ir.schemas import overload


def register_operators() -> None:
    """Makes torch know every operator. A process has to call it before it reads an ETRecord, as Inspector does."""
    for operator in registry().operators.values():
        overload(operator)


def make_etrecord(edge: ExportedProgram, finished: Any) -> bytes:
    """The edge graph and which of its nodes each instruction came from."""
    from executorch.devtools import generate_etrecord

    stream = io.BytesIO()
    generate_etrecord(stream, edge_manager(edge), finished)
    return _normalized(stream.getvalue())


# Where a graph lay in memory; within one file, too, the same place may have held two graphs.
_GRAPH_ID = re.compile(rb'(\\*"graph_id\\*": )\d+')


def _normalized(archive: bytes) -> bytes:
    """The same archive with all files from 1980 and no addresses in them: the same model gives the same bytes."""
    stream = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(archive)) as old, zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as new:
        for name in sorted(old.namelist()):
            new.writestr(zipfile.ZipInfo(name), _GRAPH_ID.sub(rb"\g<1>0", old.read(name)))
    return stream.getvalue()


def bundle_pte(data: bytes, samples: Sequence[Sequence[ArrayType]], expected: Sequence[Sequence[ArrayType]]) -> bytes:
    """A .bpte: the program with inputs and the outputs it must give, for ExecuTorch's runners to check on a device."""
    from executorch.devtools import BundledProgram
    from executorch.devtools.bundled_program.config import MethodTestCase, MethodTestSuite
    from executorch.devtools.bundled_program.serialize import serialize_from_bundled_program_to_flatbuffer

    def tensors(arrays: Sequence[ArrayType]) -> list[torch.Tensor]:
        return [torch.from_numpy(np.array(array, order="C")) for array in arrays]

    cases = [
        MethodTestCase(inputs=tensors(given), expected_outputs=tensors(wanted))
        for given, wanted in zip(samples, expected, strict=True)
    ]
    with tempfile.TemporaryDirectory(prefix="cortado-") as folder:
        path = Path(folder) / "model.pte"
        path.write_bytes(data)
        bundled = BundledProgram(None, [MethodTestSuite(METHOD, cases)], str(path))
        return bytes(serialize_from_bundled_program_to_flatbuffer(bundled))
