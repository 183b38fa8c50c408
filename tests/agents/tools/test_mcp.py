"""Tools of real MCP servers: as a child of the agent, over HTTP, and in a sandbox."""

import asyncio
import importlib.metadata
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx2
import psutil
import pytest
from tests.agents.tools.test_tools_agent import PLACES, ROW, ended, results, run, servers

from paddock.agents.tools import ToolsAgent
from paddock.agents.tools.config import ToolsAgentConfig
from paddock.agents.tools.mcp_places import BoundedStream
from paddock.config import validate
from paddock.errors import ConfigError, RowError
from paddock.examples.inventory import InventoryServer
from paddock.http import RUN, Call
from paddock.sandbox.images.tiny import tiny_image
from paddock.server import ToolsServerConfig
from paddock.testing.sandboxes import sandbox_home, store_of
from paddock.types import Row
from paddock.types.responses import call_item, message_item

SHELF = Path(__file__).with_name("mcp_shelf.py")
ROOT = Path(__file__).parents[3]
CHILD = {"command": sys.executable, "args": [str(SHELF), "stdio"], "runs_in": "agent"}
END = [message_item("ready")]
GOOD = [
    call_item("add", '{"left": 2, "right": 3}'),
    call_item("fail", '{"why": "no fig here"}'),
    call_item("add", '{"left": "x"}'),
    call_item("add", "{"),
    call_item("move_item", '{"item": "fig"}'),
    call_item("shelf__move", '{"item": "fig"}'),
    call_item("move", '{"item": "apple", "change": -2}'),
    call_item("move", '{"item": "pear", "change": -2}'),
]


def check_good(rollout: Any, model: Any) -> None:
    assert (rollout.outcome, rollout.reward) == ("completed", 1.0), rollout.failure
    texts = results(rollout)
    assert texts[0] == "5"
    assert "no fig here" in texts[1]
    assert "left" in texts[2]
    assert texts[3].startswith("add: ")
    assert texts[4:] == ["moved fig", "not fig", "3", "0"]
    (add,) = [tool for tool in model.requests[0]["tools"] if tool["name"] == "add"]
    assert (add["type"], add["description"]) == ("function", "Add two numbers.")
    assert sorted(add["parameters"]["properties"]) == ["left", "right"]


async def test_a_server_beside_the_agent() -> None:
    rollout, model = await run([GOOD, END], mcp_servers={"shelf": CHILD})
    check_good(rollout, model)
    assert ended(rollout)["malformed"]["bad_json"] == 1


@pytest.mark.slow
async def test_each_rollout_has_a_process_of_its_own_that_ends_with_it() -> None:
    turns = [[call_item("note", '{"text": "a"}')], [call_item("note", '{"text": "b"}')], END]
    pids = []
    for _ in range(2):
        rollout, _ = await run(turns, mcp_servers={"shelf": CHILD})
        first, second = (json.loads(text) for text in results(rollout))
        assert first[1:] == ["a"]
        assert second == [first[0], "a", "b"]
        pids.append(first[0])
    assert pids[0] != pids[1]
    assert not any(psutil.pid_exists(pid) for pid in pids)


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{}, {"concurrent_calls": True}])
async def test_calls_side_by_side_keep_their_order(settings: Any) -> None:
    calls = [call_item("add", json.dumps({"left": number, "right": 0})) for number in range(8)]
    rollout, _ = await run([calls, END], mcp_servers={"shelf": CHILD}, **settings)
    assert results(rollout) == [str(number) for number in range(8)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tool", "kind", "said"),
    [("die", "tool_failed", "shelf fell down"), ("hang", "timeout", "in time"), ("sound", "content_refused", "audio")],
)
async def test_a_server_that_fails_is_no_reward_and_no_text(tool: str, kind: str, said: str) -> None:
    started = time.monotonic()
    turns = [[call_item(tool, "{}")], END]
    rollout, model = await run(turns, mcp_servers={"shelf": CHILD}, tool_timeout_s=1.0)
    assert (rollout.outcome, rollout.reward, len(model.requests)) == ("infra", None, 1)
    assert rollout.failure is not None
    assert (rollout.failure.kind, rollout.failure.stage) == (kind, "tools")
    assert said in rollout.failure.message
    assert time.monotonic() - started < 30


@pytest.mark.slow
async def test_lines_that_are_no_messages_are_no_answers() -> None:
    rollout, _ = await run([[call_item("babble", "{}")], END], mcp_servers={"shelf": CHILD})
    assert (rollout.outcome, results(rollout)) == ("completed", ["said"])


