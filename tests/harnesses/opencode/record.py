"""Makes the expectations of a table of calls by running the real program: `record.py BINARY TABLE... [--write]`.

Table   JSON: `program`, its name and version, and `cases`. A case has a `name`, `files` before by path, a `tool`, its
        `arguments` (an object, or a text that is sent as it is), and what was recorded: `result`, what the model is
        shown, and `after`, the files that have changed (null: gone). Each case has a folder of its own, `{dir}` in
        texts.
        `setup` is a shell line that is run in it after the files are made. `unordered`: lines in any order.
Run     many calls in one session, a turn each, against a scripted model; git and ripgrep have to be on the path.
Out     the recorded tables as JSON; `--write` puts them in place of the given ones.
"""

import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
from hashlib import sha256
from pathlib import Path
from typing import Any

from paddock.http import SCRIPT, Call, ModelReply, ReplayScript, new_secret
from paddock.models_servers.replay import ReplayServer
from paddock.models_servers.replay.config import ReplayConfig
from paddock.server.access import Access
from paddock.server.lifecycle import serve_http
from paddock.server.sockets import LOOPBACK, Address, bind
from paddock.testing import over
from paddock.types import JsonObject
from paddock.types.responses import call_item, message_item

TIMEOUT_S = 240.0
SESSION_CALLS = 80
"""The program sends all of a session with each call."""
LONG_CHARS = 1500
SHOWN_CHARS = 300
MODEL = "policy"
_SAVED = re.compile(r"Full output saved to: \S+")
VARIABLES = ("AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD", "DEFAULT_PLUGINS", "CLAUDE_CODE")


class ListeningServer(ReplayServer):
    """Keeps what it is asked."""

    asked: list[JsonObject]

    async def chat(self, body: JsonObject, call: Call) -> ModelReply:
        self.asked.append(body)
        return await super().chat(body, call)


def settings(base_url: str, model: str) -> JsonObject:
    """A configuration of the program: one model, one agent, nothing beside."""
    limit = {"context": 1_000_000, "output": 8192}
    known = {"name": model, "tool_call": True, "reasoning": False, "attachment": False, "limit": limit}
    options = {"baseURL": base_url, "apiKey": "none", "timeout": False}
    tools = {"task": False, "skill": False, "webfetch": False}
    return {
        "model": f"mock/{model}",
        "small_model": f"mock/{model}",
        "autoupdate": False,
        "share": "disabled",
        "snapshot": False,
        "lsp": False,
        "formatter": False,
        "enabled_providers": ["mock"],
        "compaction": {"auto": False, "prune": False},
        "permission": "allow",
        "instructions": [],
        "provider": {"mock": {"npm": "@ai-sdk/openai-compatible", "options": options, "models": {model: known}}},
        "default_agent": "swe",
        "agent": {"swe": {"mode": "primary", "prompt": "Work.", "tools": tools}, "title": {"disable": True}},
    }


async def run(binary: str, place: Path, repo: Path, items: list[JsonObject], model: str) -> list[str]:
    """The results that the program gives back, in order."""
    server = ListeningServer(ReplayConfig(), name="model", peers={})
    server.asked = []
    secret = new_secret()
    bound = bind("model", Address(LOOPBACK, 0))
    async with (
        over("direct", server) as peers,
        serve_http({"model": server}, {"model": bound}, access=Access(), stop_timeout_s=2.0),
    ):
        turns = [[item] for item in items]
        await peers["model"].call(SCRIPT, ReplayScript(turns=[*turns, [message_item("Done.")]]), Call(), secret=secret)
        config = place / "config.json"
        config.write_text(json.dumps(settings(f"{bound.url}/r/{secret}/v1", model)))
        env = {f"OPENCODE_DISABLE_{name}": "1" for name in VARIABLES}
        env |= {"HOME": str(place), "OPENCODE_CONFIG": str(config), "PATH": os.environ["PATH"]}
        words = [binary, "run", "--format", "json", "--pure", "--auto", "-m", f"mock/{model}", "--title", "t"]
        pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), asyncio.subprocess.PIPE)
        program = await asyncio.create_subprocess_exec(*words, cwd=repo, env=env, **pipes)
        try:
            out, err = await asyncio.wait_for(program.communicate(b"Go."), TIMEOUT_S)
        finally:
            if program.returncode is None:
                program.kill()
    last: JsonObject = max(server.asked, key=lambda body: len(body["messages"]), default={"messages": []})
    results = [message["content"] for message in last["messages"] if message["role"] == "tool"]
    if len(results) != len(items):
        raise SystemExit(f"{len(results)} results of {len(items)}\n{out.decode()[-2000:]}\n{err.decode()[-2000:]}")
    return results


