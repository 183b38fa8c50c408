"""A rollout of tool calls is one exact sample: prompts continue the ids before, all that was sampled is trained."""

from pathlib import Path

import orjson
from tests.rollouts.conftest import completion

from paddock.rollouts import Completion, open_rollouts
from paddock.testing.templates import TEMPLATES
from paddock.testing.vocabularies import write_model_folder
from paddock.types import JsonObject

REPOSITORY = Path(__file__).parents[3]


def call_text(item: str, change: int) -> str:
    call = {"name": "move", "arguments": {"item": item, "change": change}}
    return f"<tool_call>\n{orjson.dumps(call).decode()}\n</tool_call>"


def test_a_rollout_of_the_example_is_one_sample(tmp_path: Path) -> None:
    row = orjson.loads((REPOSITORY / "examples" / "inventory.jsonl").read_bytes().splitlines()[0])
    changes = {item: row["wanted"].get(item, 0) - count for item, count in row["stock"].items()}
    texts = [*(call_text(item, change) for item, change in changes.items()), "The shelf is in order."]
    prompts: list[list[int]] = []

    async def engine(ids: list[int], sampling: JsonObject, *, rollout: str | None) -> Completion:
        prompts.append(ids)
        return completion(texts[len(prompts) - 1], 1)

    model = write_model_folder(tmp_path / "model", chat_template=TEMPLATES["chatml"].source)
    with open_rollouts(
        "configs/inventory_demo.yaml", engine=engine, engine_settings={"tokenizer": str(model), "tool_parser": "hermes"}
    ) as rollouts:
        (member,) = rollouts.run_group(row, 1).members
    assert (member.outcome, member.reward) == ("completed", 1.0)
    (entry,) = member.samples
    answers = [completion(text).ids for text in texts]
    for before, answer, after in zip(prompts, answers, prompts[1:], strict=False):
        assert after[: len(before) + len(answer)] == [*before, *answer]
    assert entry.sample.ids == [*prompts[-1], *answers[-1]]
    assert sum(entry.sample.loss_mask) == sum(len(answer) for answer in answers)
