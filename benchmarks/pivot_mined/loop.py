"""One training run of `pivot_mined`: `python -m benchmarks.pivot_mined.loop MODEL ROWS HELD_OUT OUT`, with torch.

Law     settings, batches, advantages, loss and optimiser are those of `paddock train configs/train_demo.yaml`; the
        answers are sampled in this process in place of vLLM, each step's by the weights that it trains (age 0), and the
        pivot server's comparator judges them without servers between.
Held out  every row's likeliest answer, before the first step and after every so many.
"""

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import orjson
import torch

from benchmarks.pivot_mined.curves import KIND_OF_STEP, PIVOT, HeldOutReward, RunCurves, held_out_curves
from paddock.resources_servers.pivot import semantic
from paddock.resources_servers.pivot.task import read_expected
from paddock.server.dialects import conversation
from paddock.server.dialects.canonical import chat_messages
from paddock.tokens.prompter import Prompter
from paddock.tokens.template import ChatTemplate
from paddock.tokens.vocabulary import Vocabulary
from paddock.training.core.batches import make_batch
from paddock.training.core.metrics import batch_metrics
from paddock.training.core.order import RowOrder, all_rows
from paddock.training.core.records import Group, Member, MemberSample, TurnSpan
from paddock.training.grpo.learner import Learner
from paddock.training.grpo.policy_settings import SINGLE_RANK, PolicySettings
from paddock.training.grpo.read_config import read_config
from paddock.training.grpo.sharding import ShardGroup
from paddock.types import JsonObject
from paddock.types.responses import call_item, make_response, message_item

CALL = re.compile(r"<tool_call>\n(.*?)\n</tool_call>", re.DOTALL)


class AnswerIds(NamedTuple):
    """An answer of the policy in ids, with their log-probs when it was sampled."""

    ids: list[int]
    log_probs: list[float]


class PivotRow:
    """A row with its prompt in ids, which judges answers."""

    def __init__(self, row: JsonObject, vocabulary: Vocabulary, prompter: Prompter) -> None:
        params = row["responses_create_params"]
        request = conversation("responses", params)
        self.kind = KIND_OF_STEP[row["metadata"]["step"]]
        self.prompt = prompter.whole(chat_messages(request.items), request.tools)
        self._expected = read_expected(row)
        self._params = params
        self._vocabulary = vocabulary
        self._reward = cache(self._judge)

    def reward(self, answer: AnswerIds) -> float:
        return self._reward(self._vocabulary.decode(answer.ids))

    def _judge(self, text: str) -> float:
        response = make_response([_output(text)], self._params, model="policy")
        return semantic.compare(self._expected, response, self._params).reward


def _output(text: str) -> JsonObject:
    match = CALL.search(text)
    try:
        call = orjson.loads(match[1] if match else "null")
        return call_item(call["name"], orjson.dumps(call["arguments"]).decode())
    except (orjson.JSONDecodeError, TypeError, KeyError):
        return message_item(text)


