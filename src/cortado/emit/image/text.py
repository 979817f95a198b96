"""An image in words, and as JSON."""

from dataclasses import asdict
from typing import Any

from cortado.emit.image.reader import ImageInfo, ImageTensor

_FEEDING = ("whole", "row by row", "an endless stream of rows")


def image_as_json(info: ImageInfo) -> dict[str, Any]:
    head = info.head
    return {
        "name": info.name,
        "target": info.target,
        "core": info.core.name.lower(),
        "format": head.format,
        "kernels_version": info.version,
        "bytes": head.bytes,
        "arena_bytes": head.arena_bytes,
        "ram_bytes": head.ram_bytes,
        "state_bytes": head.state_bytes,
        "input_comes": _FEEDING[head.feeding] if head.feeding < len(_FEEDING) else "unknown",
        "stages": head.stages,
        "steps": head.steps,
        "inputs": [asdict(tensor) for tensor in info.inputs],
        "outputs": [asdict(tensor) for tensor in info.outputs],
        "kernels": [{"kernel": kernel.name, "number": f"{kernel.id:08x}"} for kernel in info.kernels],
    }


def image_text(info: ImageInfo) -> str:
    head, data = info.head, image_as_json(info)
    rows = [
        ("image", f"{info.name} for {info.target}, format {head.format}, kernels of Cortado {info.version}"),
        ("size", f"{head.bytes:,} bytes; {head.ram_bytes:,} bytes of RAM for its tables"),
        ("arena", f"{head.arena_bytes:,} bytes" + (f", {head.state_bytes:,} of state" if head.state_bytes else "")),
        ("runs", f"{head.steps} steps in {head.stages} stages; inputs come {data['input_comes']}"),
        *((f"input {i}", _tensor(one)) for i, one in enumerate(info.inputs)),
        *((f"output {i}", _tensor(one)) for i, one in enumerate(info.outputs)),
        *(("kernel", f"{kernel.name} ({kernel.id:08x})") for kernel in info.kernels),
    ]
    return "\n".join(f"{label:>9}  {text}" for label, text in rows)


def _tensor(tensor: ImageTensor) -> str:
    scale = "" if tensor.scale is None else f", scale {tensor.scale:.9g}, zero point {tensor.zero_point}"
    return f"{tensor.name}: {tensor.dtype} {list(tensor.shape)}, {tensor.bytes:,} bytes at {tensor.offset:,}{scale}"
