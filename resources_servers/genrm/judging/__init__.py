"""What a judge is shown, and asking it."""
