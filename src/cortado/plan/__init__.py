"""The lowered graph as kernels and buffers, its order, its stages, its plan."""
