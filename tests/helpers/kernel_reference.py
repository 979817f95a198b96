"""Exact references for the kernels in plain NumPy integers: slow, simple, and independent of the C code."""

import numpy as np

Array = np.ndarray


def requant(acc: Array, multiplier: Array | int, shift: Array | int) -> Array:
    """acc * multiplier * 2^(shift - 31): the product rounded half up, then the right shift rounded half away from 0."""
    acc, multiplier, shift = (np.asarray(value, np.int64) for value in (acc, multiplier, shift))
    v = ((acc << np.maximum(shift, 0)) * multiplier + (1 << 30)) >> 31
    right = np.maximum(-shift, 0)
    magnitude = (np.abs(v) + ((1 << right) >> 1)) >> right
    return np.sign(v) * magnitude


def finish(acc: Array, multiplier: Array | int, shift: Array | int, zero: int, low: int, high: int) -> Array:
    return np.clip(requant(acc, multiplier, shift) + zero, low, high).astype(np.int8)


def windows(x: Array, kernel: tuple[int, int], stride: tuple[int, int], padding: tuple[int, int],
            dilation: tuple[int, int], fill: int) -> Array:  # fmt: skip
    """[N, H, W, C] -> [N, out_h, out_w, kernel_h, kernel_w, C], int64, `fill` outside the image."""
    padded = np.full((x.shape[0], x.shape[1] + 2 * padding[0], x.shape[2] + 2 * padding[1], x.shape[3]), fill, np.int64)
    padded[:, padding[0] : padding[0] + x.shape[1], padding[1] : padding[1] + x.shape[2]] = x
    reach = [(kernel[i] - 1) * dilation[i] + 1 for i in range(2)]
    view = np.lib.stride_tricks.sliding_window_view(padded, reach, axis=(1, 2))
    view = view[:, :: stride[0], :: stride[1], :, :: dilation[0], :: dilation[1]]
    return view.transpose(0, 1, 2, 4, 5, 3)


def conv2d_sums(taps: Array, weights: Array, bias: Array | None, zero: int, groups: int) -> Array:
    """taps of `windows`, weights OHWI."""
    depth, per_group = weights.shape[3], len(weights) // groups
    parts = []
    for group in range(groups):
        part = taps[..., group * depth : (group + 1) * depth] - zero
        kernel = weights[group * per_group : (group + 1) * per_group].astype(np.int64)
        parts.append(np.einsum("nyxhwc,ohwc->nyxo", part, kernel))
    return np.concatenate(parts, axis=-1) + (0 if bias is None else bias)


def depthwise_sums(taps: Array, weights: Array, bias: Array | None, zero: int) -> Array:
    """taps of `windows`, weights HWO."""
    multiplier = weights.shape[2] // taps.shape[-1]
    repeated = np.repeat(taps - zero, multiplier, axis=-1)
    return np.einsum("nyxhwc,hwc->nyxc", repeated, weights.astype(np.int64)) + (0 if bias is None else bias)


def transpose_conv2d_sums(x: Array, weights: Array, bias: Array | None, zero: int, stride: tuple[int, int],
                          padding: tuple[int, int], dilation: tuple[int, int], extra: tuple[int, int],
                          groups: int) -> Array:  # fmt: skip
    """Spreads every input pixel over the output; weights OHWI."""
    batch, height, width, channels = x.shape
    size = [(n - 1) * stride[i] + (weights.shape[1 + i] - 1) * dilation[i] + 1 + extra[i]
            for i, n in enumerate((height, width))]  # fmt: skip
    full = np.zeros((batch, *size, len(weights)), np.int64)
    depth, per_group = channels // groups, len(weights) // groups
    for ky in range(weights.shape[1]):
        for kx in range(weights.shape[2]):
            for oc in range(len(weights)):
                first = oc // per_group * depth
                part = (x[..., first : first + depth].astype(np.int64) - zero) @ weights[oc, ky, kx].astype(np.int64)
                y0, x0 = ky * dilation[0], kx * dilation[1]
                full[:, y0 : y0 + (height - 1) * stride[0] + 1 : stride[0],
                     x0 : x0 + (width - 1) * stride[1] + 1 : stride[1], oc] += part  # fmt: skip
    end = [size[i] - padding[i] for i in range(2)]
    return full[:, padding[0] : end[0], padding[1] : end[1]] + (0 if bias is None else bias)


def divide(total: Array, count: Array) -> Array:
    """total / count, to nearest, ties away from zero."""
    return np.sign(total) * ((np.abs(total) + count // 2) // count)


def quantize(x: Array, scale: float, zero: int) -> Array:
    """float32, unfused; NaN gives the zero point."""
    inverse = np.float32(1.0) / np.float32(scale)
    with np.errstate(over="ignore", invalid="ignore"):
        product = np.nan_to_num(x.astype(np.float32) * inverse, nan=0.0, posinf=1e9, neginf=-1e9)
    return np.clip(np.rint(np.clip(product, -1e6, 1e6)).astype(np.int64) + zero, -128, 127).astype(np.int8)


def divide_f32(a: Array, b: Array, factor: float) -> Array:
    """round(((a / b) * factor)), half away from zero, in float32; 0 where b is 0."""
    safe = np.where(b == 0, 1, b).astype(np.float32)
    quotient = np.where(b == 0, np.float32(0), a.astype(np.float32) / safe).astype(np.float32)
    scaled = np.clip(quotient * np.float32(factor), np.float32(-512), np.float32(512)).astype(np.float64)
    return (np.sign(scaled) * np.floor(np.abs(scaled) + 0.5)).astype(np.int64)
