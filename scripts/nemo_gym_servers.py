"""Usage: python scripts/nemo_gym_servers.py RESULTS [NAME...] [--write]

Runs the published rollouts of NeMo-Gym's resources servers through ours: each server is started from its own config
file (`resources_servers/nemo_gym`), and the agent of that file plays the answers of `data/example_rollouts.jsonl`,
with every tool call run for real. Their agent's recorded reward is compared, and that of a plain call of the server
without us. Model servers of the file are scripted: a judge's answers are drawn by what it is asked, so both calls get
the same.

RESULTS is a JSON Lines file, one line a server, the last of a name counts; a server that it has is not run again unless
it is named. NAME: of servers; none: all of the package that PADDOCK_NEMO_GYM_PYTHON names. --write: makes
docs/nemo_gym_servers.md of RESULTS.
"""

import argparse
import asyncio
import hashlib
import json
import re
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import yaml

from paddock.config import Config, load
from paddock.config.nemo_gym import package_folder
from paddock.errors import PaddockError
from paddock.http import RUN, Call, DirectPeer, ModelReply, Peer, read_row
from paddock.http.client import cookie_header, set_cookies
from paddock.http.routes import ROW_RESERVED
from paddock.resources_servers.nemo_gym import NemoGymServer
from paddock.server import ModelServer, ServerConfig
from paddock.server.lifecycle import build_servers, start_servers
from paddock.types import JsonObject, Rollout, TurnRecord
from paddock.types.responses import content_text, make_response, message_item

PAGE = Path(__file__).parents[1] / "docs" / "nemo_gym_servers.md"
SERVER_TIMEOUT_S = 420.0
ROLLOUT_TIMEOUT_S = 180.0
JUDGEMENTS = (
    *("[[A=B]]", "[[A!=B]]", "Yes", "No", "Judgement: YES", "Judgement: NO", "A", "B", "CORRECT", "INCORRECT"),
    *("correct: yes", "correct: no", "[[5]]", "<score>1</score>", "User Safety: safe\nResponse Safety: unsafe", ""),
)
ANSWER = "I can not say for certain. \\boxed{4} Answer: A"
OF_THEIRS = ("resources_servers", "nemo_gym")
JUDGE_URL = "${policy_base_url}"
HEAVY = ("torch==",)
"""Requirements of more than a gigabyte."""


REASONS = (
    (
        r"Name or service not known|resolve host|status 128|Git operation failed|on the Hub",
        "needs git or a file from the web; there was none",
    ),
    (r"datasets.0.prompt_config", "its rows are without prompts, and its judge is a paid service"),
    (r"_api_key`\): nothing sets", "needs a key of a service"),
    (r"speed_bench_simple_agent/run: no answer", "asks a vLLM for its counters; there was none"),
    (r"status 127|bcb_venv", "makes an environment of its own at its start, which failed"),
    (r"_cx", "needs a key of a search service"),
    (r"27 GB", "loads 27 GB at its start"),
    (r"no instance `math_with_judge`", "names another resources server, which its file has not"),
)
"""What is found in an error, and what it says."""

HEAD = """# NeMo-Gym's servers

Made by `scripts/nemo_gym_servers.py`, by trial, of nemo-gym 0.4.0: each server is started from its own file, and the
agent of the file plays its published rollouts, tool calls included; where there are none, its rows with one answer of
ours.

{ran} of {servers} servers ran. Of their {answers} answers {same} came to the reward that their own agent recorded or,
where a judge has a say or nothing is recorded, that a plain call of the server gives with the same judge; {plain} came
to that of a plain call. The others: the published rollouts are of other rows than the published ones, or of a judge or
a service that is not here; `blackjack` deals anew each time, and what `newton_bench` measures has noise.

Git repositories and data that servers fetch at their first start were there for `code_fim`, `instruction_following` and
`newton_bench` (which finds what it has cloned from its second start on); for the others that need some, they were not.

Columns: answers played; calls of the judge, a scripted one; seconds until it served, on two busy cores; what came of
it.

| server | answers | judged | start | result |
|---|---|---|---|---|
"""


class RecordedRollout(NamedTuple):
    """A published rollout."""

    row: JsonObject
    turns: list[list[JsonObject]]
    response: JsonObject
    reward: float | None
    """None: there is none."""


