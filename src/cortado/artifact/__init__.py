"""A compiled model in a folder: its report, page, memory budgets, and reading it back."""
