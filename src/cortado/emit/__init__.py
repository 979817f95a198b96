"""The two artifacts: the C bundle and the ExecuTorch program."""
