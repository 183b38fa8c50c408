"""The log that is a witness has to be a good one: bytes pass as they are, and what was said is what is written."""

import asyncio
import sys
from pathlib import Path

import aiohttp
import pytest
from tests.support import wire_log
from tests.support.vllm import ScriptedVllm, log_prob, sampled
from tests.support.wire_log import GENERATE, WireLog, read_call, read_calls, url_file

ROOT = Path(__file__).parents[2]
BODY = {"model": "scripted", "stream": True, "token_ids": [1, 2, 3], "sampling_params": {"temperature": 1.0}}


async def generate(url: str, path: str = GENERATE, **changes: object) -> tuple[int, bytes]:
    async with (
        aiohttp.ClientSession() as client,
        client.post(f"{url}{path}", json={**BODY, **changes}) as answer,
    ):
        return answer.status, await answer.read()


async def test_bytes_pass_and_each_generation_is_a_line(tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with ScriptedVllm() as vllm, WireLog(vllm.url, log=log) as wire:
        assert await generate(wire.url) == await generate(vllm.url)
        assert (await generate(wire.url, stream=False))[0] == 200
        assert await generate(wire.url, "/v1/completions", prompt=[1]) == await generate(
            vllm.url, "/v1/completions", prompt=[1]
        )
    streamed, whole = read_calls(log)
    ids = sampled([1, 2, 3], 8)
    assert streamed.prompt_ids == [1, 2, 3]
    assert streamed.sampled_ids == streamed.of_ids == ids
    assert streamed.log_probs == [log_prob(token) for token in ids]
    assert streamed.finish_reason == "stop"
    assert streamed.versions == [{"version": "7", "start": 0, "end": 8}]
    assert streamed.sampling == {"temperature": 1.0}
    assert (streamed.stream, whole.stream) == (True, False)
    assert whole._replace(stream=True) == streamed


async def test_an_answer_that_breaks_is_written_as_far_as_it_came(tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with ScriptedVllm(fault=lambda _: "error_event") as vllm, WireLog(vllm.url, log=log) as wire:
        await generate(wire.url)
    (call,) = read_calls(log)
    assert call.sampled_ids == sampled([1, 2, 3], 8)[:4]
    assert call.finish_reason is None


async def test_nothing_behind_it_is_a_502(tmp_path: Path) -> None:
    async with WireLog("http://127.0.0.1:9", log=tmp_path / "log") as wire:
        assert (await generate(wire.url))[0] == 502


def test_what_is_no_event_is_not_looked_at() -> None:
    noise = b": ping\n\nevent: x\ndata: {\n\ndata: [DONE]\n\n"
    chunk = b'data: {"choices": [{"token_ids": [4], "logprobs": {"content": [{"token_id": 4, "logprob": -1.5}]}}]}\n\n'
    call = read_call(BODY, noise + chunk + noise + chunk)
    assert (call.sampled_ids, call.log_probs) == ([4, 4], [-1.5, -1.5])


@pytest.mark.slow
async def test_the_command_stands_in_place_of_another(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        f"import asyncio, pathlib, sys\nsys.path.append({str(ROOT)!r})\nfrom tests.support.vllm import ScriptedVllm\n"
        "async def main():\n"
        "    async with ScriptedVllm(port=int(sys.argv[2])):\n"
        "        while not pathlib.Path(sys.argv[3]).exists():\n"
        "            await asyncio.sleep(0.05)\n"
        "    sys.exit(5)\n"
        "asyncio.run(main())\n"
    )
    log, port = tmp_path / "log", 0
    async with WireLog("", log=log) as free:
        port = int(free.url.rpartition(":")[2])
    done = tmp_path / "done"
    words = [sys.executable, "-P", wire_log.__file__, log, sys.executable, program, "--port", port, done]
    process = await asyncio.create_subprocess_exec(*map(str, words))
    status = 0
    async with asyncio.timeout(60):
        while status != 200:
            try:
                status, _ = await generate(f"http://127.0.0.1:{port}")
            except aiohttp.ClientConnectionError:
                await asyncio.sleep(0.05)
        done.touch()
        assert await process.wait() == 5
    assert read_calls(log)[-1].sampled_ids == sampled([1, 2, 3], 8)
    assert url_file(log).read_text() != f"http://127.0.0.1:{port}"
