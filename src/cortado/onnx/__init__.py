"""ONNX files as torch modules of fixed shapes: one module for each node, of torch's own where there is one."""

from cortado.onnx.model import OnnxModel as OnnxModel
from cortado.onnx.model import load_onnx as load_onnx
