"""Softmax and its logarithm, with and without a mask, and attention."""
