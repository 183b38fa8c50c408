"""Claims about running the servers of a config from a program."""

import asyncio
import logging
import os
import signal
from typing import Any

import psutil
import pytest

from paddock.config import Config, load
from paddock.errors import ConfigError, InfraError
from paddock.http import RUN, VERIFY, Call, VerifyRequest
from paddock.models_servers.vllm.config import VllmConfig
from paddock.server.lifecycle import common_settings
from paddock.server.runtime import open_runtime
from paddock.types import Row

SERVERS = "paddock.testing.servers"


def config(*, serve: dict[str, Any] | None = None, **cue: Any) -> Config:
    return load(
        [],
        extra={
            "serve": {"restart_wait_s": 0.01, "stop_timeout_s": 1.0, **(serve or {})},
            "model": {"models_servers": {f"{SERVERS}:EchoModel": {}}},
            "cue": {"resources_servers": {f"{SERVERS}:CueServer": cue}},
            "agent": {
                "agents": {
                    "single_step": {
                        "resources_server": {"type": "resources_servers", "name": "cue"},
                        "model_server": {"type": "models_servers", "name": "model"},
                    }
                }
            },
        },
    )


def request(cue: str = "answer") -> VerifyRequest:
    return VerifyRequest(row=row(cue), response={"output": []})


def row(cue: str = "answer") -> Row:
    return Row(responses_create_params={"input": "hi"}, task={"cue": cue})


async def test_servers_of_one_process_pass_records_and_listen_only_when_asked() -> None:
    async with open_runtime(config()) as runtime:
        assert [server.url for server in runtime.servers.values()] == [None, None, None]
        rollout = await runtime.peers["agent"].call(RUN, row(), Call())
        assert rollout.reward == 1.0
        assert rollout.verdict is not None
        assert rollout.verdict.metrics["pid"] == os.getpid()
        assert set(runtime.local) == {"model", "cue", "agent"}


def test_what_a_block_does_not_say_of_its_server_its_class_does() -> None:
    vllm = {"base_url": "http://127.0.0.1:1", "model": "some"}
    found = load([], extra={"model": {"models_servers": {"vllm": vllm}}})
    assert common_settings(found, "model").start_timeout_s == VllmConfig.model_fields["start_timeout_s"].default > 60
    own = load([], extra={"own": {"models_servers": {"vllm": {**vllm, "start_timeout_s": 5}}}})
    assert common_settings(own, "own").start_timeout_s == 5


async def test_only_what_is_named_and_needed_runs() -> None:
    async with open_runtime(config(), names=["cue"]) as runtime:
        assert list(runtime.servers) == ["cue"]


async def test_what_had_started_is_stopped_when_a_later_server_can_not_start(caplog: pytest.LogCaptureFixture) -> None:
    cue = f"{SERVERS}:CueServer"
    first, second = {cue: {"stop": "fail"}}, {cue: {"start": "fail"}}
    both = load([], extra={"first": {"resources_servers": first}, "second": {"resources_servers": second}})
    with pytest.raises(InfraError, match="second: can't start: ValueError: cued to fail"):
        async with open_runtime(both, listen=True):
            raise AssertionError("it did not open")
    assert [record.getMessage() for record in caplog.records] == ["first: failed while stopping"]


async def test_a_server_whose_stop_hangs_is_named_and_holds_up_no_other(caplog: pytest.LogCaptureFixture) -> None:
    loop = asyncio.get_running_loop()
    async with open_runtime(config(stop="hang", serve={"stop_timeout_s": 0.4})):
        started = loop.time()
    assert loop.time() - started < 20
    assert [record.getMessage() for record in caplog.records] == ["cue: did not stop within 0.2 s"]


@pytest.mark.slow
@pytest.mark.cli
async def test_isolated_servers_are_other_processes_and_gone_afterwards() -> None:
    before = set(psutil.Process().children(recursive=True))
    async with open_runtime(config(), isolate=True) as runtime:
        rollout = await runtime.peers["agent"].call(RUN, row(), Call())
        assert rollout.verdict is not None
        children = set(psutil.Process().children(recursive=True)) - before
        assert rollout.verdict.metrics["pid"] in [child.pid for child in children]
        assert (len(children), runtime.local) == (3, {})
    assert set(psutil.Process().children(recursive=True)) <= before


@pytest.mark.slow
@pytest.mark.cli
async def test_a_death_is_an_infrastructure_failure_at_worst_and_restarts_end(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    async with open_runtime(config(serve={"max_restarts": 1}), names=["cue"], isolate=True) as runtime:
        cue = runtime.peers["cue"]
        first = await cue.call(VERIFY, request(), Call())
        os.kill(int(first.metrics["pid"]), signal.SIGKILL)
        second = await cue.call(VERIFY, request(), Call().within(10))
        assert second.metrics["pid"] != first.metrics["pid"]
        assert not runtime.failed.is_set()
        with pytest.raises(InfraError):
            await cue.call(VERIFY, request("die"), Call().within(10))
        async with asyncio.timeout(60):
            await runtime.failed.wait()
        assert runtime.failure is not None
        assert "cue: its process ended with exit code 7" in runtime.failure.message
        with pytest.raises(InfraError):
            await cue.call(VERIFY, request(), Call().within(5))
    told = [record.getMessage() for record in caplog.records]
    assert "was killed by SIGKILL; restart 1 of 1" in told[0]


async def test_an_address_beyond_loopback_needs_a_token() -> None:
    with pytest.raises(ConfigError, match="needs a token"):
        async with open_runtime(config(), listen=True, host="0.0.0.0"):
            raise AssertionError("it did not open")
    async with open_runtime(config(), names=["cue"], listen=True, host="0.0.0.0", token="t") as runtime:
        assert str(runtime.servers["cue"].url).startswith("http://127.0.0.1:")
