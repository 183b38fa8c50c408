"""Harnesses that are programs: what they are, where they are installed, and how one runs."""
