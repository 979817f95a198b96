"""Arrays of NumPy, and files of them: .npy and .npz, never a pickle."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cortado.base.errors import CortadoError

ArrayType = np.ndarray[Any, np.dtype[Any]]


def read_arrays(path: Path) -> dict[str, ArrayType]:
    """The arrays of a .npy (under the name '') or .npz file; pickles are refused."""
    if not path.is_file():
        raise CortadoError(f"there is no file {path}")
    if path.suffix not in (".npy", ".npz"):
        raise CortadoError(f"{path}: expected a .npy file, or .npz for several arrays")
    try:
        with path.open("rb") as stream:
            if not stream.peek(6).startswith((b"\x93NUMPY", b"PK")):  # numpy would take it for a pickle
                raise ValueError("it doesn't begin as one; np.save and np.savez write them")
            loaded = np.load(stream, allow_pickle=False)
            return {"": loaded} if isinstance(loaded, np.ndarray) else dict(loaded)
    except Exception as error:  # numpy's readers raise whatever zipfile, struct and ast do on a damaged file
        lines = str(error).splitlines() or [type(error).__name__]
        raise CortadoError(f"{path} is not a readable {path.suffix} file: {lines[0]}") from error


def in_order(arrays: Mapping[str, ArrayType], names: Sequence[str], path: Path) -> list[ArrayType]:
    """A file's arrays in the order of the model's inputs: by name, or as they come where no name is an input's."""
    known = set(arrays) & set(names)
    if known and set(arrays) != set(names):
        raise CortadoError(
            f"{path} holds the arrays {', '.join(arrays)}, expected {', '.join(names)}: the names of the model's inputs"
        )
    if len(arrays) != len(names):
        raise CortadoError(
            f"{path} holds {len(arrays)} arrays, expected {len(names)} (one for each input of the model): "
            + ", ".join(names)
        )
    return [arrays[name] for name in names] if known else list(arrays.values())
