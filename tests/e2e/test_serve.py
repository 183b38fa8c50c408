"""Claims about `paddock serve`: real processes, real ports, real signals."""

import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from tests.support.processes import CommandProcess, gone, running

from paddock.http import headers_for

pytestmark = pytest.mark.cli

CONFIG = """
default_host: 127.0.0.1
serve: {restart_wait_s: 0.05, max_restarts: 1}
cue:
  resources_servers:
    paddock.testing.servers:CueServer: {secret: "${oc.env:CUE_SECRET,none}"}
"""
REST = """
model:
  models_servers:
    paddock.testing.servers:EchoModel: {}
agent:
  agents:
    single_step:
      resources_server: {type: resources_servers, name: cue}
      model_server: {type: models_servers, name: model}
"""
TOKEN = "correct-horse-battery"
ROW: dict[str, Any] = {"responses_create_params": {"input": "hi"}}
STOP_S = 15.0

Serve = Callable[..., AbstractContextManager[CommandProcess]]
BOTH = pytest.mark.parametrize("isolate", [False, True], ids=["one-process", "isolated"])


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "servers.yaml"
    path.write_text(CONFIG)
    return path


@pytest.fixture
def whole_config(config: Path) -> Path:
    config.write_text(CONFIG + REST)
    return config


@pytest.fixture
def serve(tmp_path: Path) -> Serve:
    @contextmanager
    def _serve(*arguments: str | Path, isolate: bool = False, **env: str) -> Iterator[CommandProcess]:
        temporary = tmp_path / "tmp"
        temporary.mkdir(exist_ok=True)
        flags = ["--isolate"] if isolate else []
        with running(
            "paddock", "serve", *flags, *arguments, env={"PADDOCK_TOKEN": "", **env, "TMPDIR": str(temporary)}
        ) as command:
            yield command
        assert list(temporary.iterdir()) == []

    return _serve


def url_of(command: CommandProcess, name: str) -> str:
    return command.line(f"{name} ").split()[-1]


def get(url: str) -> httpx.Response:
    return httpx.get(url, headers=headers_for(url), timeout=60.0)


def verify(url: str, cue: str = "answer", *, token: str | None = None) -> httpx.Response:
    headers = headers_for(url, token)
    body = {**ROW, "cue": cue, "response": {"output": []}}
    return httpx.post(f"{url}/verify", json=body, timeout=60.0, headers=headers)


def refused(url: str) -> bool:
    host, _, port = url.removeprefix("http://").rpartition(":")
    with closing(socket.socket()) as probe:
        return probe.connect_ex((host, int(port))) != 0


@pytest.mark.slow
def test_what_a_server_that_is_not_asked_for_lacks_is_no_matter(serve: Serve, whole_config: Path) -> None:
    lacks = "other: {models_servers: {openai: {base_url: '${oc.env:PADDOCK_NOT_SET}', model: m}}}\n"
    whole_config.write_text(whole_config.read_text() + lacks)
    with serve(whole_config, "--server", "cue") as command:
        assert verify(url_of(command, "cue")).status_code == 200


@pytest.mark.slow
@BOTH
def test_each_server_says_where_it_is_answers_its_pages_and_ends_within_the_time(
    serve: Serve, whole_config: Path, isolate: bool
) -> None:
    with serve(whole_config, isolate=isolate) as command:
        urls = {name: url_of(command, name) for name in ("cue", "model", "agent")}
        family = command.family()
        assert len(family) == (3 if isolate else 0)
        for name, url in urls.items():
            assert get(f"{url}/").json() == {"status": "ok"}
            assert get(f"{url}/healthz").json()["name"] == name
            assert "swagger" in get(f"{url}/docs").text
            assert "/openapi.json" in get(f"{url}/docs").text
        paths = {name: set(get(f"{url}/openapi.json").json()["paths"]) for name, url in urls.items()}
        assert {"/verify", "/seed_session", "/aggregate_metrics"} < paths["cue"]
        assert {"/run", "/v1/responses"} < paths["agent"]
        verdict = verify(urls["cue"]).json()
        assert {**ROW, "cue": "answer", "response": {"output": []}}.items() <= verdict.items()
        assert (verdict["reward"], verdict["verdict"]["reason"]) == (1.0, "match")
        rollout = httpx.post(f"{urls['agent']}/run", json=ROW, headers=headers_for(urls["agent"]), timeout=60.0).json()
        assert (rollout["reward"], rollout["rollout"]["outcome"]) == (1.0, "completed")
        started = time.monotonic()
        command.send(signal.SIGINT)
        assert command.code() == 0
        assert time.monotonic() - started < STOP_S
        assert gone(family, within_s=20)
        assert all(refused(url) for url in urls.values())
        assert command.err == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("isolate", "cue"),
    [(True, "hang"), *(pytest.param(isolate, "hang_deaf", marks=pytest.mark.slow) for isolate in (False, True))],
)
def test_a_request_that_hangs_does_not_hold_up_the_end(serve: Serve, config: Path, isolate: bool, cue: str) -> None:
    # The default is proved once; it need not be waited for again.
    flags = ["serve.stop_timeout_s=0.8"] if isolate else []
    with serve(config, *flags, isolate=isolate) as command:
        url = url_of(command, "cue")
        host, _, port = url.removeprefix("http://").rpartition(":")
        with closing(socket.create_connection((host, int(port)))) as caller:
            body = (
                b'{"responses_create_params": {"input": "x"}, "cue": "%s", "response": {"output": []}}' % cue.encode()
            )
            caller.sendall(
                b"POST /verify HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
                b"authorization: %s\r\ncontent-length: %d\r\n\r\n%s"
                % (headers_for(url)["authorization"].encode(), len(body), body)
            )
            time.sleep(1)
            family = command.family()
            started = time.monotonic()
            command.send(signal.SIGTERM)
            command.code()
            assert time.monotonic() - started < STOP_S
            assert gone(family, within_s=20)
            caller.settimeout(20)
            answer = caller.recv(4096)
        if cue == "hang":
            assert answer.startswith(b"HTTP/1.1 503")
            assert b'"kind":"stopping"' in answer


