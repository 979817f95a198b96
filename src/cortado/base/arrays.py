"""NumPy arrays, and files of them: .npy and .npz, never a pickle."""

import math
import sys
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, BinaryIO

import numpy as np

from cortado.base.errors import CortadoError

ArrayType = np.ndarray[Any, np.dtype[Any]]


def same_bits(first: ArrayType, second: ArrayType) -> bool:
    """Whether two arrays are equal; in floating point bit by bit, so that NaN and the sign of a zero count."""
    if first.dtype == second.dtype == np.float32:
        first, second = (np.ascontiguousarray(one).view(np.uint32) for one in (first, second))
    return np.array_equal(first, second)


def ratio_in_decibels(signal: float, noise: float) -> float:
    """Returns a signal's power relative to that of noise: infinite without noise, minus infinity without a signal.
    Noise that is not finite counts as the largest number, so that a report can hold the result."""
    if noise == 0.0:
        return math.inf
    noise = noise if math.isfinite(noise) else sys.float_info.max
    return 10 * (math.log10(signal) - math.log10(noise)) if signal > 0.0 else -math.inf


def read_arrays(path: Path) -> dict[str, ArrayType]:
    """Reads the arrays of a .npy (under the name '') or .npz file; pickles are refused."""
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
    except Exception as error:  # numpy's readers raise all kinds of errors on a damaged file
        lines = str(error).splitlines() or [type(error).__name__]
        raise CortadoError(f"{path} is not a readable {path.suffix} file: {lines[0]}") from error


@dataclass(frozen=True)
class Header:
    """The header of an array in a file."""

    shape: tuple[int, ...]
    dtype: str = ""  # "" in an expected header: any dtype of numbers

    def __str__(self) -> str:
        return f"{self.dtype or 'numbers'} {list(self.shape)}"

    def fits(self, expected: "Header") -> bool:
        return self.shape == expected.shape and expected.dtype in ("", self.dtype)


def stored_headers(stream: BinaryIO) -> dict[str, Header]:
    """Returns the header of every array of an .npz file as Cortado writes it: uncompressed, so that no array is larger
    than the file. Reads only headers; a ValueError tells what is wrong."""
    size = stream.seek(0, 2)
    found = {}
    with zipfile.ZipFile(stream) as archive:
        members = archive.infolist()
        if any(one.compress_type != zipfile.ZIP_STORED for one in members) or sum(o.file_size for o in members) > size:
            raise ValueError("its arrays are compressed, or larger than the file; Cortado writes them uncompressed")
        for one in members:
            with archive.open(one) as member:
                header = _header(member)
            room = math.prod(header.shape) * np.dtype(header.dtype).itemsize
            if room > one.file_size:
                raise ValueError(f"the array {one.filename!r} claims {room:,} bytes, but there are fewer")
            found[one.filename.removesuffix(".npy")] = header
    stream.seek(0)
    return found


def _header(member: IO[bytes]) -> Header:
    version = np.lib.format.read_magic(member)
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    if version not in readers:
        raise ValueError(f"an array is of version {version}")
    shape, _, dtype = readers[version](member)
    if dtype.hasobject or dtype.fields is not None:
        raise ValueError(f"an array of {dtype}, expected numbers")
    return Header(shape, str(dtype))


def read_expected(path: Path, expected: Mapping[str, Header]) -> dict[str, ArrayType]:
    """Reads these arrays of an .npz file written by Cortado; sizes are compared before any data are read."""
    try:
        with path.open("rb") as stream:
            found = stored_headers(stream)
            for name, header in expected.items():
                if name not in found or not found[name].fits(header):
                    raise ValueError(f"'{name}' is {found.get(name, 'missing')}, expected {header}")
            with np.load(stream, allow_pickle=False) as file:
                return {name: file[name] for name in expected}
    except Exception as error:  # zipfile, struct and ast raise all kinds of errors on a damaged file
        lines = str(error).splitlines() or [type(error).__name__]
        raise CortadoError(f"{path} doesn't fit the model ({lines[0]}); compile it again") from error


def in_order(arrays: Mapping[str, ArrayType], names: Sequence[str], path: Path) -> list[ArrayType]:
    """Returns a file's arrays in the order of the model's inputs: by name, or as stored if no name is an input's."""
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
