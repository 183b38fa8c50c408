"""Sandboxes of another machine: a provider over the HTTP of a node."""