class RecordedPlayer(ModelServer[ServerConfig]):
    """Plays the turns of one rollout after the other; asked for anything else, it is a judge."""

    def __init__(self, name: str, peers: dict[str, Peer]) -> None:
        super().__init__(ServerConfig(), name=name, peers=peers)
        self.turns_left: list[list[JsonObject]] = []
        self.judged = 0
        self.is_policy = False

    async def responses(self, body: JsonObject, call: Call) -> ModelReply:
        if self.is_policy and call.path.get("secret"):
            turn = self.turns_left.pop(0) if self.turns_left else [message_item("Done.")]
            return make_response(turn, body, model="recorded")
        self.judged += 1
        asked = json.dumps([body.get("input"), body.get("instructions")], sort_keys=True).encode()
        text = JUDGEMENTS[hashlib.sha256(asked).digest()[0] % len(JUDGEMENTS)]
        return make_response([message_item(text)], body, model="judge")

    async def chat(self, body: JsonObject, call: Call) -> ModelReply:
        self.judged += 1
        message = {"role": "assistant", "content": "Yes"}
        choice = {"index": 0, "finish_reason": "stop", "message": message}
        return {"id": "c", "object": "chat.completion", "created": 1, "model": "judge", "choices": [choice]}

    async def turns(self, secret: str) -> TurnRecord:
        return TurnRecord(engine="text", turns=[])

    async def forget(self, secret: str) -> None:
        return None


def recorded(folder: Path) -> list[RecordedRollout]:
    """The published rollouts of a server, each with its row as it is published; where there are none, its rows with an
    answer of ours."""
    rows = [json.loads(line) for line in _lines(folder / "data/example.jsonl")]
    try:
        rollouts = [json.loads(line) for line in _lines(folder / "data/example_rollouts.jsonl")]
        found = [_recorded(one, _row_of(one, nth, rows)) for nth, one in enumerate(rollouts)]
    except (LookupError, TypeError, ValueError):  # they are kept elsewhere, or have another form
        found = []
    answer = message_item(ANSWER)
    return found or [
        RecordedRollout(_clean(row), [[answer]], make_response([answer], {}, model="m"), None) for row in rows
    ]


def _recorded(rollout: JsonObject, row: JsonObject) -> RecordedRollout:
    response = rollout["response"]
    return RecordedRollout(_clean(row), _turns(response["output"]), _clean_response(response), float(rollout["reward"]))


def _row_of(rollout: JsonObject, nth: int, rows: Sequence[JsonObject]) -> JsonObject:
    """The row of a rollout, by its texts, else by its index, else by its place in the file."""
    alike = [row for row in rows if _texts(row) == _texts(rollout)]
    if len(alike) == 1:
        return alike[0]
    index = rollout.get("_ng_task_index", nth)
    return rows[index] if index < len(rows) else rollout


def _texts(row: JsonObject) -> str:
    given = row["responses_create_params"]["input"]
    items = [{"content": given}] if isinstance(given, str) else given
    return "\n".join(content_text(item.get("content")) for item in items)


def _lines(file: Path) -> list[str]:
    return [line for line in file.read_text().splitlines() if line.strip()] if file.is_file() else []


def _clean(row: JsonObject) -> JsonObject:
    params = {key: value for key, value in row["responses_create_params"].items() if value is not None}
    kept = {key: value for key, value in row.items() if key not in ROW_RESERVED and key != "agent_ref"}
    return {**kept, "responses_create_params": params}


def _clean_response(response: JsonObject) -> JsonObject:
    return {key: value for key, value in response.items() if value is not None}


def _turns(output: Sequence[JsonObject]) -> list[list[JsonObject]]:
    turns: list[list[JsonObject]] = [[]]
    answered = False
    for item in output:
        if item["type"] == "function_call_output" or item.get("role") == "user":
            answered = True
            continue
        if answered:
            turns.append([])
        answered = False
        turns[-1].append({key: value for key, value in item.items() if value is not None})
    return [turn for turn in turns if turn]


def read_config(folder: Path, scratch: Path) -> Config:
    """The server's own file, with scripted models in place of those that it starts or names."""
    files = sorted(folder.glob("configs/*.yaml"), key=lambda file: (file.stem != folder.name, file.name))
    tree: JsonObject = yaml.safe_load(files[0].read_text())
    tree = {name: block for name, block in tree.items() if "responses_api_models" not in (block or {})}
    models = {name: {"models_servers": {"openai": {"base_url": "http://127.0.0.1:1/v1", "model": "m"}}}
              for name in _models(tree)}  # fmt: skip
    servers = {name: _with_judge(block, models) for name, block in tree.items() if isinstance(block, dict)}
    text = yaml.safe_dump({**servers, **models})
    variables = {name: value for name, value in tree.items() if name not in servers and f"${{{name}}}" in text}
    file = scratch / f"{folder.name}.yaml"
    file.write_text(yaml.safe_dump(variables) * bool(variables) + text)
    return load([file], ["policy_base_url=http://127.0.0.1:1/v1", "policy_model_name=m", "policy_api_key=k"])


