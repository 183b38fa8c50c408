"""Servers that read an answer's text, against NeMo-Gym's of the same kind: verifications per second, CPU of each.

Ours    `paddock serve` of the plugin's own config, one process; `POST /verify` over keep-alive connections.
Theirs  their server class of their package, unmodified, one process of uvicorn, without Ray, which `verify` of these
        does not use; under the interpreter that a variable names, and left out where it is not set.
        `instruction_following` needs a package that no index has: lm-eval's copy of the same checks stands for it.
Figures medians over rounds, both sides in turn; ratios are medians of the rounds' ratios. `other_rewards`: bodies
        for which the two differ.
Target  at least 5 times their rate, at most a fifth of their CPU.
"""

import asyncio
import json
import os
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import orjson

from benchmarks.load import LoadRound, measure
from benchmarks.processes import family, running
from paddock.ports import free_port
from paddock.resources_servers.choice.make_rows import make_rows as choice_rows
from paddock.resources_servers.instructions.make_rows import make_rows as instructions_rows
from paddock.resources_servers.schema.make_rows import make_rows as schema_rows
from paddock.types import JsonObject
from paddock.types.responses import make_response, message_item

PROGRAM = Path(__file__).parents[1] / "tests" / "compat" / "serve_nemo_gym.py"
CHECKS = Path(__file__).with_name("ifeval_checks")
LISTENING = "listening at "
CONFIG = "resources_servers/%s/configs/%s.yaml"
ROWS = 100
ROUNDS = 5
ROUND_S = 1.5
CONNECTIONS = 16
THINKING = "Let me look at each of the options in turn, and leave out what can't be. " * 20


class AnswerCase(NamedTuple):
    """A server of ours, and what of theirs stands beside it."""

    name: str
    bodies: Callable[[], list[JsonObject]]
    """Rows with a response, one of three of which is wrong."""
    theirs: str
    variable: str
    """Names the interpreter that has theirs."""


def run() -> dict[str, Any]:
    return {"cases": [_measure(case) for case in CASES]}


def choice_bodies() -> list[JsonObject]:
    lines = [line for line in choice_rows(ROWS * 2, 5) if line.get("grading_mode") != "lenient_answer_colon_md"][:ROWS]
    return [
        _with_answer(line, f"{THINKING}\nAnswer: {letter}" if "colon" in line.get("grading_mode", "") else boxed)
        for number, line in enumerate(lines)
        for letter in [line["expected_answer"] if number % 3 else "A"]
        for boxed in [f"{THINKING}\n\\boxed{{{letter}}}"]
    ]


def schema_bodies() -> list[JsonObject]:
    lines = [line for line in schema_rows(ROWS * 2, 5) if line.get("response_mode") != "tool_call"][:ROWS]
    return [_with_answer(line, line["example_answer"] if number % 3 else "{}") for number, line in enumerate(lines)]


def instructions_bodies() -> list[JsonObject]:
    """Without sentences, which theirs counts by a model that has to be downloaded."""
    lines = [line for line in instructions_rows(ROWS * 2, 5) if SENTENCES not in line["instruction_id_list"]][:ROWS]
    return [
        _with_answer({**line, "id": number}, line["example_answer"] if number % 3 else "No, not at all.")
        for number, line in enumerate(lines)
    ]


def _with_answer(line: JsonObject, text: str) -> JsonObject:
    return {**line, "response": make_response([message_item(text)], line["responses_create_params"], model="policy")}


SENTENCES = "length_constraints:number_sentences"
GYM = "PADDOCK_NEMO_GYM_PYTHON"
CASES = (
    AnswerCase("choice", choice_bodies, "resources_servers.mcqa.app:MCQAResourcesServer", GYM),
    AnswerCase(
        "schema",
        schema_bodies,
        "resources_servers.structured_outputs.app:StructuredOutputsResourcesServer",
        "PADDOCK_STRUCTURED_OUTPUTS_PYTHON",
    ),
    AnswerCase(
        "instructions",
        instructions_bodies,
        "resources_servers.instruction_following.app:InstructionFollowingResourcesServer",
        "PADDOCK_IFEVAL_PYTHON",
    ),
)


def _measure(case: AnswerCase) -> JsonObject:
    bodies = [orjson.dumps(body) for body in case.bodies()]
    port = free_port()
    serve = ["paddock", "serve", CONFIG % (case.name, case.name), "--server", case.name]
    overrides = ["serve.loopback_token=false", f"{case.name}.resources_servers.{case.name}.port={port}"]
    with ExitStack() as stack:
        process = stack.enter_context(running([*serve, *overrides], f"http://127.0.0.1:{port}/healthz"))
        urls = {"ours": (f"http://127.0.0.1:{port}", process.pid)}
        python = os.environ.get(case.variable)
        if python is not None:
            urls["theirs"] = stack.enter_context(nemo_gym_server(python, case.theirs))
        rounds = [{side: _load(at, bodies) for side, at in urls.items()} for _ in range(ROUNDS)]
        rewards = {side: [_reward(url, body) for body in bodies] for side, (url, _) in urls.items()}
    ours = [one["ours"] for one in rounds]
    figures: JsonObject = {"server": case.name, **_medians(ours)}
    if python is None:
        return {**figures, "theirs": f"{case.variable} is not set"}
    theirs = [one["theirs"] for one in rounds]
    return {
        **figures,
        **{f"their_{key}": value for key, value in _medians(theirs).items()},
        "rate_ratio": median(a.requests_per_s / b.requests_per_s for a, b in zip(ours, theirs, strict=True)),
        "cpu_ratio": median(b.cpu_ms / a.cpu_ms for a, b in zip(ours, theirs, strict=True)),
        "other_rewards": sum(a != b for a, b in zip(rewards["ours"], rewards["theirs"], strict=True)),
    }


def _load(at: tuple[str, int], bodies: list[bytes]) -> LoadRound:
    url, pid = at
    load = measure(f"{url}/verify", bodies, connections=CONNECTIONS, seconds=ROUND_S, processes=family(pid))
    return asyncio.run(load)


def _medians(rounds: Sequence[LoadRound]) -> JsonObject:
    return {name: median(getattr(one, name) for one in rounds) for name in ("requests_per_s", "p50_ms", "cpu_ms")}


def _reward(url: str, body: bytes) -> float | None:
    request = urllib.request.Request(f"{url}/verify", body, {"content-type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=30) as reply:
            return float(orjson.loads(reply.read())["reward"])
    except urllib.error.HTTPError:
        return None


@contextmanager
def nemo_gym_server(
    python: str, server: str, config: JsonObject | None = None, peers: JsonObject | None = None
) -> Iterator[tuple[str, int]]:
    """Run a server of theirs (`module:Class`) without Ray; where it listens, and its process. `config`: keys of its
    block; `peers`: `{name: [host, port]}`."""
    block = {"name": "verifier", "domain": "other", **(config or {})}
    given = {"server": server, "config": block, "peers": peers or {}}
    process = subprocess.Popen(
        [python, PROGRAM.name, json.dumps(given)],
        cwd=PROGRAM.parent,
        env={**os.environ, "PYTHONPATH": str(CHECKS), "WANDB_MODE": "disabled"},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    try:
        listening = next((line for line in process.stdout if line.startswith(LISTENING)), None)
        if listening is None:
            raise RuntimeError(f"{server} did not start under {python}")
        yield listening.removeprefix(LISTENING).strip(), process.pid
    finally:
        process.kill()
        process.wait()
