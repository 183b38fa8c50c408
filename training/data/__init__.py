"""Data of published recipes: fetched, filled, split, checked, converted; a row or a few are in memory at a time."""
