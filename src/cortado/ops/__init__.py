"""The operators, a folder for each family; every record in the modules below this folder is found by listing them."""
