"""Usage: check_rewards.py FOLDER AGENT=REWARD ...; exit 1 unless every rollout of each agent had that reward."""

import sys
from pathlib import Path

import orjson


def main(folder: str, wanted: list[str]) -> int:
    lines = [orjson.loads(line) for line in Path(folder, "rollouts.jsonl").read_bytes().splitlines()]
    wrong = 0
    for item in wanted:
        agent, _, reward = item.rpartition("=")
        rewards = [line["reward"] for line in lines if line["agent_ref"]["name"] == agent]
        right = bool(rewards) and all(one == float(reward) for one in rewards)
        print(f"{agent}: {len(rewards)} rollouts, rewards {rewards}: {'as it should be' if right else 'WRONG'}")
        wrong += not right
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
