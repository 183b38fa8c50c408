"""Usage: demo_table.py FOLDER; the rollouts of a run as one table, a row per agent and instance.

The same goes into the folder's `summary.json`: `instances` of each agent's run, by instance id. Tokens are what the
engine counted; where it counted none, as when known turns are played, the table has a quarter of the characters of all
calls, words and results, with a `~`.
"""

import sys
from pathlib import Path
from typing import Any

import orjson
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from paddock.types.responses import content_text

COLUMNS = ("harness", "instance", "turns", "tokens", "seconds", "verdict")


def main(folder: Path) -> int:
    summary = orjson.loads((folder / "summary.json").read_bytes())
    lines = [orjson.loads(line) for line in (folder / "rollouts.jsonl").read_bytes().splitlines()]
    table = Table(*COLUMNS[:2], box=SIMPLE)
    for name in COLUMNS[2:]:
        table.add_column(name, justify="right" if name != "verdict" else "left")
    for run in summary:
        of_run = sorted((row_of(line) for line in lines if line["agent_ref"]["name"] == run["agent"]), key=by_instance)
        run["instances"] = {one.pop("instance"): one for one in of_run}
        for name, one in run["instances"].items():
            figures = (str(one["turns"]), tokens(one), f"{one['seconds']:.1f}")
            table.add_row(run["harness"], name, *figures, f"{one['reward']:g} {one['verdict']}")
        table.add_section()
    (folder / "summary.json").write_bytes(orjson.dumps(summary, option=orjson.OPT_INDENT_2))
    Console(width=120).print(table)
    return 0


def row_of(line: dict[str, Any]) -> dict[str, Any]:
    rollout = line["rollout"]
    usage = rollout["usage"]
    return {
        "instance": line["instance_id"],
        "turns": len(rollout["turns"]),
        "tokens": usage["input_tokens"] + usage["output_tokens"] or None,
        "characters": sum(map(characters, line["response"]["output"])),
        "seconds": round(rollout["timing"]["total_s"], 1),
        "reward": line["reward"],
        "verdict": rollout["verdict"]["reason"],
    }


def tokens(one: dict[str, Any]) -> str:
    if one["tokens"] is None and one["turns"]:
        return f"~{one['characters'] // 4}"
    return str(one["tokens"] or 0)


def characters(item: dict[str, Any]) -> int:
    texts = [item.get(key) for key in ("arguments", "input", "output")]
    return sum(len(text) for text in (*texts, content_text(item.get("content"))) if isinstance(text, str))


def by_instance(one: dict[str, Any]) -> str:
    return str(one["instance"])


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
