"""How programs for this machine are built to be looked at while they run."""

# The same for all tests: what two of them build is built once.
SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-O1")
