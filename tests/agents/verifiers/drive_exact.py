"""Runs under the interpreter that has verifiers: two tasks of `graded_text` over an exact engine of our own.

python -m tests.agents.verifiers.drive_exact FOLDER

FOLDER/config.yaml has the servers, FOLDER/rows.jsonl the rows; what came of them is FOLDER/exact.json.
"""

import asyncio
import sys
from pathlib import Path

import orjson

from paddock.rollouts import Completion, open_rollouts
from paddock.testing.templates import TEMPLATES
from paddock.testing.vocabularies import small_vocabulary, write_model_folder
from paddock.types import JsonObject

TEXTS = ("I think.", "So it goes.", "DONE")


def main(folder: Path) -> None:
    model = write_model_folder(folder / "model", chat_template=TEMPLATES["chatml"].source)
    vocabulary = small_vocabulary()
    calls: list[JsonObject] = []

    async def engine(ids: list[int], sampling: JsonObject, *, rollout: str | None) -> Completion:
        await asyncio.sleep(0)
        turn = vocabulary.decode(ids).count("Go on.")
        sampled = [*vocabulary.encode(TEXTS[turn]), *vocabulary.encode("<|im_end|>")]
        log_probs = [-(1 + position % 7) / 16 for position in range(len(sampled))]
        calls.append({"prompt": ids, "sampled": sampled, "log_probs": log_probs})
        return Completion(sampled, log_probs, "stop")

    settings = {"tokenizer": str(model), "tool_parser": "hermes"}
    members = []
    with open_rollouts(str(folder / "config.yaml"), engine=engine, engine_settings=settings) as rollouts:
        for line in (folder / "rows.jsonl").read_bytes().splitlines():
            calls.clear()
            (member,) = rollouts.run_group(orjson.loads(line), 1).members
            samples = [entry.sample.model_dump() for entry in member.samples]
            members.append({"outcome": member.outcome, "reward": member.reward, "samples": samples, "calls": [*calls]})
    (folder / "exact.json").write_bytes(orjson.dumps(members))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
