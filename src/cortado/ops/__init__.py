"""The operators, a folder for each family; every record below this folder is found by listing it."""
