"""ONNX files as torch modules of fixed shapes: one module for each node, of torch's own where there is one."""
