"""What several test files need; a test file never imports from another."""
