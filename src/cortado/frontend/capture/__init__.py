"""Capture: models and inputs as users have them, and torch.export."""