def _put(case: JsonObject, folder: Path) -> None:
    folder.mkdir(parents=True)
    for path, text in case.get("files", {}).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(text.encode())
    if "setup" in case:
        subprocess.run(["bash", "-c", case["setup"]], cwd=folder, check=True)


def found(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): short(path.read_bytes().decode("utf-8", "backslashreplace"))
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def _recorded(case: JsonObject, folder: Path, result: str) -> JsonObject:
    before, now = case.get("files", {}), found(folder)
    after = {path: now.get(path) for path in sorted({*before, *now}) if before.get(path) != now.get(path)}
    return {**case, "result": told(result, str(folder), str(folder.parent)), "after": after}


def told(result: str, folder: str, repo: str) -> str:
    """A result without what differs from run to run, and a long one in short."""
    return short(_SAVED.sub("Full output saved to: {saved}", result.replace(folder, "{dir}").replace(repo, "{repo}")))


def short(text: str) -> str:
    if len(text) <= LONG_CHARS:
        return text
    return f"{text[:SHOWN_CHARS]} … {sha256(text.encode()).hexdigest()} … {text[-SHOWN_CHARS:]}"


def same(case: JsonObject, result: str) -> bool:
    """Whether a result is the recorded one; of `unordered` cases the lines may stand in any order."""
    if case.get("unordered"):
        return sorted(result.split("\n")) == sorted(case["result"].split("\n"))
    return bool(result == case["result"])


def _item(case: JsonObject, folder: Path) -> JsonObject:
    given = case["arguments"]
    text = given if isinstance(given, str) else json.dumps(given)
    return call_item(case["tool"], text.replace("{dir}", str(folder)))


def record(binary: str, tables: list[JsonObject], place: Path) -> list[JsonObject]:
    """The tables with what the program does now."""
    repo = place / "repo"
    subprocess.run(["git", "init", "-q", str(repo)], check=True, capture_output=True)
    return [_record(binary, table, place, repo) for table in tables]


def _record(binary: str, table: JsonObject, place: Path, repo: Path) -> JsonObject:
    done: list[JsonObject] = []
    for start in range(0, len(table["cases"]), SESSION_CALLS):
        cases = table["cases"][start : start + SESSION_CALLS]
        folders = [folder_of(repo, table["name"], start + index) for index in range(len(cases))]
        for case, folder in zip(cases, folders, strict=True):
            _put(case, folder)
        items = [_item(case, folder) for case, folder in zip(cases, folders, strict=True)]
        results = asyncio.run(run(binary, place, repo, items, table.get("model", MODEL)))
        done += [_recorded(*one) for one in zip(cases, folders, results, strict=True)]
    return {**table, "cases": done}


def folder_of(repo: Path, table: str, index: int) -> Path:
    return repo / f"{table}{index:03d}"


def main(words: list[str]) -> None:
    binary, *paths = [word for word in words if word != "--write"]
    tables = [json.loads(Path(path).read_text()) for path in paths]
    with tempfile.TemporaryDirectory() as place:
        recorded = record(binary, tables, Path(place))
    if "--write" not in words:
        sys.stdout.write(json.dumps(recorded))
        return
    for path, table in zip(paths, recorded, strict=True):
        Path(path).write_text(json.dumps(table, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
