"""Usage: check_rewards.py FOLDER=REWARD ...; exit 1 unless every rollout of each run had that reward."""

import sys
from pathlib import Path

import orjson


def main(wanted: list[str]) -> int:
    wrong = 0
    for item in wanted:
        folder, _, reward = item.rpartition("=")
        lines = Path(folder, "rollouts.jsonl").read_bytes().splitlines()
        rewards = [orjson.loads(line).get("reward") for line in lines]
        right = bool(rewards) and all(one == float(reward) for one in rewards)
        print(f"{folder}: {len(rewards)} rollouts, rewards {rewards}: {'as it should be' if right else 'WRONG'}")
        wrong += not right
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
