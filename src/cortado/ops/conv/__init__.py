"""Convolutions, linear layers and matrix products: how sums of products are computed."""
