"""Models and data as users name them: files of their own, and the zoo."""
