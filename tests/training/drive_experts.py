"""Recorded experts through a trainer's adapter, under the interpreter that has the trainer.

python drive_experts.py TRAINER

Prints what the trainer's own code makes of the samples of a rollout of two turns and of one that failed, and what our
engine function makes of an answer in the form of the trainer's engines. A token's experts are its position and its id.
"""

import asyncio
import base64
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import orjson

from paddock.rollouts import Completion, RolloutGroup, TrainingRollout
from paddock.tokens.export import plan_rollout, rollout_samples
from paddock.training.core.testing import rollout, turn
from paddock.types import JsonObject, RoutedExperts

FIRST, SECOND = [1, 2, 10, 11], [1, 2, 10, 11, 7, 10, 11, 12]
"""Ids of the turns, with what is before them."""
START = 3
ASKED = {"temperature": 1.0, "max_tokens": 5, "routed_experts_start": START}


def rows(ids: list[int], start: int = 0) -> Any:
    """Of two layers."""
    return np.array([[[place, ids[place]]] * 2 for place in range(start, len(ids) - 1)], np.int32)


def members() -> tuple[TrainingRollout, TrainingRollout]:
    one = turn("a", routed_experts=RoutedExperts.of(rows(FIRST)).to_text())
    later = RoutedExperts.of(rows(SECOND, START), START).to_text()
    two = turn("b", "a", sampled=3, prompt_ids=[7], routed_experts=later)
    done = rollout(turns=[one, two])
    samples = tuple(rollout_samples(done, "whole", plan_rollout(done, "whole")))
    return TrainingRollout(0, "completed", 1.0, None, samples, rollout=done), TrainingRollout(1, "infra", None, "infra")


def slime() -> JsonObject:
    import torch
    from slime.observability.rollout_data_utils import validate_rollout_routed_experts_for_replay
    from slime.utils.types import Sample

    from paddock.training.slime.engine import router_engine
    from paddock.training.slime.samples import ExpertsWidth, slime_samples

    args = SimpleNamespace(num_layers=2, moe_router_topk=2, sglang_router_ip="", sglang_router_port=0)
    args.rollout_max_response_len, args.rollout_stop_token_ids = 9, None
    found = [
        one
        for member in members()
        for one in slime_samples(Sample(index=0, prompt="", metadata={}), member, str, ExpertsWidth(2, 2))
    ]
    validate_rollout_routed_experts_for_replay([torch.as_tensor(one.rollout_routed_experts) for one in found], args)
    bodies: list[JsonObject] = []

    async def post(_url: str, body: JsonObject, **_named: Any) -> JsonObject:
        bodies.append(body)
        whole = [*body["input_ids"], 10, 11, 12]
        meta = {
            "output_token_logprobs": [[-0.5, token, None] for token in whole[-3:]],
            "finish_reason": {"type": "stop"},
            "routed_experts": base64.b64encode(rows(whole, body["routed_experts_start_len"]).tobytes()).decode(),
        }
        return {"meta_info": meta}

    return answer(router_engine(args, post, lambda: False)) | {
        "experts": [one.rollout_routed_experts.tolist() for one in found],
        "tokens": [len(one.tokens) for one in found],
        "asked": bodies[0]["return_routed_experts"] and bodies[0]["routed_experts_start_len"],
    }


