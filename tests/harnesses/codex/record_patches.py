"""Writes down what the real Codex does with each case of `patches.json`: its words, and the files after.

Run     `python tests/harnesses/codex/record_patches.py CODEX` writes the file anew: cases kept, answers renewed.
How     one `codex exec` against a model of ours that calls apply_patch once a turn; before each call the folder is made
        anew, after it is read. So the words are those of the tool, not of the command of that name.
Shapes  a case: `name`, `patch`, `files` (path to content; `->x` is a link to x; `!` before a content makes it
        executable, `\\u0000` before it latin-1 bytes), `text`, `after` (only what is not as before; null: gone).
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

STORED = Path(__file__).with_name("patches.json")
ROOT = "/w"
"""What the folder is called in recorded texts."""
_WALL = re.compile(r"^Wall time: [0-9.]+ seconds$", re.MULTILINE)
"""A clock's, to a tenth: more than 0 on a busy machine."""
_CONFIG = """\
model = "policy"
model_provider = "scripted"
model_catalog_json = "catalog.json"
approval_policy = "never"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false
web_search = "disabled"
project_doc_max_bytes = 0
[analytics]
enabled = false
[history]
persistence = "none"
[skills]
include_instructions = false
[skills.bundled]
enabled = false
[agents]
enabled = false
[features]
goals = false
plugins = false
remote_plugin = false
apps = false
hooks = false
shell_snapshot = false
memories = false
[model_providers.scripted]
name = "scripted"
base_url = "http://127.0.0.1:{port}/v1"
wire_api = "responses"
supports_websockets = false
requires_openai_auth = false
"""
_MODEL: dict[str, Any] = {
    "slug": "policy",
    "display_name": "policy",
    "description": "scripted",
    "default_reasoning_level": None,
    "supported_reasoning_levels": [],
    "shell_type": "unified_exec",
    "visibility": "list",
    "supported_in_api": True,
    "priority": 1,
    "additional_speed_tiers": [],
    "service_tiers": [],
    "availability_nux": None,
    "upgrade": None,
    "include_skills_usage_instructions": False,
    "include_plugin_usage_instructions": False,
    "include_apps_usage_instructions": False,
    "default_reasoning_summary": "none",
    "support_verbosity": False,
    "apply_patch_tool_type": "freeform",
    "web_search_tool_type": "text",
    "truncation_policy": {"mode": "tokens", "limit": 10000},
    "supports_image_detail_original": False,
    "context_window": 100_000_000,
    "max_context_window": 100_000_000,
    "effective_context_window_percent": 100,
    "experimental_supported_tools": [],
    "input_modalities": ["text"],
    "supports_search_tool": False,
    "supports_experimental_context": False,
    "use_responses_lite": False,
    "supports_reasoning_effort_updates": False,
    "node_repl_auto_review_required": False,
    "node_repl_disabled": True,
    "supports_parallel_tool_calls": True,
    "supports_reasoning_summaries": False,
    "base_instructions": "Work.",
}


def lay(folder: Path, files: Mapping[str, str]) -> None:
    """Make the files of a case."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if content.startswith("->"):
            path.symlink_to(content[2:])
            continue
        runs, content = content.startswith("!"), content.removeprefix("!")
        path.write_bytes(content[1:].encode("latin-1") if content.startswith("\0") else content.encode())
        path.chmod(0o755 if runs else 0o644)


def seen(folder: Path) -> dict[str, str]:
    """The files as a case has them."""
    found: dict[str, str] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = f"->{path.readlink()}"
        elif path.is_file():
            data = path.read_bytes()
            try:
                content = data.decode()
            except UnicodeDecodeError:
                content = "\0" + data.decode("latin-1")
            found[name] = ("!" if path.stat().st_mode & 0o100 else "") + content
    return found


def changed(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, str | None]:
    return {name: after.get(name) for name in sorted({*before, *after}) if before.get(name) != after.get(name)}


def version(codex: str) -> str:
    return subprocess.run([codex, "--version"], capture_output=True, text=True, check=True).stdout.split()[-1]


def record(codex: str, cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The cases with `text` and `after` as the program has them now."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as place:
        work, home = Path(place) / "w", Path(place) / "home"
        home.mkdir()
        work.mkdir()
        play = _Recording(work, cases)
        with _served(play) as port:
            (home / "config.toml").write_text(_CONFIG.format(port=port))
            (home / "catalog.json").write_text(json.dumps({"models": [_MODEL]}))
            words = [codex, "exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "go"]
            env = {**os.environ, "CODEX_HOME": str(home)}
            done = subprocess.run(
                words, cwd=work, env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=100, check=False
            )
        if len(play.texts) != len(cases):
            raise RuntimeError(f"{len(play.texts)} of {len(cases)} answers: {done.stderr[-500:]!r}")
        return [
            {**case, "text": _WALL.sub("Wall time: 0 seconds", text.replace(str(work), ROOT)), "after": after}
            for case, text, after in zip(cases, play.texts, play.after, strict=True)
        ]


class _Recording:
    """The model's side: a call for each request, and a message at the end."""

    def __init__(self, work: Path, cases: list[dict[str, Any]]) -> None:
        self.texts: list[str] = []
        self.after: list[dict[str, str | None]] = []
        self._work = work
        self._cases = cases

    def answer(self, body: dict[str, Any]) -> dict[str, Any]:
        said = [item["output"] for item in body["input"] if item["type"] == "custom_tool_call_output"]
        if said:
            before = self._cases[len(said) - 1]["files"]
            self.texts = said
            self.after.append(changed(before, seen(self._work)))
        if len(said) == len(self._cases):
            text = {"type": "output_text", "text": "done", "annotations": []}
            return {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": [text]}
        for path in self._work.iterdir():
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        case = self._cases[len(said)]
        lay(self._work, case["files"])
        patch = case["patch"].replace(ROOT + "/", f"{self._work}/")
        call = {"type": "custom_tool_call", "id": f"i{len(said)}", "call_id": f"c{len(said)}", "status": "completed"}
        return {**call, "name": "apply_patch", "input": patch}


@contextmanager
def _served(play: _Recording) -> Iterator[int]:
    class ProviderHandler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            item = play.answer(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
            events: list[dict[str, Any]] = [
                {"type": "response.created", "response": {"id": "r"}},
                {"type": "response.output_item.done", "output_index": 0, "item": item},
                {"type": "response.completed", "response": {"id": "r", "status": "completed", "usage": usage}},
            ]
            data = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events).encode()
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), ProviderHandler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


def main(codex: str) -> None:
    stored = json.loads(STORED.read_text())
    whole = {"version": version(codex), "cases": record(codex, stored["cases"])}
    STORED.write_text(json.dumps(whole, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
