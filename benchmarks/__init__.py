"""Benchmarks: programs that measure ours against a floor in the same run, and report medians of ratios.

`make bench` runs all, `python -m benchmarks NAME ...` some; each leaves `runs/bench/NAME.json`.
"""
