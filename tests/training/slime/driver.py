"""slime's own rollout phase over our environments, run where slime's files are; prints what slime would train on.

Usage   driver.py FOLDER CASE: `train` a phase of 2 groups of 4, `abort` one of which more groups were begun than are
        needed, and those with a long prompt hang; `hang` one in which all do; `fifth` one of 2 groups of 5 in
        which each fifth call fails; `unread` the fully asynchronous worker, whose groups nobody reads; `same` the task
        of `same_rollouts`; `rewards` slime's own rewards beside ours, for each case of a file.
Engine  a scripted SGLang on loopback: it answers `yes`, or `no`, by turns, with a log-prob for each id; in the case
        `same` as the endpoint of its run.
"""

import ast
import asyncio
import json
import sys
import threading
import time
from argparse import Namespace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from typing import Any

import slime
import slime.rollout.sglang_rollout as slime_rollout
import torch
from slime.rollout.sample_hooks import set_current_rollout_id
from slime.utils.http_utils import init_http_client
from slime.utils.types import Sample
from tests.training.same_rollouts.task import MAX_TOKENS, EndpointSampler, SameTask

from paddock.testing.vocabularies import small_vocabulary

VOCABULARY = small_vocabulary()
CALLS: list[dict[str, Any]] = []
NUMBERS = count()
ABORTED = threading.Event()


class Engine(BaseHTTPRequestHandler):
    asked: Path | None = None
    """Gets a byte for each call."""
    fail_each: int = 0
    """Each such call has an answer that can't be read; 0: none."""
    hang_above: int | None = None
    """Tokens of a prompt from which on a call hangs until it is aborted."""
    sampler: EndpointSampler | None = None
    """What answers in place of the script."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/abort_request":
            ABORTED.set()
            self._answer({})
            return
        number = next(NUMBERS)
        CALLS.append(body)
        if self.asked is not None:
            with self.asked.open("ab") as file:
                file.write(b".")
        if self.hang_above is not None and len(body["input_ids"]) > self.hang_above:
            ABORTED.wait(60)
            self._answer(_meta([], "abort"))
            return
        if self.sampler is not None:
            self._answer(_sampled(self.sampler, body))
            return
        if self.fail_each and number % self.fail_each == self.fail_each - 1:
            self._answer({"text": ""})
            return
        text = "yes" if number % 2 else "no"
        self._answer(_meta(VOCABULARY.encode(text + "<|im_end|>"), "stop"))

    def do_GET(self) -> None:
        address: Any = self.server.server_address
        host, port = address[:2]
        self._answer({"workers": [{"url": f"http://{host}:{port}"}]} if self.path == "/workers" else {"num_reqs": 0})

    def _answer(self, wire: Any) -> None:
        body = json.dumps(wire).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_words: Any) -> None:
        return


def _sampled(sampler: EndpointSampler, body: dict[str, Any]) -> dict[str, Any]:
    given = body["sampling_params"]
    params = {"max_tokens": given["max_new_tokens"], **{key: given[key] for key in ("temperature", "top_p")}}
    answer = asyncio.run(sampler(body["input_ids"], params, rollout=None))
    return _meta(list(answer.ids), str(answer.finish_reason), list(answer.log_probs))


def _meta(ids: list[int], reason: str, log_probs: list[float] | None = None) -> dict[str, Any]:
    given = log_probs or [-(nth + 1) / 8 for nth in range(len(ids))]
    pairs = [[log_prob, token, None] for log_prob, token in zip(given, ids, strict=True)]
    meta = {"finish_reason": {"type": reason}, "output_token_logprobs": pairs, "weight_version": "3"}
    return {"text": "", "output_ids": ids, "meta_info": meta}


def arguments(folder: Path, port: int, **given: Any) -> Namespace:
    settings = json.loads((folder / "custom.json").read_text())
    return Namespace(
        **{
            "hf_checkpoint": str(folder / "model"),
            "sglang_router_ip": "127.0.0.1",
            "sglang_router_port": port,
            "sglang_server_concurrency": 64,
            "sglang_dp_size": 1,
            "rollout_num_engines": 1,
            "use_distributed_post": False,
            "rollout_temperature": 0.7,
            "rollout_top_p": 1.0,
            "rollout_top_k": -1,
            "rollout_max_response_len": 40,
            "rollout_stop": None,
            "rollout_stop_token_ids": None,
            "rollout_skip_special_tokens": False,
            "rollout_global_dataset": True,
            "rollout_batch_size": 2,
            "over_sampling_batch_size": 2,
            "n_samples_per_prompt": 4,
            "dynamic_sampling_filter_path": None,
            "rollout_sample_filter_path": None,
            "rollout_all_samples_process_path": None,
            "rollout_sample_hook_path": None,
            "partial_rollout": False,
            "mask_offpolicy_in_partial_rollout": False,
            "custom_generate_function_path": "paddock.training.slime.generate",
            "custom_reward_post_process_path": "paddock.training.slime.post_process_rewards",
            "group_rm": False,
            "ci_test": False,
            "reward_key": None,
            "advantage_estimator": "grpo",
            "rewards_normalization": True,
            "grpo_std_normalization": True,
            **settings,
            **given,
        }
    )


def main() -> None:
    folder, case = Path(sys.argv[1]), sys.argv[2]
    if case == "rewards":
        print(json.dumps([both_rewards(given) for given in json.loads((folder / "cases.json").read_text())]))  # noqa: T201
        return
    server = ThreadingHTTPServer(("127.0.0.1", 0), Engine)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    own: dict[str, Any] = {"over_sampling_batch_size": 4} if case == "abort" else {}
    if case == "same":
        task = SameTask.read(folder)
        Engine.sampler = EndpointSampler(task.url)
        own = {"hf_checkpoint": task.model, "rollout_max_response_len": MAX_TOKENS, "rollout_temperature": 1.0}
    args = arguments(folder, server.server_address[1], **own)
    Engine.hang_above = {"abort": 100, "hang": 0}.get(case)
    if case == "fifth":
        args.n_samples_per_prompt = Engine.fail_each = 5
    Engine.asked = folder / "asked" if case == "hang" else None
    rows = [json.loads(line) for line in (folder / "data.jsonl").read_bytes().splitlines()]
    groups, indices = count(), count()

    def data_source(number: int) -> list[list[Sample]]:
        given = []
        for _ in range(number):
            group = next(groups)
            line = rows[group % len(rows)]
            given.append(
                [
                    Sample(group_index=group, index=next(indices), prompt=line["prompt"], metadata=line["metadata"])
                    for _ in range(args.n_samples_per_prompt)
                ]
            )
        return given

    if case == "unread":
        print(json.dumps(unread(args, data_source)))  # noqa: T201
        return

    async def phase() -> Any:
        init_http_client(args)
        set_current_rollout_id(0)
        return await slime_rollout.generate_rollout_async(args, 0, data_source)

    output, _ = asyncio.run(phase())
    from paddock.training.slime import post_process_rewards

    flat = [sample for group in output.samples for member in group for sample in _listed(member)]
    raw, rewards = post_process_rewards(args, flat)
    lines = [sample.to_dict() for sample in flat]
    found = {"samples": lines, "raw": raw, "rewards": rewards, "calls": CALLS, "train_data": train_data(args, flat)}
    print(json.dumps(found))  # noqa: T201


def train_data(args: Namespace, samples: list[Sample]) -> dict[str, Any]:
    """The batch that slime's rollout manager makes of samples, as far as rewards and masks go."""
    from paddock.training.slime import post_process_rewards

    manager = Namespace(
        args=args,
        custom_convert_samples_to_train_data_func=None,
        _post_process_rewards=lambda given: post_process_rewards(args, given),
    )
    batch = method_of_manager("_convert_samples_to_train_data")(manager, samples)
    return {name: batch[name] for name in ("rewards", "loss_masks", "rollout_mask_sums")}


