"""The operator record, graphs by name, float calls, samples."""