@pytest.mark.parametrize(
    ("server", "said"),
    [
        ({**CHILD, "command": "/no/such/program"}, "/no/such/program"),
        ({**CHILD, "args": ["-c", "raise SystemExit('no shelf')"]}, "no shelf"),
        ({**CHILD, "args": ["-c", "import time; time.sleep(60)"], "connect_timeout_s": 1.0}, "no answer in 1 s"),
        ({"url": "http://127.0.0.1:9/mcp"}, "shelf"),
    ],
)
async def test_a_server_that_does_not_start_is_no_reward(server: Any, said: str) -> None:
    rollout, model = await run([END], mcp_servers={"shelf": server})
    assert (rollout.outcome, rollout.reward, len(model.requests)) == ("infra", None, 0)
    assert rollout.failure is not None
    assert rollout.failure.stage == "seed"
    assert said in rollout.failure.message


@pytest.mark.slow
async def test_a_cancelled_rollout_ends_its_servers() -> None:
    before = set(psutil.Process().children())
    async with servers([[call_item("hang", "{}")]], mcp_servers={"shelf": CHILD}) as (agent, model, environment):
        running = asyncio.create_task(agent.call(RUN, Row.from_wire(ROW), Call()))
        while not model.requests:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.2)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        assert not {child for child in psutil.Process().children() if "mcp_shelf" in str(child.cmdline())} - before
        assert (environment.opened, environment.closed) == (1, 1)


DEAF = {
    "command": "sh",
    "args": ["-c", '"$0" "$@"; sleep 300', sys.executable, str(SHELF), "stdio"],
    "runs_in": "agent",
}
"""Does not end with its standard input."""
AGENT = """
import asyncio, json, sys
from tests.agents.tools.test_tools_agent import run
from paddock.types.responses import call_item
asyncio.run(run([[call_item("hang", "{}")]], mcp_servers={"shelf": json.loads(sys.argv[1])}))
"""


@pytest.mark.slow
def test_an_agent_that_is_killed_leaves_no_server_that_ignores_the_end_of_its_input() -> None:
    process = subprocess.Popen([sys.executable, "-c", AGENT, json.dumps(DEAF)], cwd=ROOT)
    started: list[psutil.Process] = []
    try:
        until(lambda: any("mcp_shelf" in " ".join(one.cmdline()[:3]) for one in _below(process.pid)), 30.0)
        started = _below(process.pid)
        process.kill()
        process.wait()
        assert not psutil.wait_procs(started, timeout=10.0)[1]
    finally:
        process.kill()
        for one in started:
            with suppress(psutil.NoSuchProcess):
                one.kill()


@pytest.mark.slow
async def test_a_server_that_ignores_the_end_of_its_input_ends_with_its_rollout() -> None:
    rollout, _ = await run([GOOD, END], mcp_servers={"shelf": DEAF})
    assert rollout.outcome == "completed"
    assert not [one for one in _below(os.getpid()) if "mcp_shelf" in " ".join(one.cmdline())]


def _below(pid: int) -> list[psutil.Process]:
    return psutil.Process(pid).children(recursive=True)


def until(true: Callable[[], bool], limit_s: float) -> None:
    deadline = time.monotonic() + limit_s
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.slow
async def test_images_are_refused_by_name_or_passed_on() -> None:
    turns = [[call_item("picture", "{}")], END]
    rollout, _ = await run(turns, mcp_servers={"shelf": CHILD})
    assert rollout.outcome == "infra"
    assert rollout.failure is not None
    assert (rollout.failure.kind, rollout.failure.retryable) == ("image_refused", False)
    assert "tool_images: pass" in rollout.failure.message
    rollout, model = await run(turns, mcp_servers={"shelf": CHILD}, tool_images="pass")
    assert rollout.outcome == "completed"
    (part,) = model.requests[1]["input"][-1]["output"]
    assert part["type"] == "input_image"
    assert part["image_url"].startswith("data:image/png;base64,iVBORw0KGgo")


@pytest.mark.slow
async def test_a_long_result_is_cut() -> None:
    turns = [[call_item("flood", '{"size": 3000000}')], END]
    rollout, _ = await run(turns, mcp_servers={"shelf": CHILD}, max_result_chars=100)
    assert re.fullmatch(r"x{50}\n\[\.\.\. 2999900 characters left out \.\.\.\]\nx{50}", results(rollout)[0])


@pytest.mark.slow
async def test_two_servers_with_the_same_tools() -> None:
    calls = [call_item("left__add", '{"left": 1, "right": 1}'), call_item("right__add", '{"left": 2, "right": 2}')]
    rollout, _ = await run([calls, END], mcp_servers={"left": CHILD, "right": CHILD})
    assert results(rollout) == ["2", "4"]


