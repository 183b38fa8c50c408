"""Free answers that a judge compares, against NeMo-Gym's `equivalence_llm_judge`: judgements per second, CPU of each.

Judge   scripted, in this process, over HTTP: says "the same" after `JUDGE_S`. Both servers ask it in both orders, so a
        judgement takes two answers; `ceiling_per_s` is what the connections could get of it at most.
Ours    `paddock serve`, one process, its model server included. Theirs: their class, unmodified, one process without
        Ray, which asks the judge itself, without a model server of theirs.
Figures medians over rounds, both sides in turn; ratios are medians of the rounds' ratios. `other_rewards`: bodies for
        which the two differ.
"""

import asyncio
import os
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

import orjson
import yaml

from benchmarks.answers import nemo_gym_server
from benchmarks.load import LoadRound, measure
from benchmarks.processes import family, running
from benchmarks.raw_http import RawConnection
from paddock.config.nemo_gym import PYTHON_VARIABLE, package_folder
from paddock.ports import free_port
from paddock.resources_servers.judged.make_rows import make_rows
from paddock.testing import ScriptedAnswer, ScriptedUpstream
from paddock.types import JsonObject
from paddock.types.responses import make_response, message_item

THEIRS = "resources_servers.equivalence_llm_judge.app:LLMJudgeResourcesServer"
TEMPLATE = Path("resources_servers/equivalence_llm_judge/prompt_templates/equivalence_llm_judge.txt")
JUDGE_S = 0.05
CONNECTIONS = 64
ROWS = 200
ROUNDS = 5
ROUND_S = 3.0
ANSWER = "I went through what the question asks for, part by part. It is %s."


def run() -> dict[str, Any]:
    return asyncio.run(_run())


async def _run() -> JsonObject:
    bodies = [orjson.dumps(_body(line)) for line in make_rows(ROWS, 5)]
    python = os.environ.get(PYTHON_VARIABLE)
    with ExitStack() as stack:
        async with ScriptedUpstream(ScriptedAnswer("They agree.\n[[A=B]]"), delay_s=JUDGE_S) as judge:
            urls = {"ours": await asyncio.to_thread(_ours, stack, judge)}
            if python is not None:
                urls["theirs"] = await asyncio.to_thread(_theirs, stack, judge, python)
            rounds = [{side: await _load(at, bodies) for side, at in urls.items()} for _ in range(ROUNDS)]
            rewards = {side: await _rewards(url, bodies) for side, (url, _) in urls.items()}
            # Theirs holds connections to the judge, which are closed before it is.
            await asyncio.to_thread(stack.close)
    ours: JsonObject = {"judge_s": JUDGE_S, "ceiling_per_s": CONNECTIONS / (2 * JUDGE_S), **_medians(rounds, "ours")}
    ours["equal"] = sum(reward == 1.0 for reward in rewards["ours"])
    if python is None:
        return {**ours, "theirs": f"{PYTHON_VARIABLE} is not set"}
    return {
        **ours,
        **{f"their_{key}": value for key, value in _medians(rounds, "theirs").items()},
        "rate_ratio": median(one["ours"].requests_per_s / one["theirs"].requests_per_s for one in rounds),
        "cpu_ratio": median(one["theirs"].cpu_ms / one["ours"].cpu_ms for one in rounds),
        "other_rewards": sum(a != b for a, b in zip(rewards["ours"], rewards["theirs"], strict=True)),
    }


def _body(line: JsonObject) -> JsonObject:
    answer = message_item(ANSWER % line["expected_answer"])
    return {**line, "response": make_response([answer], line["responses_create_params"], model="policy")}


def _ours(stack: ExitStack, judge: ScriptedUpstream) -> tuple[str, int]:
    """Start ours; where it listens, and its process."""
    port = free_port()
    asked = {"model_server": {"type": "models_servers", "name": "judge"}, "max_concurrency": CONNECTIONS}
    model = {"base_url": judge.url, "model": "m", "api_key": "none"}
    tree = {
        "serve": {"loopback_token": False},
        "judged": {"resources_servers": {"judged": {"judge": asked, "port": port}}},
        "judge": {"models_servers": {"openai": model}},
    }
    file = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "judged.yaml"
    file.write_text(yaml.safe_dump(tree))
    url = f"http://127.0.0.1:{port}"
    return url, stack.enter_context(running(["paddock", "serve", str(file)], f"{url}/healthz")).pid


def _theirs(stack: ExitStack, judge: ScriptedUpstream, python: str) -> tuple[str, int]:
    package = package_folder(Path(python))
    assert package is not None
    block = {
        "judge_model_server": {"type": "responses_api_models", "name": "judge"},
        "judge_responses_create_params": {"input": []},
        "judge_prompt_template_fpath": str(package / TEMPLATE),
        "judge_endpoint_max_concurrency": CONNECTIONS,
        "check_twice_swap": True,
    }
    return stack.enter_context(nemo_gym_server(python, THEIRS, block, {"judge": ["127.0.0.1", judge.port]}))


async def _load(at: tuple[str, int], bodies: list[bytes]) -> LoadRound:
    url, pid = at
    return await measure(f"{url}/verify", bodies, connections=CONNECTIONS, seconds=ROUND_S, processes=family(pid))


async def _rewards(url: str, bodies: list[bytes]) -> list[float]:
    async with RawConnection(url) as connection:
        return [float(orjson.loads(await connection.post(f"{url}/verify", body))["reward"]) for body in bodies[:40]]


def _medians(rounds: Sequence[Mapping[str, LoadRound]], side: str) -> JsonObject:
    names = ("requests_per_s", "p50_ms", "cpu_ms")
    return {name: median(getattr(one[side], name) for one in rounds) for name in names}
