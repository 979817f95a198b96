"""Texts about a .pte, for people and for programs."""

from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

from cortado.pte.info import METADATA_METHOD, Dynamism, IoQParams, Metadata, Method, MethodPort, PteConstant, PteInfo

_LABEL = 13


def format_info(info: PteInfo) -> str:
    """Returns the text that `cortado inspect` prints."""
    lines = _file_lines(info)
    for method in info.methods:
        if method.name != METADATA_METHOD:
            lines += ["", *_method_lines(method, info.metadata if method.instructions else None)]
    return "\n".join([*lines, "", *_constant_lines(info)]) + "\n"


def info_as_json(info: PteInfo) -> dict[str, Any]:
    """Returns the same facts, plus every constant, use and scratch buffer, as plain dicts and lists for
    `json.dumps`."""
    facts: dict[str, Any] = _jsonable(info)
    facts["constant_bytes"] = info.constant_bytes
    for method, plain in zip(info.methods, facts["methods"], strict=True):
        plain["arena_bytes"], plain["scratch_bytes"] = method.arena_bytes, method.scratch_bytes
        plain["state_bytes"] = method.state_bytes
    return facts


def _jsonable(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.name.lower()
    if is_dataclass(value):
        return {field.name: _jsonable(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, tuple):
        return [_jsonable(item) for item in value]
    return value


def _line(label: str, text: str, indent: str = "") -> str:
    return f"{indent}{label:<{_LABEL - len(indent)}}{text}"


def _plain(text: str) -> str:
    """Escapes characters that a terminal would interpret."""
    return text if text.isprintable() else text.encode("unicode_escape").decode("ascii")


def _plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def _file_lines(info: PteInfo) -> list[str]:
    metadata = info.metadata
    if metadata is None:
        lines = [_line("target", "not recorded: Cortado did not write this file")]
    else:
        writer = _plain(f"Cortado {metadata.version}".strip())
        lines = [_line("target", metadata.target), _line("written by", writer)]
        lines += [_line("layout", _plain(metadata.layout))] if metadata.layout else []
    operators = {use.name for method in info.methods for use in method.operators}
    if any(name.startswith("cortex_m::") and "_nhwc." in name for name in operators):
        lines.append(_line("runtime", "ExecuTorch 1.5.1 or newer with the cortex_m operators (for the _nhwc ones)"))
    elif any(name.startswith("cortex_m::") for name in operators):
        lines.append(_line("runtime", "ExecuTorch with the cortex_m operators"))
    data = sum(segment.size for segment in info.segments)
    lines.append(_line("file", f"{info.size:,} bytes: program {info.program_size:,}, data {data:,}"))
    return lines


def _method_lines(method: Method, metadata: Metadata | None) -> list[str]:
    lines = [f"method {_plain(method.name)}: {_plural(method.instructions, 'instruction')}"]
    lines += _port_lines("input", method.inputs, metadata.inputs if metadata else ())
    lines += _port_lines("output", method.outputs, metadata.outputs if metadata else ())
    arena = f"{method.arena_bytes:,} bytes"
    if len(method.arena) > 2:
        arena += " in memories of " + ", ".join(f"{size:,}" for size in method.arena[1:])
    lines.append(_line("arena", arena, "  "))
    if method.state:
        count = _plural(len(method.state), "buffer")
        text = f"{method.state_bytes:,} bytes ({count}) that persist from call to call, inside the arena"
        lines.append(_line("state", text, "  "))
    if method.scratch:
        count = _plural(len(method.scratch), "buffer")
        lines.append(_line("scratch", f"{method.scratch_bytes:,} bytes at most ({count}), inside the arena", "  "))
    loading = method.loading
    text = f"method allocator {loading.method_bytes:,} bytes and temp allocator {loading.temp_bytes:,}, "
    lines.append(_line("loading", text + f"or method allocator {loading.alone_bytes:,} alone", "  "))
    for delegate in method.delegates:
        lines.append(_line("delegate", f"{_plain(delegate.name)}: {delegate.nbytes:,} bytes", "  "))
    width = max((len(f"{use.count:,}") for use in method.operators), default=0)
    for i, use in enumerate(method.operators):
        lines.append(_line("" if i else "operators", f"{use.count:>{width},}  {_plain(use.name)}", "  "))
    return lines


def _port_lines(label: str, ports: tuple[MethodPort, ...], qparams: tuple[IoQParams | None, ...]) -> list[str]:
    rows = []
    for i, port in enumerate(ports):
        known = qparams[i] if i < len(qparams) else None
        rows.append((*_port_cells(port), f"scale {known.scale:.9g}, zero point {known.zero_point}" if known else ""))
    kinds, shapes, sizes = (max((len(row[i]) for row in rows), default=0) for i in range(3))
    return [
        _line(f"{label} {i}", f"{kind:<{kinds}}  {shape:<{shapes}}  {size:>{sizes}}  {text}".rstrip(), "  ")
        for i, (kind, shape, size, text) in enumerate(rows)
    ]


def _port_cells(port: MethodPort) -> tuple[str, str, str]:
    if port.tensor is None:
        return port.kind.name.lower(), "", ""
    bound = {Dynamism.STATIC: "", Dynamism.BOUNDED: " at most", Dynamism.UNBOUNDED: " unbounded"}[port.tensor.dynamism]
    return port.tensor.dtype.name.lower(), f"{list(port.tensor.shape)}{bound}", f"{port.tensor.nbytes:,} bytes"


def _constant_lines(info: PteInfo) -> list[str]:
    """Tabulates the constants, summed by their role in the operators that read them."""
    count, total = len(info.constants), sum(constant.nbytes for constant in info.constants)
    padding = info.constant_bytes - total
    lines = [f"constants: {total:,} bytes in {_plural(count, 'tensor')}, and {padding:,} bytes of padding"]
    roles: dict[str, list[int]] = {}
    for constant in info.constants:
        roles.setdefault(_role(constant), []).append(constant.nbytes)
    rows = sorted(((sum(sizes), len(sizes), role) for role, sizes in roles.items()), key=lambda row: (-row[0], row[2]))
    width = max((len(f"{size:,}") for size, _, _ in rows), default=0)
    return lines + [f"  {size:>{width},} bytes  {_plain(role)} ({_plural(n, 'tensor')})" for size, n, role in rows]


def _role(constant: PteConstant) -> str:
    """Returns the role of a constant: its argument's name in its first reader."""
    if not constant.uses:
        return "unused"
    use = constant.uses[0]
    return f"argument {use.argument} of {use.operator}" if use.argument.startswith("#") else use.argument
