"""Writes the reward: 1 for a right report, else 0."""

import json

EXPECTED = {"Ada": 4150, "Grace": 9900, "Barbara": 55, "Edsger": 100}

try:
    with open("/app/report.json") as file:
        right = json.load(file) == EXPECTED
except (OSError, ValueError) as error:
    print(f"no report: {error}")
    right = False
with open("/logs/verifier/reward.txt", "w") as file:
    file.write("1" if right else "0")