class LocalRun:
    """The policy, its rows and its held-out rows."""

    def __init__(self, model: Path, rows: Path, held_out: Path, seed: int) -> None:
        given = {"policy.model_name": model, "data.train.data_path": rows, "data.validation.data_path": held_out}
        overrides = [f"{key}={value}" for key, value in {**given, "grpo.seed": seed}.items()]
        self.config = read_config("configs/train_demo.yaml", overrides).config
        torch.set_num_threads(self.config.policy.torch_cfg.threads)
        self._learner = Learner(PolicySettings.of(self.config), ShardGroup(SINGLE_RANK, torch.device("cpu")))
        vocabulary = Vocabulary.load(model)
        prompter = Prompter(ChatTemplate(vocabulary.chat_template or "", vocabulary.special_texts), vocabulary)
        self._rows = [PivotRow(row, vocabulary, prompter) for row in _lines(rows)]
        self._held_out = [PivotRow(row, vocabulary, prompter) for row in _lines(held_out)]
        self._order = RowOrder(
            all_rows(len(self._rows)), seed=seed, shuffle=True, max_epochs=self.config.grpo.max_num_epochs
        )
        torch.manual_seed(seed)

    def step(self, number: int, prompts: int) -> dict[str, float]:
        """Train one step on groups of so many rows; return the metrics of its batch."""
        drawn = [entry for _ in range(prompts) if (entry := self._order.take()) is not None]
        size = self.config.grpo.num_generations_per_prompt
        rows = [self._rows[entry.row] for entry in drawn]
        answers = self._answers([row.prompt for row in rows for _ in range(size)], greedy=False)
        groups = []
        for nth, (entry, row) in enumerate(zip(drawn, rows, strict=True)):
            members = tuple(_members(row, answers[nth * size : (nth + 1) * size], number))
            groups.append(Group(nth, entry.row, entry.epoch, members, size, number))
        batch = make_batch(
            groups,
            step=number,
            grpo=self.config.grpo,
            settings=self.config.paddock.groups,
            max_length=self.config.policy.max_total_sequence_length,
            known_versions=(number,),
        )
        self._learner.train(batch)
        return batch_metrics(batch)

    def validate(self, step: int) -> Iterator[HeldOutReward]:
        answers = self._answers([row.prompt for row in self._held_out], greedy=True)
        for row, answer in zip(self._held_out, answers, strict=True):
            yield HeldOutReward(row.kind, step, row.reward(answer))

    def _answers(self, prompts: Sequence[list[int]], *, greedy: bool) -> list[AnswerIds]:
        """Sample an answer to each prompt, from the whole distribution or the likeliest."""
        model: Any = self._learner.model.model
        stops = [*(self.config.policy.generation.stop_token_ids or ()), model.config.eos_token_id]
        width = max(map(len, prompts))
        pad = model.config.pad_token_id
        ids = torch.tensor([[pad] * (width - len(prompt)) + prompt for prompt in prompts])
        mask = torch.tensor([[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in prompts])
        sampling = {"do_sample": False} if greedy else {"do_sample": True, "temperature": 1.0, "top_k": 0, "top_p": 1.0}
        with torch.no_grad():
            made = model.generate(
                ids,
                attention_mask=mask,
                max_new_tokens=self.config.policy.generation.max_new_tokens,
                eos_token_id=stops,
                pad_token_id=pad,
                return_dict_in_generate=True,
                output_logits=True,
                **sampling,
            )
        new = made.sequences[:, width:]
        log_probs = torch.log_softmax(torch.stack(made.logits, 1).float(), -1).gather(2, new[:, :, None])[:, :, 0]
        return [_cut(own, probs, stops) for own, probs in zip(new.tolist(), log_probs.tolist(), strict=True)]


def _cut(ids: list[int], log_probs: list[float], stops: Sequence[int]) -> AnswerIds:
    """The answer up to the token that ends it, which is sampled, too."""
    end = next((nth for nth, token in enumerate(ids, 1) if token in stops), len(ids))
    return AnswerIds(ids[:end], log_probs[:end])


def _members(row: PivotRow, answers: Sequence[AnswerIds], version: int) -> Iterator[Member]:
    start = len(row.prompt)
    for nth, answer in enumerate(answers):
        end = start + len(answer.ids)
        sampled = np.arange(end) >= start
        sample = MemberSample(
            row=None,
            nth=0,
            cut=False,
            ids=np.array([*row.prompt, *answer.ids], np.int32),
            loss_mask=sampled,
            log_probs=np.array([0.0] * start + answer.log_probs, np.float32),
            spans=(TurnSpan("answer", start, end, str(version), trained=True),),
        )
        yield Member(nth, "completed", row.reward(answer), (sample,), turns=1)


def _lines(path: Path) -> list[JsonObject]:
    return [orjson.loads(line) for line in path.read_bytes().splitlines()]


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("model", "rows", "held_out", "out"):
        parser.add_argument(name, type=Path)
    for name in ("seed", "steps", "every", "prompts"):
        parser.add_argument(f"--{name}", type=int, required=True)
    args = parser.parse_args()
    run = LocalRun(args.model, args.rows, args.held_out, args.seed)
    answers = list(run.validate(0))
    metrics = []
    for number in range(args.steps):
        metrics.append(run.step(number, args.prompts))
        if (number + 1) % args.every == 0:
            answers += run.validate(number + 1)
            last = held_out_curves(answers)[PIVOT][number + 1]
            sys.stderr.write(f"{args.rows.stem}-{args.seed}: {number + 1} steps, held-out pivots {last:.3f}\n")
    alike = [step["train/groups_alike_rate"] for step in metrics]
    rewards = [step["train/total_reward/mean"] for step in metrics]
    curves = RunCurves(args.rows.stem, args.seed, held_out_curves(answers), alike, rewards)
    args.out.write_bytes(orjson.dumps(curves._asdict(), option=orjson.OPT_NON_STR_KEYS))


if __name__ == "__main__":
    main()
