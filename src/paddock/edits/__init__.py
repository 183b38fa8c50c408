"""Patch grammars and edits on text, as pure functions."""
