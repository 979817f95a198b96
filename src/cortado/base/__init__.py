"""What every stage may know: errors, names, numbers, targets."""
