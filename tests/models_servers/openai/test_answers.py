"""Claims about answers that are none: whatever an endpoint gives in place of one is never paid, in every dialect, whole
or streamed; what a model can cause stays its own. The documentation's table says the same."""

import asyncio
import re
from collections.abc import Iterable
from itertools import product
from pathlib import Path
from typing import Any, get_args

import orjson
import pytest
from tests.models_servers.openai.answers import ARGUMENTS, CASES, NAME, QUICK, Api, BrokenEndpoint, cases
from tests.support.models import DialectReply, asking

from paddock.collect import EvalSettings, evaluate, make_plan
from paddock.config import load
from paddock.errors import from_wire
from paddock.http import new_secret
from paddock.models_servers.openai import OpenAIServer
from paddock.models_servers.openai.config import OpenAIConfig
from paddock.server.dialects import Dialect
from paddock.server.dialects.failures import AnswerFault
from paddock.types import REWARDED, JsonObject

ROOT = Path(__file__).parents[3]
CONFIGS = ("resources_servers/pivot/configs/pivot.yaml", "models_servers/openai/configs/openai.yaml")
APIS: tuple[Api, ...] = get_args(Api)
DIALECTS: dict[Api, tuple[Dialect, ...]] = {"chat": get_args(Dialect), "responses": ("responses",)}
"""That clients ask in, by what the endpoint speaks: a failure is told in each from one place."""
RIGHT = "match"
Asked = tuple[Api, str, Dialect, bool]
ASKED: list[Asked] = [
    (api, *asked) for api, dialects in DIALECTS.items() for asked in product(cases(api), dialects, (False, True))
]


def row(name: str) -> JsonObject:
    tool = {"type": "function", "name": NAME, "parameters": {"type": "object"}}
    action = {"type": "function_call", "name": NAME, "arguments": ARGUMENTS}
    return {
        "responses_create_params": {"input": f"Run the tests. CASE-{name}", "tools": [tool]},
        "expected_action": action,
        "uuid": name,
    }


def block(url: str, api: Api, name: str) -> JsonObject:
    quick: JsonObject = {"timeout_s": 0.3} if name == QUICK else {}
    return {"base_url": url, "model": "policy", "upstream_api": api, "attempts": 2, "first_retry_s": 0.001, **quick}


async def judged(folder: Path, api: Api, names: Iterable[str]) -> dict[str, JsonObject]:
    """Lines of rollouts and of final failures, by case."""
    names = list(names)
    (folder / "rows.jsonl").write_bytes(b"".join(orjson.dumps(row(name)) + b"\n" for name in names))
    async with BrokenEndpoint() as endpoint:
        policy = {"policy_base_url": endpoint.url, "policy_api_key": "none", "policy_model_name": "policy"}
        own = {"policy_model": {"models_servers": {"openai": block(endpoint.url, api, names[0])}}}
        config = load(CONFIGS, [f"{key}={value}" for key, value in policy.items()], extra=own)
        settings = EvalSettings(rows=[str(folder / "rows.jsonl")], retry_wait_s=0.0, max_attempts=1)
        await evaluate(make_plan(config, settings), folder / "run", quiet=True)
    found: dict[str, JsonObject] = {}
    for file in ("rollouts.jsonl", "failures.jsonl"):
        path = folder / "run" / file
        for line in map(orjson.loads, path.read_bytes().splitlines() if path.exists() else ()):
            found[line["uuid"] if file == "rollouts.jsonl" else names[line["group_id"]]] = line
    return found


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[Api, str], JsonObject]:
    async def run() -> dict[tuple[Api, str], JsonObject]:
        found: dict[tuple[Api, str], JsonObject] = {}
        for api in APIS:
            for nth, names in enumerate(([QUICK], [name for name in cases(api) if name != QUICK])):
                folder = tmp_path_factory.mktemp(f"{api}{nth}")
                found |= {(api, name): line for name, line in (await judged(folder, api, names)).items()}
        return found

    return asyncio.run(run())


@pytest.mark.parametrize(("api", "name"), [(api, name) for api in APIS for name in cases(api)])
def test_what_is_no_answer_is_never_paid(lines: dict[tuple[Api, str], JsonObject], api: Api, name: str) -> None:
    line, case = lines[api, name], CASES[name]
    if case.whose == "endpoint":
        assert "reward" not in line
        assert (line["kind"], line["outcome"], line["stage"]) == (case.kind, "infra", "model")
        return
    rollout = line["rollout"]
    assert (line["reward"], rollout["verdict"]["reason"]) == (float(case.kind == RIGHT), case.kind)
    cut = name in ("length", "overflow")
    assert (rollout["outcome"] in REWARDED, rollout["outcome"] == "truncated") == (True, cut)


