"""Estimates of a network before there is data to calibrate it with."""
