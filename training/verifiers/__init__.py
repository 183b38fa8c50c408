"""Paddock's environments inside verifiers and prime-rl: a taskset of our rows, an environment that runs our agents."""