@pytest.fixture(params=["events"])
def shelf_url(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[tuple[str, Path]]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = tmp_path / "log"
    with log.open("w") as stderr:
        command = [sys.executable, str(SHELF), "http", str(port), "let-me-in", request.param]
        process = subprocess.Popen(command, stderr=stderr)
    try:
        while True:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            assert process.poll() is None, log.read_text()
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}/mcp", log
    finally:
        process.kill()
        process.wait()


async def test_a_server_over_http(shelf_url: tuple[str, Path]) -> None:
    url, _ = shelf_url
    server = {"url": url, "token": "let-me-in"}
    rollout, model = await run([GOOD, END], mcp_servers={"shelf": server})
    check_good(rollout, model)
    rollout, _ = await run([END], mcp_servers={"shelf": {"url": url, "headers": {"authorization": "Bearer let-me-in"}}})
    assert rollout.outcome == "completed"
    rollout, _ = await run([END], mcp_servers={"shelf": {"url": url, "token": "wrong"}})
    assert rollout.outcome == "infra"
    assert rollout.failure is not None
    assert "wrong" not in rollout.failure.message


@pytest.mark.slow
@pytest.mark.parametrize("shelf_url", ["events", "json"], indirect=True)
async def test_a_message_over_http_that_is_too_long_is_no_reward(shelf_url: tuple[str, Path]) -> None:
    server = {"url": shelf_url[0], "token": "let-me-in", "max_message_mib": 1}
    for size, outcome in ((1 << 18, "completed"), (3 << 19, "infra")):
        turns = [[call_item("flood", json.dumps({"size": size}))], END]
        rollout, _ = await run(turns, mcp_servers={"shelf": server}, tool_timeout_s=10.0, max_result_chars=1 << 22)
        assert rollout.outcome == outcome, (rollout.failure, size)
    assert rollout.failure is not None
    assert (rollout.reward, rollout.failure.kind) == (None, "tool_failed")


