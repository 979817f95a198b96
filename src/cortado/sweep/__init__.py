"""Many candidates at once: models x chips x options, with a row of figures or a reason for each."""
