"""Signals: spectra and filters on integer samples."""
