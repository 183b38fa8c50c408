"""A harness with prompts of a line, for a model of 131,520 parameters."""
