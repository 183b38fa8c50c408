"""Campaigns that plant faults, or cheats, and count what goes wrong.

    python -m benchmarks faults grading [--cases N] [--seed S]
    python -m benchmarks faults cheats [--times N] [--chance] [--only PATTERN] [--records FILE]
    python -m benchmarks faults runs [--environment pivot|swe] [--rollouts N] [--repeats N] [--seed S]
    python -m benchmarks faults payload [--sandboxes N] [--minutes M] [--seed S]
    python -m benchmarks faults honest [--count N] [--seed S] [--project NAME] [--rows FILE]

Each has `run(words)`, whose figures name what must be 0 as `BAD` does.
"""

BAD = ("wrong", "missing", "breaches", "doubled", "hung", "traces", "leftovers", "over_bounds")
"""Figures that must be 0, as far as a campaign has them."""
