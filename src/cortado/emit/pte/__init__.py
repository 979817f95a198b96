"""The ExecuTorch program."""
