"""Claims about teachers: what they are asked for, what is taken of their answers, and whose vocabulary is refused."""

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from tests.support.real_vllm import RealVllm
from tests.training.grpo.scripted_teacher import ScriptedTeacher, TeacherAnswer, scores

from paddock.errors import ConfigError, InfraError
from paddock.testing.vocabularies import small_vocabulary, write_model_folder
from paddock.tokens.vocabulary import Vocabulary
from paddock.training.core.records import Member, MemberSample
from paddock.training.core.testing import member, sample
from paddock.training.grpo import teachers as module
from paddock.training.grpo.distillation_config import DistillationConfig
from paddock.training.grpo.teachers import Teachers


@pytest.fixture(autouse=True)
def _no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FIRST_WAIT_S", 0.001)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_model_folder(tmp_path / "policy")


def config(url: str, **server: Any) -> DistillationConfig:
    own = {"base_url": url, "api_key": "xyzzy", "model": "teacher", **server}
    return DistillationConfig.model_validate(
        {
            "enabled": True,
            "teacher_model_by_agent_name": {"all": "big"},
            "default_teacher_alias": "all",
            "servers": {"big": own},
        }
    )


async def scored(folder: Path, teacher: ScriptedTeacher, *members: Member, **server: Any) -> tuple[Member, ...]:
    async with teacher.serving() as url:
        teachers = Teachers(config(url, **server), folder)
        try:
            await teachers.start()
            return await teachers.scored(members)
        finally:
            await teachers.stop()


def of(members: tuple[Member, ...]) -> list[MemberSample]:
    return [one for member in members for one in member.samples]


async def test_the_samples_own_ids_are_scored_and_each_id_has_its_number(folder: Path) -> None:
    teacher = ScriptedTeacher(small_vocabulary("chatml"), scores)
    members = (member(0, samples=[sample(), sample(length=9, index=1)]), member(1, None))
    told = await scored(folder, teacher, *members)
    first, second = of(told)
    assert first.teacher_log_probs is not None
    assert first.teacher_log_probs.dtype == np.float32
    assert first.teacher_log_probs == pytest.approx([0, *(-nth / 100 for nth in range(1, 6))])
    assert second.teacher_log_probs is not None
    assert len(second.teacher_log_probs) == 9
    assert told[1] == members[1], "what failed is not scored"
    body = next(body for body in teacher.bodies if len(body["prompt"]) == 6)
    assert body == {
        "model": "teacher",
        "prompt": [0, 1, 2, 3, 4, 5],
        "max_tokens": 1,
        "temperature": 1.0,
        "prompt_logprobs": 0,
    }
    assert teacher.headers[0]["Authorization"] == "Bearer xyzzy"


@pytest.mark.parametrize(
    ("answer", "n_calls"),
    [
        (lambda _ids: 500, 3),
        (lambda _ids: 429, 3),
        (lambda _ids: 400, 1),
        (lambda ids: scores(ids[:-1]), 1),
        (lambda ids: scores([one + 1 for one in ids]), 1),
        (lambda _ids: {"choices": [{"text": ""}]}, 1),
        (lambda _ids: {"choices": [{"prompt_logprobs": [None] * 6}]}, 1),
        (lambda ids: json.loads(json.dumps(scores(ids)).replace("-0.03", "NaN")), 3),
        (lambda ids: json.loads(json.dumps(scores(ids)).replace("-0.03", "-9999.0")), 1),
        (lambda ids: json.loads(json.dumps(scores(ids)).replace("-0.03", "null")), 1),
        (lambda ids: json.loads(json.dumps(scores(ids)).replace("-0.03", "0.03")), 1),
        (lambda ids: json.loads(json.dumps(scores(ids)).replace("-0.03", "true")), 1),
        (lambda _ids: {"error": {"message": "the engine is dead", "code": 500}}, 1),
    ],
)
async def test_a_sample_without_a_number_for_each_id_stays_without(
    folder: Path, answer: TeacherAnswer, n_calls: int
) -> None:
    teacher = ScriptedTeacher(small_vocabulary("chatml"), answer)
    (told,) = of(await scored(folder, teacher, member(0), max_attempts=3))
    assert told.teacher_log_probs is None
    assert len(teacher.bodies) == n_calls


async def test_what_fails_once_is_asked_for_again_and_no_other_sample_suffers(folder: Path) -> None:
    teacher = ScriptedTeacher(small_vocabulary("chatml"), lambda _ids: 503, scores)
    told = of(await scored(folder, teacher, *(member(nth) for nth in range(12)), concurrency=3))
    assert all(one.teacher_log_probs is not None for one in told)
    assert len(teacher.bodies) == 13
    assert teacher.busiest <= 3


