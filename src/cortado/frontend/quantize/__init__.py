"""Quantization of the float graph: quantizer, observers, ranges, precision, training."""
