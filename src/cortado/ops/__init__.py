"""One file per operator, found by listing this folder; files that start with an underscore are not operators."""