async def test_an_endless_answer_is_read_no_further() -> None:
    read = 0

    class Endless(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            nonlocal read
            while True:
                read += 1000
                yield b" " * 1000

    with pytest.raises(httpx2.StreamError, match="more than 10000 bytes"):
        [part async for part in BoundedStream(Endless(), 10_000)]
    assert read == 11_000


@pytest.mark.slow
async def test_a_server_over_http_that_ends_is_no_reward(shelf_url: tuple[str, Path]) -> None:
    server = {"url": shelf_url[0], "token": "let-me-in"}
    rollout, _ = await run([[call_item("die", "{}")], END], mcp_servers={"shelf": server}, tool_timeout_s=10.0)
    assert (rollout.outcome, rollout.reward) == ("infra", None)
    assert rollout.failure is not None
    assert rollout.failure.stage == "tools"


@pytest.mark.parametrize(
    ("server", "why"),
    [
        ({}, "either `command` or `url`"),
        ({"command": "a", "url": "http://b"}, "either `command` or `url`"),
        ({"url": "http://b", "args": []}, "`args` goes with `command`"),
        ({"command": "a", "token": "x"}, "`token` goes with `url`"),
        ({"url": "ftp://b"}, "needs the URL"),
    ],
)
def test_a_server_is_one_way_or_the_other(server: Any, why: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(why)):
        validate(ToolsAgentConfig, {**PLACES, "mcp_servers": {"shelf": server}}, "agent")


@pytest.mark.parametrize("name", ["environment", "functions", "a b", ""])
def test_a_servers_name_is_none_that_is_taken(name: str) -> None:
    with pytest.raises(ConfigError, match="is none of"):
        validate(ToolsAgentConfig, {**PLACES, "mcp_servers": {name: CHILD}}, "agent")


def test_what_a_row_shows_of_mcp_servers_is_known_when_they_run() -> None:
    config = ToolsAgentConfig.model_validate({**PLACES, "mcp_servers": {"shelf": CHILD}})
    shelf = InventoryServer(ToolsServerConfig(), name="inventory", peers={})
    tools = [{"type": "function", "name": "add"}]
    row = Row.from_wire({**ROW, "responses_create_params": {"input": "x", "tools": tools}})
    ToolsAgent(config, name="agent", peers={}).check_row(row, shelf)
    without = ToolsAgent(ToolsAgentConfig.model_validate(PLACES), name="agent", peers={})
    with pytest.raises(RowError, match="nobody serves 'add'"):
        without.check_row(row, shelf)


def files_of(*packages: str) -> Iterator[Path]:
    """Yield the installed files of packages and of all that they require here, but for extras."""
    seen, waiting = set(), list(packages)
    while waiting:
        name = re.split(r"[^A-Za-z0-9_.-]", waiting.pop())[0].lower()
        if name in seen:
            continue
        seen.add(name)
        try:
            found = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue
        waiting += [one for one in found.requires or () if "extra ==" not in one]
        yield from (Path(str(found.locate_file(file))) for file in found.files or () if file.suffix in (".py", ".so"))
        yield from (Path(str(found.locate_file(file))) for file in found.files or () if file.name == "METADATA")


def compiler_library() -> Path:
    """Return a library of this machine that compiled packages need and small images lack."""
    found = subprocess.run(
        ["ldconfig", "-p"], capture_output=True, text=True, check=True, env={"PATH": "/sbin:/usr/sbin"}
    )
    return Path(next(line.split()[-1] for line in found.stdout.splitlines() if "libgcc_s.so.1" in line))


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    """A store with the image `shelf`: Python, the `mcp` package and the server."""
    if shutil.which("bwrap") is None and shutil.which("apptainer") is None:
        pytest.skip("no sandbox runtime here")
    with sandbox_home() as folder:
        store = store_of(folder)
        root = Path(str(importlib.metadata.distribution("mcp").locate_file("")))

        def fill(tree: Path) -> None:
            for file in set(files_of("mcp", "cryptography")):
                if file.is_relative_to(root) and file.exists():
                    target = tree / "opt/mcp" / file.relative_to(root)
                    target.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy(file, target)
            shutil.copy(compiler_library(), tree / "opt/mcp")
            shutil.copy(SHELF, tree / "opt/mcp_shelf.py")
            store.own([tree, *(Path(at) / name for at, dirs, files in os.walk(tree) for name in (*dirs, *files))])

        store.add(
            "shelf",
            fill,
            base=tiny_image(store, rich=True),
            env={"PYTHONPATH": "/opt/mcp", "LD_LIBRARY_PATH": "/opt/mcp"},
        )
        yield folder


BOXED = {"command": "python3", "args": ["/opt/mcp_shelf.py", "stdio"], "image": "shelf"}


@pytest.mark.slow
@pytest.mark.sandbox
async def test_a_server_in_a_sandbox(home: Path) -> None:
    rollout, model = await run([GOOD, END], mcp_servers={"shelf": BOXED}, sandbox={"home": str(home)})
    check_good(rollout, model)


@pytest.mark.slow
@pytest.mark.sandbox
@pytest.mark.parametrize(
    ("tool", "kind", "said"),
    [("die", "tool_failed", "shelf fell down"), ("hang", "timeout", "in time")],
)
async def test_a_server_in_a_sandbox_that_fails_is_no_reward(home: Path, tool: str, kind: str, said: str) -> None:
    rollout, _ = await run(
        [[call_item(tool, "{}")], END],
        mcp_servers={"shelf": BOXED},
        sandbox={"home": str(home)},
        tool_timeout_s=1.0,
    )
    assert (rollout.outcome, rollout.reward) == ("infra", None)
    assert rollout.failure is not None
    assert (rollout.failure.kind, rollout.failure.stage) == (kind, "tools")
    assert said in rollout.failure.message
    assert not list((home / "state").glob("*/*/handle.json"))


@pytest.mark.sandbox
async def test_a_server_that_is_not_in_its_image_says_so(home: Path) -> None:
    boxed = {**BOXED, "command": "no-such-server"}
    rollout, _ = await run([END], mcp_servers={"shelf": boxed}, sandbox={"home": str(home)})
    assert rollout.outcome == "infra"
    assert rollout.failure is not None
    assert "no-such-server" in rollout.failure.message


@pytest.mark.sandbox
async def test_a_server_in_a_sandbox_that_closes_its_connection_first_still_says_why(home: Path) -> None:
    dies = {**BOXED, "command": "bash", "args": ["-c", "exec 0<&- 1>&-; sleep 0.3; echo no shelf here >&2; exit 3"]}
    rollout, _ = await run([END], mcp_servers={"shelf": dies}, sandbox={"home": str(home)})
    assert rollout.outcome == "infra"
    assert rollout.failure is not None
    assert "no shelf here" in rollout.failure.message


@pytest.mark.sandbox
async def test_a_server_without_an_image_is_refused(home: Path) -> None:
    boxed = {key: value for key, value in BOXED.items() if key != "image"}
    rollout, _ = await run([END], mcp_servers={"shelf": boxed}, sandbox={"home": str(home)})
    assert rollout.outcome == "row"
    assert rollout.failure is not None
    assert "mcp_servers.shelf: no image" in rollout.failure.message