async def test_a_teacher_that_scores_nothing_any_more_ends_the_run(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_FAILURES_IN_A_ROW", 4)
    for n_members, fails in ((3, False), (4, True)):
        teacher = ScriptedTeacher(small_vocabulary("chatml"), lambda _ids: 400)
        members = [member(nth) for nth in range(n_members)]
        if fails:
            with pytest.raises(InfraError, match="4 times in a row"):
                await scored(folder, teacher, *members)
        else:
            assert len(await scored(folder, teacher, *members)) == n_members


async def test_a_teacher_that_hangs_ends_the_run_within_its_silence_and_one_call(folder: Path) -> None:
    """Three samples by two at a time, four attempts of 0.3 s each: without a bound it would be masked samples only."""
    teacher = ScriptedTeacher(small_vocabulary("chatml"), scores, seconds=60)
    started = time.monotonic()
    with pytest.raises(InfraError, match=r"teacher big: no sample was scored, for \d+ s \(max_silence_s\)") as raised:
        members = [member(nth) for nth in range(3)]
        await scored(folder, teacher, *members, concurrency=2, timeout_s=0.3, max_silence_s=0.5)
    assert time.monotonic() - started < 5
    assert raised.value.kind == "teacher_failed"


async def test_a_pause_in_which_nothing_is_asked_is_no_silence(folder: Path) -> None:
    teacher = ScriptedTeacher(small_vocabulary("chatml"), scores, lambda _ids: 400, lambda _ids: 400, scores)
    found = []
    async with teacher.serving() as url:
        teachers = Teachers(config(url, max_silence_s=0.2), folder)
        try:
            await teachers.start()
            for nth in range(4):
                found += of(await teachers.scored([member(nth)]))
                await asyncio.sleep(0.3)
        finally:
            await teachers.stop()
    assert [one.teacher_log_probs is None for one in found] == [False, True, True, False]


async def test_a_teacher_that_scores_nothing_is_not_hidden_by_another_that_does(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_FAILURES_IN_A_ROW", 4)
    known = small_vocabulary("chatml")
    good, dead = ScriptedTeacher(known, scores), ScriptedTeacher(known, lambda _ids: 400)
    async with good.serving() as good_url, dead.serving() as dead_url:
        named = {
            "enabled": True,
            "teacher_model_by_agent_name": {"coder": "good", "talker": "dead"},
            "servers": {"good": {"base_url": good_url}, "dead": {"base_url": dead_url}},
        }
        teachers = Teachers(DistillationConfig.model_validate(named), folder)
        try:
            await teachers.start()
            with pytest.raises(InfraError, match="teacher dead: no sample was scored, 4 times in a row"):
                for nth in range(4):
                    await teachers.scored([member(nth, agent="talker")])
                    await teachers.scored([member(nth, agent="coder")])
        finally:
            await teachers.stop()


@pytest.mark.parametrize("tokens", [5, "none", None])
async def test_a_probe_that_comes_back_as_nonsense_is_refused_at_the_start(folder: Path, tokens: Any) -> None:
    teacher = ScriptedTeacher(small_vocabulary("chatml"), scores, tokens=lambda _text: tokens)
    with pytest.raises(ConfigError, match=r"servers\.big: .* has no /tokenize"):
        await scored(folder, teacher, member(0))


@pytest.mark.parametrize("marks", ["plain", "instruct", "headers"])
async def test_another_vocabulary_is_refused_at_the_start(folder: Path, marks: Any) -> None:
    with pytest.raises(ConfigError, match=r"servers\.big: .* has another vocabulary than the policy.*token \d+ is"):
        await scored(folder, ScriptedTeacher(small_vocabulary(marks), scores), member(0))


@pytest.mark.parametrize("answer", [400, 401, 500, 404, {"choices": [{"text": "no prompt_logprobs"}]}])
async def test_a_teacher_that_tokenises_but_does_not_score_is_an_error_at_the_start(folder: Path, answer: Any) -> None:
    teacher = ScriptedTeacher(small_vocabulary("chatml"), scores, probe=lambda _ids: answer)
    with pytest.raises(InfraError, match=r"servers\.big: ") as raised:
        await scored(folder, teacher, member(0))
    assert raised.value.kind == "teacher_unreachable"
    assert "xyzzy" not in str(raised.value)
    assert not teacher.bodies


async def test_a_teacher_that_is_not_there_is_an_error_at_the_start(folder: Path) -> None:
    teachers = Teachers(config("http://127.0.0.1:9"), folder)
    try:
        with pytest.raises(InfraError, match=r"servers\.big"):
            await teachers.start()
    finally:
        await teachers.stop()


@pytest.mark.vllm
async def test_vllm_as_its_own_teacher_scores_each_token_as_it_sampled_it(real_vllm: RealVllm) -> None:
    known = Vocabulary.load(real_vllm.model)
    prompt = known.encode("What is broken here? Please look at it.")
    body = {"model": str(real_vllm.model), "prompt": prompt, "max_tokens": 24, "temperature": 1.0, "logprobs": 0}
    async with httpx.AsyncClient(base_url=real_vllm.engine_url, timeout=60) as client:
        answer = (await client.post("/v1/completions", json={**body, "return_token_ids": True})).json()["choices"][0]
    ids = [*prompt, *answer["token_ids"]]
    own = sample(length=len(ids))._replace(ids=np.array(ids, np.int32))
    teachers = Teachers(config(real_vllm.engine_url, model=str(real_vllm.model), api_key=None), real_vllm.model)
    try:
        await teachers.start()
        (told,) = of(await teachers.scored([member(0, samples=[own])]))
    finally:
        await teachers.stop()
    assert told.teacher_log_probs is not None
    assert told.teacher_log_probs[len(prompt) :] == pytest.approx(answer["logprobs"]["token_logprobs"], abs=1e-3)


@pytest.mark.vllm
async def test_vllm_with_another_vocabulary_is_refused(real_vllm: RealVllm, folder: Path) -> None:
    teachers = Teachers(config(real_vllm.engine_url, model=str(real_vllm.model)), folder)
    try:
        with pytest.raises(ConfigError, match="has another vocabulary than the policy"):
            await teachers.start()
    finally:
        await teachers.stop()