def test_killing_the_parent_leaves_no_process(serve: Serve, whole_config: Path) -> None:
    with serve(whole_config, isolate=True) as command:
        url = url_of(command, "agent")
        family = command.family()
        assert len(family) == 3
        command.send(signal.SIGKILL)
        assert command.code() == -signal.SIGKILL
        assert gone(family, within_s=20.0)
        assert refused(url)


@pytest.mark.slow
def test_a_killed_server_comes_back_on_its_port_and_is_given_up_after_its_restarts(serve: Serve, config: Path) -> None:
    with serve(config, isolate=True) as command:
        url = url_of(command, "cue")
        first = verify(url).json()["verdict"]["metrics"]["pid"]
        psutil.Process(int(first)).kill()
        command.line("restart 1 of 1")
        # The socket was never closed: a call waits for the new process.
        second = verify(url).json()["verdict"]["metrics"]["pid"]
        assert second != first
        command.line("is back")
        assert "SIGKILL" in command.line("restart 1 of 1")
        with pytest.raises(httpx.HTTPError):
            verify(url, "die")
        assert command.code() == 1
        assert "exit code 7" in command.line("given up")
        assert refused(url)


@pytest.mark.slow
def test_with_a_token_every_route_but_liveness_is_closed_and_the_servers_still_reach_each_other(
    serve: Serve, whole_config: Path, tmp_path: Path
) -> None:
    secret = tmp_path / "token"
    secret.write_text(f"{TOKEN}\n")
    with serve(whole_config, "--host", "0.0.0.0", "--token-file", secret, isolate=True) as command:
        urls = {name: url_of(command, name) for name in ("cue", "model", "agent")}
        for url in urls.values():
            assert get(f"{url}/").status_code == 200
            assert get(f"{url}/healthz").status_code == 200
            assert get(f"{url}/docs").status_code == 401
        assert verify(urls["cue"]).json()["error"]["kind"] == "unauthorized"
        assert verify(urls["cue"], token="wrong").status_code == 401
        assert verify(urls["cue"], token=TOKEN).json()["reward"] == 1.0
        allowed = {"authorization": f"Bearer {TOKEN}"}
        rollout = httpx.post(f"{urls['agent']}/run", json=ROW, headers=allowed, timeout=60.0).json()
        assert rollout["rollout"]["outcome"] == "completed"
        processes = [psutil.Process(command.pid), *command.family()]
        assert not any(TOKEN in word for process in processes for word in process.cmdline())
        command.send(signal.SIGTERM)
        assert command.code() == 0
        assert TOKEN not in command.output()


@pytest.mark.slow
def test_a_child_reads_the_environment_itself_and_its_lines_carry_its_name(serve: Serve, config: Path) -> None:
    config.write_text(config.read_text().replace('none}"}', 'none}", stop: fail}'))
    with serve(config, isolate=True, CUE_SECRET="12345678") as command:
        assert verify(url_of(command, "cue")).json()["verdict"]["metrics"]["secret_length"] == 8
        (child,) = command.family()
        assert not any("12345678" in word for word in child.cmdline())
        command.send(signal.SIGTERM)
        assert command.code() == 0
    assert command.err[0] == "cue | ERROR paddock.server: cue: failed while stopping"
    assert all(line.startswith("cue | ") for line in command.err)
