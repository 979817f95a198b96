"""Foundations that every stage may use: errors, names, numbers, targets."""
