"""A compiled model in a folder: report, page, budgets, the opened artifact."""
