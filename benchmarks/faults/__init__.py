"""Campaigns that plant faults and count wrong verdicts.

`python -m benchmarks faults grading [--cases N] [--seed S]`; each has `run(words)`, whose figures have `wrong`.
"""