def skyrl() -> JsonObject:
    from skyrl.backends.skyrl_train.utils.routed_experts import compact_routed_expert_indices

    from paddock.training.skyrl.engine import engine_function
    from paddock.training.skyrl.output import columns, group_rows

    group = RolloutGroup(0, (*members(), members()[0]._replace(member=2)))
    found = columns(group_rows(group, ["0", "1", "2"], step_wise=False, filler=9), step_wise=False)
    requests: list[JsonObject] = []

    async def generate(request: JsonObject, **_named: Any) -> JsonObject:
        requests.append(request)
        given = rows([*request["prompt_token_ids"][0], 10, 11, 12], request["routed_experts_prompt_starts"][0])
        return {
            "response_ids": [[10, 11, 12]],
            "response_logprobs": [[-0.5] * 3],
            "stop_reasons": ["stop"],
            "rollout_expert_indices": [compact_routed_expert_indices(given)],
        }

    function = engine_function(SimpleNamespace(generate=generate), {}, cache_salt=False, model=None)
    return answer(function) | {
        "experts": [compact_routed_expert_indices(one).tolist() for one in found["rollout_expert_indices"]],
        "tokens": [len(found["prompt_token_ids"][nth]) + len(found["response_ids"][nth]) for nth in range(3)],
        "asked": "routed_experts_start" not in requests[0]["sampling_params"]
        and requests[0]["routed_experts_prompt_starts"][0],
    }


def verl() -> JsonObject:
    from verl.experimental.agent_loop.agent_loop import AgentLoopMetrics, AgentLoopOutput

    from paddock.training.verl.engine import engine_function
    from paddock.training.verl.outputs import token_fields

    (entry,) = members()[0].samples
    found = []
    for length in (9, 4):
        given = token_fields(entry.sample, prompt_length=2, response_length=length)._asdict()
        del given["cut"]
        found.append(AgentLoopOutput(**given, metrics=AgentLoopMetrics()).as_dict())

    async def generate(_request: str, *, prompt_ids: list[int], sampling_params: JsonObject) -> Any:
        assert "routed_experts_start" not in sampling_params
        whole = rows([*prompt_ids, 10, 11, 12])
        fields: JsonObject = {"stop_reason": "completed", "extra_fields": {}, "routed_experts": whole}
        return SimpleNamespace(token_ids=[10, 11, 12], log_probs=[-0.5] * 3, **fields)

    function = engine_function(SimpleNamespace(generate=generate), end_ids=frozenset())
    return answer(function, start=0) | {
        "experts": [one["routed_experts"].tolist() for one in found],
        "tokens": [len(one["prompts"]) + len(one["responses"]) for one in found],
        "asked": START,
    }


def verifiers() -> JsonObject:
    from verifiers.v1.agent import AgentConfig
    from verifiers.v1.task import TaskData
    from verifiers.v1.trace import AgentInfo, Trace, TraceTask

    from paddock.training.verifiers.engine import read_answer
    from paddock.training.verifiers.traces import record

    task = TraceTask(type="Task", data=TaskData())
    trace = Trace(task=task, agent=AgentInfo(config=AgentConfig()), rewards={"reward": None})
    record(trace, members()[0], decode=str)
    (branch,) = trace.branches
    given = rows(SECOND, START)[:, :, :].astype(np.uint8)
    payload = {"data": base64.b64encode(given.tobytes()).decode(), "shape": list(given.shape), "start": START}
    choice = {
        "token_ids": [10, 11, 12],
        "logprobs": {"content": [{"logprob": -0.5}] * 3},
        "finish_reason": "stop",
        "routed_experts": {**payload, "dtype": "uint8"},
    }

    async def function(_ids: list[int], _sampling: JsonObject, *, rollout: str | None) -> Completion:
        return read_answer({"choices": [choice]})

    return answer(function) | {
        "experts": [branch.routed_experts.tolist()],
        "tokens": [len(branch.token_ids)],
        "asked": START,
    }


def answer(function: Any, start: int = START) -> JsonObject:
    """`start`: of the rows that this engine gives."""
    completion: Completion = asyncio.run(function(SECOND[:5], ASKED, rollout=None))
    assert completion.routed_experts is not None
    return {"answered": completion.routed_experts == RoutedExperts.of(rows(SECOND, start), start)}


if __name__ == "__main__":
    found = {"slime": slime, "skyrl": skyrl, "verl": verl, "verifiers": verifiers}[sys.argv[1]]()
    expected = rows(SECOND).tolist()
    sys.stdout.write(orjson.dumps({**found, "expected": expected}).decode() + "\n")
