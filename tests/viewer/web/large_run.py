"""A run of any size in the form of a collection's folder, made from one stored rollout."""

from collections.abc import Iterator
from pathlib import Path

import orjson

from paddock.collect.folder import FAILURES, INDEX, ROLLOUTS
from paddock.collect.lines import digest_of, seal, to_line
from paddock.collect.results import RolloutResult
from paddock.types import JsonObject, Rollout, Row, Timing, Usage, Verdict
from paddock.types.responses import call_item, message_item

STARTED_AT = 1_700_000_000.0


def write_run(folder: Path, *, rollouts: int, turns: int = 3, result_text: str = "output") -> None:
    """Members of four, one every ten seconds; every third rollout is solved."""
    folder.mkdir(parents=True)
    start = 0
    with (folder / ROLLOUTS).open("wb") as lines, (folder / INDEX).open("wb") as index:
        for nth in range(rollouts):
            reward = float(nth % 3 == 0)
            line = rollout_line(nth // 4, nth % 4, reward, turns=turns, result_text=result_text)
            result = RolloutResult(
                group_id=nth // 4,
                member=nth % 4,
                agent="swe_agent",
                variant=("codeact", "codex")[nth % 2],
                row_name=f"made__made-{nth // 4}",
                outcome="completed",
                reward=reward,
                reason="resolved" if reward else "tests_fail",
                labels={"repo": f"made/{nth % 7}"},
                metrics={"resolved": reward, "patch_bytes": 100.0 + nth},
                turns=turns,
                usage=Usage(input_tokens=1000, cached_tokens=400, output_tokens=100, reasoning_tokens=30),
                cost_usd=0.01,
                timing=Timing(model_s=3.0, tools_s=0.5, total_s=4.0),
                ended_at=STARTED_AT + 10.0 * nth,
                start=start,
                end=start + len(line),
                crc32=digest_of(line),
            )
            lines.write(line)
            index.write(to_line(result))
            start += len(line)
    (folder / FAILURES).touch()


def rollout_line(group: int, member: int, reward: float, *, turns: int, result_text: str) -> bytes:
    row = Row.from_wire(
        {
            "responses_create_params": {"input": "Fix it."},
            "instance_id": f"made__made-{group}",
            "_ng_task_index": group,
            "_ng_rollout_index": member,
        }
    )
    rollout = Rollout(
        row=row,
        outcome="completed",
        response={"output": list(_items(turns, result_text))},
        verdict=Verdict(reward=reward, reason="resolved" if reward else "tests_fail"),
    )
    return seal(orjson.dumps(rollout.to_wire()) + b"\n")


def _items(turns: int, result_text: str) -> Iterator[JsonObject]:
    for nth in range(turns):
        call = call_item("exec", orjson.dumps({"command": f"step {nth}"}).decode())
        yield message_item(f"I look at part {nth}.")
        yield call
        yield {"type": "function_call_output", "call_id": call["call_id"], "output": f"{nth} {result_text}"}
