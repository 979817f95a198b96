"""From nn.Module to a quantized float graph, in three stages: capture, rewrite, quantize."""
