"""The laboratory: what `paddock fidelity` and `paddock harness drift` run to try harnesses and programs.

Law     only commands import it, and it imports no plugin: what is tried is found by its name, as a config finds it.
"""