def unread(args: Namespace, data_source: Any) -> dict[str, Any]:
    """How many calls there are when the worker has stopped for want of a reader, some seconds later, and after that a
    group was read."""
    from slime.rollout.fully_async_rollout import AsyncRolloutWorker

    init_http_client(args)
    worker = AsyncRolloutWorker(args, Namespace(get_samples=data_source), concurrency=2)
    worker.start()
    counts = [_settled(), _settled()]
    worker.get_completed_groups(limit=2)
    time.sleep(2 * worker.poll_interval)
    counts.append(_settled())
    return {"calls": counts, "waiting": worker.queue_size()}


def _settled() -> int:
    """The number of calls when there was no new one for five seconds."""
    known = -1
    while len(CALLS) != known or not known:
        known = len(CALLS)
        time.sleep(5)
    return known


def method_of_manager(name: str) -> Any:
    """A method of slime's rollout manager, taken from its file: the module around it needs SGLang."""
    source = ast.parse((Path(slime.__path__[0]) / "ray/rollout.py").read_text())
    (method,) = (node for node in ast.walk(source) if isinstance(node, ast.FunctionDef) and node.name == name)
    for argument in method.args.args:
        argument.annotation = None
    names: dict[str, Any] = {"torch": torch, "Sample": Sample, "get_source": lambda _sample: "paddock"}
    exec(compile(ast.Module([method], []), "slime", "exec"), names)
    return names[name]


def both_rewards(given: dict[str, Any]) -> list[Any]:
    """Rewards by slime's method, and by ours."""
    from paddock.training.slime import post_process_rewards

    args = Namespace(
        rewards_normalization=True,
        n_samples_per_prompt=4,
        rollout_batch_size=2,
        reward_key=None,
        advantage_estimator=given["estimator"],
        grpo_std_normalization=given["std"],
    )
    samples = [Sample(group_index=nth // 4, index=nth, reward=reward) for nth, reward in enumerate(given["rewards"])]
    manager = Namespace(args=args, custom_reward_post_process_func=None)
    return [method_of_manager("_post_process_rewards")(manager, samples), post_process_rewards(args, samples)]


def _listed(member: Any) -> list[Any]:
    return member if isinstance(member, list) else [member]


if __name__ == "__main__":
    main()