def _with_judge(block: JsonObject, models: JsonObject) -> JsonObject:
    """The block of a server; where it asks its judge by a URL, as a block of ours that gives it that of a model."""
    for name, config in block.get("resources_servers", {}).items():
        urls = [key for key, value in config.items() if value == JUDGE_URL]
        if urls:
            model = {"type": "models_servers", "name": next(iter(models))}
            settings = {key: value for key, value in config.items() if key not in (*urls, "entrypoint")}
            ours = {"server": name, "config": settings, "model_urls": dict.fromkeys(urls, model)}
            return {**block, "resources_servers": {"nemo_gym": ours}}
    return block


def _models(node: Any) -> set[str]:
    if isinstance(node, list):
        return {name for item in node for name in _models(item)}
    if not isinstance(node, Mapping):
        return set()
    if node.get("type") == "responses_api_models" and "name" in node:
        return {str(node["name"])}
    return {name for item in node.values() for name in _models(item)}


async def try_server(name: str, folder: Path) -> JsonObject:
    """One line of the results."""
    line: JsonObject = {"server": name, "requires": _requires(folder)}
    try:
        rollouts = recorded(folder)
    except (LookupError, TypeError, ValueError) as error:
        return {**line, "why": f"not tried: its published rows are not here ({type(error).__name__})"}
    if any(one.startswith(HEAVY) for one in line["requires"]):
        return {**line, "why": f"not tried: requires {', '.join(one for one in line['requires'] if 'torch' in one)}"}
    with tempfile.TemporaryDirectory() as scratch:
        try:
            config = read_config(folder, Path(scratch))
            instances = config.instances.values()
            gym = next((one.name for one in instances if (one.kind, one.implementation) == OF_THEIRS), None)
            if gym is None:
                ours = {one.implementation for one in config.instances.values() if one.kind == "resources_servers"}
                return {**line, "why": f"replaced by ours: {', '.join(sorted(ours))}"}
            async with asyncio.timeout(SERVER_TIMEOUT_S):
                return {**line, **await _play(config, gym, rollouts)}
        except TimeoutError:
            return {**line, "why": f"did not end in {SERVER_TIMEOUT_S:.0f} s"}
        except PaddockError as error:
            return {**line, "why": error.message}
        except (LookupError, TypeError, ValueError, httpx.HTTPError, RuntimeError) as error:
            return {**line, "why": f"{type(error).__name__}: {error}"}


def _requires(folder: Path) -> list[str]:
    file = folder / "requirements.txt"
    lines = [line.strip() for line in file.read_text().splitlines()] if file.is_file() else []
    return [line for line in lines if line and not line.startswith("#") and "../.." not in line]


async def _play(config: Config, gym: str, rollouts: Sequence[RecordedRollout]) -> JsonObject:
    agents = [
        one.name
        for one in config.instances.values()
        if one.kind == "agents" and config.block(one.name)["resources_server"]["name"] == gym
    ]
    if not agents:
        return {"why": "not tried: its file has no agent"}
    agent = agents[0]
    peers: dict[str, Peer] = {}
    built = build_servers(config, peers, [gym, agent])
    models = {
        one.name: RecordedPlayer(one.name, peers) for one in config.instances.values() if one.kind == "models_servers"
    }
    stepped = bool(config.block(agent).get("environment_steps"))
    server, policy = built[gym], models[config.block(agent)["model_server"]["name"]]
    assert isinstance(server, NemoGymServer)
    policy.is_policy = True
    everybody = [*models.values(), *built.values()]
    peers.update({one.name: DirectPeer(one.name, one.handlers) for one in everybody})
    before = time.monotonic()
    async with start_servers(everybody, start_timeout_s=30, stop_timeout_s=10):
        started_s = time.monotonic() - before
        ran, plain = [], []
        for one in rollouts:
            policy.turns_left = [*one.turns]
            ran.append(await peers[agent].call(RUN, read_row(one.row), Call().within(ROLLOUT_TIMEOUT_S)))
            plain.append(await _plain_reward(server.destination().url, one, ran[-1], stepped=stepped))
    return {
        "agent": config.instance(agent).implementation,
        "started_s": round(started_s, 1),
        "judged": sum(model.judged for model in models.values()),
        "ours": [one.reward for one in ran],
        "recorded": [one.reward for one in rollouts],
        "plain": plain,
        "failures": sorted({f"{one.outcome}: {one.failure.message[:300]}" for one in ran if one.failure}),
    }


