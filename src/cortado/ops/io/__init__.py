"""The borders of the integer graph: quantize, dequantize, widen."""
