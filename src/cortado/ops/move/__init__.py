"""Data movement: shapes, slices, borders, positions, resizing, tables of rows."""