async def _plain_reward(url: str, one: RecordedRollout, rollout: Rollout, *, stepped: bool) -> float | str:
    """The reward of their server for the row and our agent's response, without us; of stateful ones, the calls too, of
    `stepped` ones the sum over its answers."""
    async with httpx.AsyncClient(timeout=ROLLOUT_TIMEOUT_S) as client:
        cookies: dict[str, str] = {}

        async def post(path: str, body: JsonObject) -> httpx.Response:
            reply = await client.post(f"{url}{path}", json=body, headers=cookie_header(cookies))
            cookies.update(set_cookies(reply.headers))
            return reply

        response = rollout.response or one.response
        if stepped:
            await post("/reset", one.row)
            total = 0.0
            for turn in _turns(response["output"]):
                reply = await post("/step", {**one.row, "response": make_response(turn, {}, model="m")})
                if reply.status_code == httpx.codes.BAD_REQUEST:
                    continue
                total += reply.json()["reward"]
                if reply.json()["terminated"] or reply.json()["truncated"]:
                    break
            return total
        await post("/seed_session", one.row)
        for item in response["output"]:
            if item["type"] == "function_call":
                try:
                    await post(f"/{item['name']}", json.loads(item["arguments"]))
                except ValueError:
                    continue
        reply = await post("/verify", {**one.row, "response": response})
        return float(reply.json()["reward"]) if reply.status_code == httpx.codes.OK else f"{reply.status_code}"


def reference(line: JsonObject) -> list[Any]:
    """What rewards are held against: a judge is another one than that of the recorded rollouts."""
    plain: list[Any] = line["plain"]
    return plain if line["judged"] or None in line["recorded"] else line["recorded"]


def equal(line: JsonObject, other: Sequence[Any]) -> int:
    """How many rewards are there and the same."""
    return sum(one is not None and one == its for one, its in zip(line["ours"], other, strict=True))


def verdict(line: JsonObject) -> str:
    """The table's last column."""
    if "why" in line:
        return _why(line["why"])
    count, plain = len(line["ours"]), equal(line, line["plain"])
    if reference(line) is line["plain"]:
        text = f"runs; {plain} of {count} rewards are those of a plain call"
    else:
        text = (
            f"runs; {equal(line, line['recorded'])} of {count} rewards are the recorded, {plain} those of a plain call"
        )
    return f"{text}; {_short(line['failures'][0])}" if line["failures"] else text


def _why(text: str) -> str:
    """Why a server did not run, in words where it is a known one."""
    agent = re.search(r"unknown implementation `(\w+)` of agents", text)
    if agent:
        return f"its agent `{agent.group(1)}` is not read here"
    return next((words for pattern, words in REASONS if re.search(pattern, text)), _short(text))


def _short(text: str) -> str:
    line = re.sub(r"/[\w.@-]+/[\w./@-]+/", "", " ".join(text.split())).replace("|", "/")
    return line if len(line) <= 230 else f"{line[:110]} ... {line[-110:]}"


def page(lines: Sequence[JsonObject]) -> str:
    ran = [line for line in lines if "ours" in line]
    answers = sum(len(line["ours"]) for line in ran)
    same, plain = (sum(equal(line, other(line)) for line in ran) for other in (reference, lambda line: line["plain"]))
    head = HEAD.format(ran=len(ran), servers=len(lines), answers=answers, same=same, plain=plain)
    table = [
        f"| {line['server']} | {len(line['ours']) if 'ours' in line else 0} | {line.get('judged', '')} "
        f"| {line.get('started_s', '')} | {verdict(line)} |"
        for line in lines
    ]
    return head + "\n".join(table) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("results", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args()
    package = package_folder()
    if package is None:
        raise SystemExit(
            "PADDOCK_NEMO_GYM_PYTHON names no interpreter with nemo-gym: scripts/setup_nemo_gym.sh makes one"
        )
    done = {json.loads(line)["server"] for line in _lines(args.results)}
    folders = [path.parent for path in sorted(package.glob("resources_servers/*/app.py"))]
    for folder in folders:
        if (folder.name not in args.names) if args.names else (folder.name in done or args.write):
            continue
        line = asyncio.run(try_server(folder.name, folder))
        with args.results.open("a") as file:
            file.write(json.dumps(line) + "\n")
        print(f"{folder.name}: {verdict(line)}", flush=True)
    if args.write:
        latest = {line["server"]: line for line in map(json.loads, _lines(args.results))}
        PAGE.write_text(page([latest[name] for name in sorted(latest)]))


if __name__ == "__main__":
    main()
