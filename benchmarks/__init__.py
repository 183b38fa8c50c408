"""Benchmarks: programs that measure ours against a floor in the same run, and report medians of ratios.

`make bench` runs all but the long ones (`WHERE_NAMED`); `python -m benchmarks NAME ...` those that it names.
Each leaves `runs/bench/NAME.json`.
"""
