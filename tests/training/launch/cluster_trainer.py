"""In the place of `paddock train` in a job of several nodes: writes down what it finds, and lasts until it is told to
end.

`begun.jsonl` has a line for each start: the words, the addresses of Ray's nodes, and what the nodes of sandboxes answer
to their token and to none. An end by SIGTERM is noted in `ended`, with the nodes that Ray still has then. Of a run that
goes on, or that is told to be short, the end comes at once.
"""

import json
import os
import signal
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import yaml

LONGEST_S = 600


def main(words: list[str]) -> int:
    out = Path(words[words.index("--out") + 1])
    told: list[int] = []
    if "cluster.address=auto" in words:
        import ray

        ray.init(address="auto", log_to_driver=False)
    signal.signal(signal.SIGTERM, lambda number, _: told.append(number))
    line = {"words": words, "nodes": alive(), "sandboxes": sandboxes(words), "job": os.environ["SLURM_JOB_ID"]}
    begun = out / "begun.jsonl"
    goes_on = begun.exists()
    with begun.open("a") as file:
        file.write(json.dumps(line) + "\n")
    if goes_on or "grpo.max_num_steps=1" in words:
        return 0
    deadline = time.monotonic() + LONGEST_S
    while not told and time.monotonic() < deadline:
        time.sleep(0.05)
    # What a run does at its end takes a while, with its roles.
    time.sleep(2)
    (out / "ended").write_text(json.dumps(alive()))
    sys.stderr.write("interrupted\n")
    return 130


def alive() -> list[str]:
    """Addresses of Ray's nodes; none where the run has no Ray."""
    ray = sys.modules.get("ray")
    return [] if ray is None else sorted(node["NodeManagerAddress"] for node in ray.nodes() if node["Alive"])


def sandboxes(words: list[str]) -> dict[str, list[int]]:
    """Status by URL, with the token and without."""
    found = {}
    for word in words:
        key, _, value = word.partition("=")
        if key.endswith(".sandbox.nodes"):
            found["nodes"] = yaml.safe_load(value)
        if key.endswith(".sandbox.node_token_file"):
            found["token"] = Path(value).read_text()
    return {url: [status(url, found["token"]), status(url, "")] for url in found.get("nodes", [])}


def status(url: str, token: str) -> int:
    request = urllib.request.Request(f"{url}/status", headers={"authorization": f"Bearer {token}"})
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
