"""What can go wrong around the start of a vLLM of our own: each is told plainly, and nothing is left of it."""

import asyncio
import socket
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.support.processes import running

from paddock.errors import ConfigError, InfraError
from paddock.models_servers.vllm.config import VllmConfig
from paddock.models_servers.vllm.engine import VllmEngine
from paddock.testing.vocabularies import write_model_folder

TEMPLATE = "{% for message in messages %}<|im_start|>{{ message['content'] }}<|im_end|>{% endfor %}"
FAST = {"first_retry_s": 0.05, "health_interval_s": 0.1, "health_timeout_s": 5.0}


def engine_of(settings: Any, **fields: Any) -> VllmEngine:
    config = VllmConfig.model_validate({"model": "scripted", "launch": settings, **FAST, **fields})
    return VllmEngine(config, name="policy")


async def until(condition: Any) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.02)


def gone(pids: list[int]) -> bool:
    return not any(psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE for pid in pids)


@pytest.mark.slow
async def test_a_folder_that_was_cleaned_away_is_made_again(fake_vllm: Any) -> None:
    engine = engine_of(fake_vllm.settings())
    try:
        await engine.start()
        for file in (fake_vllm.folder / "logs").iterdir():
            file.unlink()
        (fake_vllm.folder / "logs").rmdir()
        await engine.replicas.replace("policy-0")
        assert engine.replicas.all[0].state == "ready"
    finally:
        await engine.stop()
    assert gone(fake_vllm.pids)


@pytest.mark.slow
def test_a_folder_that_can_not_be_made_again_ends_nobody_else(fake_vllm: Any) -> None:
    """In a process of its own: the mistake that is ruled out would end the one that makes it, with its group."""
    script = fake_vllm.folder / "path" / "cleaned.py"
    settings = fake_vllm.settings(max_restarts=1, restart_wait_s=0).model_dump_json()
    logs = str(fake_vllm.folder / "logs")
    script.write_text(
        "import asyncio, shutil, pathlib\n"
        "from paddock.models_servers.vllm.config import VllmConfig\n"
        "from paddock.models_servers.vllm.engine import VllmEngine\n"
        "from paddock.server.vllm.launch_settings import LaunchSettings\n"
        f"settings = LaunchSettings.model_validate_json({settings!r})\n"
        "async def main():\n"
        "    engine = VllmEngine(VllmConfig(model='scripted', launch=settings), name='policy')\n"
        "    await engine.start()\n"
        f"    shutil.rmtree({logs!r}); pathlib.Path({logs!r}).touch()\n"
        "    try:\n"
        "        await engine.replicas.replace('policy-0')\n"
        "    except Exception as error:\n"
        "        print(type(error).__name__, error, flush=True)\n"
        "    while engine.replicas.all[0].state != 'lost':\n"
        "        await asyncio.sleep(0.02)\n"
        "    await engine.stop()\n"
        "    print('still here', flush=True)\n"
        "asyncio.run(main())\n"
    )
    with running("cleaned", env={"PYTHONPATH": str(script.parent)}) as parent:
        assert "logs" in parent.line("InfraError")
        parent.line("still here")
        assert parent.code() == 0
    assert gone(fake_vllm.pids)


@pytest.mark.slow
async def test_two_who_replace_a_server_at_once_have_one_new_server(fake_vllm: Any) -> None:
    engine = engine_of(fake_vllm.settings())
    try:
        await engine.start()
        await asyncio.gather(*(engine.replicas.replace("policy-0") for _ in range(3)))
        assert len(fake_vllm.pids) == 4, "two servers with a core each, one after the other"
        assert gone(fake_vllm.pids[:2])
    finally:
        await engine.stop()
    assert gone(fake_vllm.pids)


@pytest.mark.slow
async def test_nothing_is_started_for_who_replaces_while_all_is_stopped(fake_vllm: Any) -> None:
    engine = engine_of(fake_vllm.settings())
    await engine.start()
    replacing = asyncio.create_task(engine.replicas.replace("policy-0"))
    await until(lambda: len(fake_vllm.pids) == 4)
    await engine.stop()
    await asyncio.gather(replacing, return_exceptions=True)
    with pytest.raises(InfraError, match="stopped"):
        await engine.replicas.replace("policy-0")
    assert gone(fake_vllm.pids)


async def test_the_port_is_kept_for_a_server_that_loads(fake_vllm: Any) -> None:
    engine = engine_of(fake_vllm.settings("never"))
    starting = asyncio.create_task(engine.start())
    try:
        await until(lambda: fake_vllm.pids)
        process = engine.replicas.all[0].process
        assert process is not None
        port = int(process.url.rpartition(":")[2])
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", port))
    finally:
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)
        await engine.stop()
    with socket.socket() as other:
        other.bind(("127.0.0.1", port))
    assert gone(fake_vllm.pids)


@pytest.mark.slow
async def test_two_servers_do_not_write_into_one_folder(fake_vllm: Any) -> None:
    first, second, third = (engine_of(fake_vllm.settings()) for _ in range(3))
    try:
        await first.start()
        with pytest.raises(ConfigError, match="another server writes there") as error:
            await second.start()
        assert error.value.kind == "launch_folder"
        await first.stop()
        await third.start()
    finally:
        for engine in (first, second, third):
            await engine.stop()


@pytest.mark.slow
def test_serve_says_what_loads_and_where_its_log_is(fake_vllm: Any, tmp_path: Path) -> None:
    tokenizer = write_model_folder(tmp_path / "model", chat_template=TEMPLATE)
    settings = fake_vllm.settings().model_dump(mode="json", exclude_none=True)
    block = {"model": "scripted", "tokenizer": str(tokenizer), "launch": settings}
    config = tmp_path / "serve.json"
    store = {"turn_store": {"folder": str(tmp_path / "turns")}}
    config.write_text(str({"policy": {"models_servers": {"vllm": {**block, **store}}}}).replace("'", '"'))
    with running("paddock", "serve", config) as command:
        loading = command.line("policy-0: vLLM loads scripted on a cpu, its log is ")
        log = Path(loading.rpartition(" ")[2])
        command.line("policy-0: ready after ")
        command.line("policy  models_servers/vllm")
        assert "engine core starts" in log.read_text()


def test_what_is_launched_gives_log_probs_of_what_it_samples_from(tmp_path: Path) -> None:
    served = VllmConfig.model_validate({"model": "m", "launch": {}, "api_key": "k", "tokenizer": tmp_path}).served
    assert (served.model, served.key) == ("m", "k")
    assert list(served.options) == [
        *["--enable-scale-out", "--enable-prompt-tokens-details", "--logprobs-mode", "processed_logprobs"],
        *["--tokenizer", str(tmp_path)],
    ]