@pytest.fixture(scope="module")
def replies() -> dict[Asked, tuple[DialectReply, int]]:
    """What each client gets, and the turns that were recorded of it."""

    async def run() -> dict[Asked, tuple[DialectReply, int]]:
        found: dict[Asked, tuple[DialectReply, int]] = {}
        async with BrokenEndpoint() as endpoint:
            for api, quick in product(APIS, (False, True)):
                once = {**block(endpoint.url, api, QUICK if quick else ""), "attempts": 1}
                config = OpenAIConfig.model_validate(once)
                server = OpenAIServer(config, name="m", peers={})
                async with asking("direct", server) as client:
                    asked = [each for each in ASKED if each[0] == api and (each[1] == QUICK) == quick]
                    got = await asyncio.gather(*(ask(client, server, each) for each in asked))
                found |= dict(zip(asked, got, strict=True))
        return found

    return asyncio.run(run())


async def ask(client: Any, server: OpenAIServer, asked: Asked) -> tuple[DialectReply, int]:
    _, name, dialect, stream = asked
    text = f"CASE-{name}"
    messages = {"messages": [{"role": "user", "content": text}]}
    bodies: dict[Dialect, JsonObject] = {
        "responses": {"input": text},
        "chat": messages,
        "messages": {"max_tokens": 64, **messages},
    }
    secret = new_secret()
    got = await client.ask(dialect, {**bodies[dialect], "stream": stream}, secret)
    return got, len((await server.turns(secret)).turns)


@pytest.mark.parametrize("asked", ASKED, ids=lambda asked: "-".join(map(str, asked)))
def test_what_is_no_answer_is_told_and_recorded_as_none(
    replies: dict[Asked, tuple[DialectReply, int]], asked: Asked
) -> None:
    _, name, dialect, stream = asked
    case, (got, turns) = CASES[name], replies[asked]
    if case.whose == "policy":
        assert (got.status, turns, b"error" in got.stream.replace(b'"error":null', b"")) == (200, 1, False)
        return
    kind = (case.streamed if stream else None) or case.kind
    assert turns == 0
    if got.status == 200:
        # The stream had begun when it failed. Anthropic's error events have no place for a kind.
        assert stream
        assert (b"event: error" if dialect == "messages" else b'"code":"%s"' % kind.encode()) in got.stream
    else:
        assert from_wire(got.status, got.body).kind in (kind, "upstream_unreadable" if stream else kind)


@pytest.mark.parametrize(("model", "status"), [("policy-2026", 200), ("policy", 200), ("other", 503), (None, 503)])
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("api", APIS)
async def test_an_answer_of_a_model_that_is_not_accepted_is_none(
    api: Api, stream: bool, model: str | None, status: int
) -> None:
    name = "dated"
    case = CASES[name]
    change: Any = lambda body: {**body, "model": model}  # noqa: E731
    CASES[name] = case._replace(chat=change, responses=change)
    try:
        async with BrokenEndpoint() as endpoint:
            given = {**block(endpoint.url, api, name), "accepted_models": ["policy", "policy-2026"]}
            server = OpenAIServer(OpenAIConfig.model_validate(given), name="m", peers={})
            async with asking("direct", server) as client:
                got, turns = await ask(client, server, (api, name, "chat", stream))
    finally:
        CASES[name] = case
    assert turns == (status == 200)
    if status != 200:
        assert b"upstream_wrong_model" in (got.stream or orjson.dumps(got.body))


def test_the_documented_table_is_that_of_the_code() -> None:
    page = (ROOT / "docs" / "endpoints.md").read_text()
    written = re.findall(r"^\| (.+?) \| (endpoint|policy) \| `(\w+)`(?:, streamed `(\w+)`)? \|$", page, re.MULTILINE)
    expected = {(case.what, case.whose, case.kind, case.streamed or "") for case in CASES.values()}
    expected.add(("a model that `accepted_models` does not name", "endpoint", "upstream_wrong_model", ""))
    assert sorted(written) == sorted(expected)
    assert set(get_args(AnswerFault)) <= {kind for _, whose, kind, _ in written if whose == "endpoint"}
