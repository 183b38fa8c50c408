"""Claims about the rollout worker, over scripted servers: whole groups, honest failures, journals that can be cut."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest
from tests.training.grpo.scripted_teacher import ScriptedTeacher, scores
from tests.training.grpo.slow_members import SlowMembersEnvironment

from paddock.config import load
from paddock.errors import ConfigError
from paddock.server.vllm.weights.replicas import StartCounter
from paddock.testing.vocabularies import small_vocabulary, write_model_folder
from paddock.training.core.groups import repair
from paddock.training.core.settings import GroupSettings, GrpoSettings
from paddock.training.grpo.distillation_config import DistillationConfig
from paddock.training.grpo.journals import cut
from paddock.training.grpo.roles import GroupJob
from paddock.training.grpo.rollouts import RowSettings, RunRollouts, RunRows, Sampler
from paddock.training.grpo.worker import RolloutWorker, WorkerSettings
from paddock.viewer import read_entries
from paddock.viewer.entries import load as load_rollout

SCRIPTED = "paddock.conformance.scripted"
GRPO: dict[str, Any] = {"num_prompts_per_step": 2, "num_generations_per_prompt": 4}
Line = dict[str, Any]


class WorkerRun:
    """Running over scripted servers, and what it wrote."""

    def __init__(self, folder: Path, worker: RolloutWorker, rows: RunRows) -> None:
        self.folder = folder
        self.worker = worker
        self.rollouts = RunRollouts([Sampler(worker)], rows, folder)

    def lines(self, name: str) -> list[Line]:
        path = self.folder / f"{name}.jsonl"
        return [orjson.loads(line) for line in path.read_bytes().splitlines()] if path.exists() else []


Start = Callable[..., Any]


@pytest.fixture
def start(tmp_path: Path) -> Start:
    """`rows`: what they expect (the model says `yes`), or objects."""

    @asynccontextmanager
    async def start(
        rows: list[Any],
        *,
        model: Line | None = None,
        groups: Line | None = None,
        seeded: bool = False,
        distillation: Line | None = None,
        model_class: str = f"{SCRIPTED}:ScriptedModel",
        environment_class: str = f"{SCRIPTED}:ScriptedEnvironment",
        **given: Any,
    ) -> AsyncIterator[WorkerRun]:
        listed = [_row(row) if isinstance(row, str) else row for row in rows]
        (tmp_path / "rows.jsonl").write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in listed))
        refers = {
            "resources_server": {"type": "resources_servers", "name": "environment"},
            "model_server": {"type": "models_servers", "name": "policy_model"},
        }
        tree = {
            "environment": {"resources_servers": {environment_class: {}}},
            "agent": {"agents": {"single_step": refers}},
            "policy_model": {"models_servers": {model_class: model or {}}},
            "eval": {"retry_wait_s": 0, "max_attempts": 1},
        }
        folder = tmp_path / "run"
        folder.mkdir(exist_ok=True)
        grpo, config = GrpoSettings.model_validate({**GRPO, **given}), load([], extra=tree)
        sources = RowSettings(
            run_id="run-1",
            folder=folder,
            train_rows=tmp_path / "rows.jsonl",
            validation_rows=tmp_path / "rows.jsonl",
            grpo=grpo,
            sampling={"temperature": 0.7},
            validation_sampling={"temperature": 0.0},
            seeded=seeded,
        )
        teachers = DistillationConfig.model_validate(distillation or {})
        settings = WorkerSettings(
            grpo, GroupSettings.model_validate(groups or {}), distillation=teachers, tokenizer=tmp_path / "model"
        )
        worker = RolloutWorker(config, settings)
        run = WorkerRun(folder, worker, RunRows.read(config, sources))
        try:
            await worker.start()
            yield run
        finally:
            await run.rollouts.stop()

    return start


def _row(answer: str) -> Line:
    return {"responses_create_params": {"input": "q", "temperature": 0.2}, "answer": answer}


async def test_a_group_has_all_its_members_in_order_with_their_rewards(start: Start) -> None:
    async with start(["yes", "no"]) as one:
        groups = [await one.rollouts.run_group(GroupJob(id=7 + row, row=row, epoch=3), 5) for row in (0, 1)]
    assert [(group.id, group.row, group.epoch, group.size, group.version) for group in groups] == [
        (7, 0, 3, 4, 5),
        (8, 1, 3, 4, 5),
    ]
    assert [[member.nth for member in group.members] for group in groups] == [[0, 1, 2, 3]] * 2
    assert [[member.reward for member in group.members] for group in groups] == [[1.0] * 4, [0.0] * 4]


async def test_rollouts_are_stamped_and_sampled_as_training_says(start: Start) -> None:
    async with start(["no", "yes"]) as one:
        await one.rollouts.run_group(GroupJob(id=0, row=1, epoch=2), 0)
    lines = one.lines("rollouts")
    assert sorted(line["_ng_rollout_index"] for line in lines) == [0, 1, 2, 3]
    for line in lines:
        stamps = [line[key] for key in ("_paddock_run_id", "_ng_task_index", "_paddock_epoch", "_paddock_group_size")]
        assert stamps == ["run-1", 1, 2, 4]
        assert line["responses_create_params"]["temperature"] == 0.7


async def test_with_seeds_each_member_has_its_own_and_again_the_same(start: Start) -> None:
    async def seeds(model: Line | None = None, *, group: int = 0, **given: Any) -> dict[int, Any]:
        async with start(["yes"], model=model, **given) as one:
            await one.rollouts.run_group(GroupJob(id=group, row=0, epoch=0), 0)
            await one.rollouts.validate(3)
            lines = [*one.lines("rollouts"), *one.lines("validation")]
            for name in ("rollouts", "validation"):
                (one.folder / f"{name}.jsonl").unlink()
        return {nth: line["responses_create_params"].get("seed") for nth, line in enumerate(sorted(lines, key=_place))}

    first = await seeds(seeded=True)
    assert len({*first.values()} - {None}) == len(first) == 5
    assert await seeds(seeded=True) == await seeds({"fail_first": 2}, seeded=True) == first
    others = await seeds(seeded=True, seed=43), await seeds(seeded=True, group=1)
    assert all(first[nth] != seed for seed_map in others for nth, seed in seed_map.items() if nth < 4)
    assert {*(await seeds()).values()} == {None}


def _place(line: Line) -> tuple[str, int]:
    return line["_paddock_run_id"], line["_ng_rollout_index"]


async def test_members_that_failed_for_no_fault_of_theirs_are_run_anew(start: Start) -> None:
    async with start(["yes"], model={"fail_first": 3}) as one:
        group = await one.rollouts.run_group(GroupJob(0, 0, 0), 0)
    assert [member.reward for member in group.members] == [1.0] * 4
    assert len(one.lines("failures")) == 3
    assert {line["outcome"] for line in one.lines("failures")} == {"infra"}


@pytest.mark.parametrize(("rerolls", "failures"), [(0, 4), (2, 12)])
async def test_one_that_fails_again_is_without_a_reward(start: Start, rerolls: int, failures: int) -> None:
    async with start(["yes"], model={"fail_first": 1000}, groups={"max_rerolls": rerolls}) as one:
        group = await one.rollouts.run_group(GroupJob(0, 0, 0), 0)
    assert [(member.outcome, member.reward) for member in group.members] == [("infra", None)] * 4
    assert len(one.lines("failures")) == failures
    assert one.lines("rollouts") == []


async def test_a_member_beyond_its_budget_is_cancelled_and_its_group_goes_on(start: Start) -> None:
    slow = {"responses_create_params": {"input": "q"}, "verify_s": {"1": 3600.0}}
    groups = {"member_timeout_s": 0.5, "max_rerolls": 3}
    async with start(
        [slow], groups=groups, environment_class="tests.training.grpo.slow_members:SlowMembersEnvironment"
    ) as one:
        async with asyncio.timeout(10):
            group = await one.rollouts.run_group(GroupJob(0, 0, 0), 0)
        assert SlowMembersEnvironment.n_verifying == 0, "what the member held is released"
        await one.rollouts.checkpoint(one.folder)
    assert [(member.outcome, member.reward, member.reason) for member in group.members] == [
        ("completed", 0.0, "right"),
        ("cancelled", None, "member_timeout"),
        ("completed", 2.0, "right"),
        ("completed", 3.0, "right"),
    ]
    assert group.seconds >= 0.5
    assert repair(group, GroupSettings()) is group
    assert [(line["member"], line["kind"], line["stage"], line["final"]) for line in one.lines("failures")] == [
        (1, "member_timeout", "verify", True)
    ], "it is not run anew"
    assert [line["_ng_rollout_index"] for line in one.lines("rollouts")] == [0, 2, 3]


async def test_a_row_that_is_wrong_makes_a_group_without_rewards(start: Start) -> None:
    async with start(["yes", {"responses_create_params": {"input": "q"}}]) as one:
        group = await one.rollouts.run_group(GroupJob(0, 1, 0), 0)
    assert [(member.outcome, member.reward) for member in group.members] == [("row", None)] * 4


async def test_rows_that_were_changed_meanwhile_are_refused(start: Start, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    async with start(["yes", "yes"]) as one:
        path.write_bytes(path.read_bytes() + path.read_bytes())
        assert (await one.rollouts.run_group(GroupJob(0, 0, 0), 0)).members[0].reward == 1.0, "more may follow"
        path.write_bytes(path.read_bytes().replace(b"yes", b"now", 1))
        with pytest.raises(ConfigError, match="was changed since the run began"):
            await one.rollouts.run_group(GroupJob(1, 0, 0), 0)


async def test_of_a_cancelled_group_nothing_is_written(start: Start) -> None:
    async with start(["yes"], model={"delay_s": 3600}) as one:
        task = asyncio.create_task(one.rollouts.run_group(GroupJob(0, 0, 0), 0))
        await asyncio.sleep(0.2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert one.lines("groups") == []


async def test_what_came_after_a_checkpoint_is_forgotten(start: Start, tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint"
    checkpoint.mkdir()
    async with start(["yes"]) as one:
        await one.rollouts.run_group(GroupJob(0, 0, 0), 0)
        await one.rollouts.checkpoint(checkpoint)
        await one.rollouts.run_group(GroupJob(1, 0, 1), 0)
        await one.rollouts.validate(1)
        await one.rollouts.restore(checkpoint)
        assert [line["id"] for line in one.lines("groups")] == [0]
        assert (len(one.lines("rollouts")), one.lines("validation")) == (4, [])
        await one.rollouts.run_group(GroupJob(1, 0, 1), 0)
    assert [line["id"] for line in one.lines("groups")] == [0, 1]
    assert len(one.lines("rollouts")) == 8
    cut(one.folder, {})
    assert one.lines("rollouts") == one.lines("groups") == []


async def test_the_index_says_where_the_rollouts_of_each_group_stand(start: Start, tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint"
    checkpoint.mkdir()
    async with start(["yes", "no"]) as one:
        await one.rollouts.run_group(GroupJob(0, 1, 0), 0)
        await one.rollouts.checkpoint(checkpoint)
        await one.rollouts.run_group(GroupJob(1, 0, 0), 0)
        await one.rollouts.restore(checkpoint)
        await one.rollouts.run_group(GroupJob(1, 1, 1), 0)
    entries = read_entries(one.folder)
    assert [entry.result.group_id for entry in entries] == [0] * 4 + [1] * 4
    assert [entry.result.member for entry in entries] == [0, 1, 2, 3] * 2
    rollouts = [load_rollout(entry) for entry in entries]
    assert [rollout and rollout.row.stamp.epoch for rollout in rollouts] == [0] * 4 + [1] * 4
    assert [rollout and rollout.reward for rollout in rollouts] == [entry.result.reward for entry in entries]
    times = [entry.result.ended_at for entry in entries]
    assert times == [rollout and rollout.ended_at for rollout in rollouts]
    assert None not in times


async def test_failures_are_of_their_group_and_those_of_validations_apart(start: Start) -> None:
    async with start(["yes"], model={"fail_first": 1000}) as one:
        await one.rollouts.run_group(GroupJob(7, 0, 0), 0)
        await one.rollouts.validate(1)
    assert {line["group_id"] for line in one.lines("failures")} == {7}
    assert {failed.group_id for failed in one.rollouts.last_failures} == {7}
    assert {line["group_id"] for line in one.lines("validation_failures")} == {0}


async def test_validation_has_prompts_rollouts_and_sampling_of_its_own(start: Start) -> None:
    given = {"max_val_samples": 3, "val_num_generations_per_prompt": 2, "val_batch_size": 2}
    async with start(["yes", "no", "no", "yes"], **given) as one:
        found = await one.rollouts.validate(4)
    assert (found.n_rollouts, found.n_verdicts) == (6, 6)
    assert (found.metrics["accuracy"], found.metrics["pass_k"]) == (pytest.approx(1 / 3), pytest.approx(1 / 3))
    assert found.metrics["total_reward/mean"] == found.metrics["accuracy"], "recipes keep checkpoints by this name"
    assert {line["responses_create_params"]["temperature"] for line in one.lines("validation")} == {0.0}
    assert one.lines("rollouts") == []


async def test_all_validation_rollouts_may_be_in_flight(start: Start) -> None:
    async with start(["yes"] * 3, model={"delay_s": 0.01}, val_batch_size=None) as one:
        assert (await one.rollouts.validate(0)).n_verdicts == 3


async def test_a_validation_of_failures_says_no_number(start: Start) -> None:
    async with start(["yes"], model={"fail_first": 1000}) as one:
        found = await one.rollouts.validate(0)
    assert (dict(found.metrics), found.n_rollouts, found.n_verdicts) == ({}, 1, 0)


async def test_an_environment_without_the_model_that_is_trained_is_refused(start: Start) -> None:
    async with start(["yes"]) as one:
        other = RolloutWorker(one.worker.config, one.worker.settings._replace(model_server="policy"))
        with pytest.raises(ConfigError, match="no model server `policy`"):
            await other.start()


def test_an_engine_counts_as_started_anew_by_its_port_or_its_label() -> None:
    starts = StartCounter()
    seen = [("a", "default"), ("a", "default"), ("a", "0"), ("a", "1"), ("a", "default"), ("a", "2"), ("b", "2")]
    assert [starts.count(url, version) for url, version in seen] == [1, 1, 1, 1, 2, 2, 3]


def test_an_engine_that_did_not_answer_once_was_not_started_anew() -> None:
    starts = StartCounter()
    seen = [("a", None), ("a", "0"), ("a", None), ("a", "0"), ("a", None), ("a", "default"), ("a", None)]
    assert [starts.count(url, version) for url, version in seen] == [1, 1, 1, 1, 1, 2, 2]


@pytest.mark.parametrize(("answer", "n_scored"), [(scores, 4), (lambda _ids: 400, 0)])
async def test_teachers_score_the_samples_of_a_group_and_a_failure_of_theirs_leaves_its_verdicts(
    start: Start, tmp_path: Path, answer: Any, n_scored: int
) -> None:
    write_model_folder(tmp_path / "model")
    teacher = ScriptedTeacher(small_vocabulary(), answer)
    async with teacher.serving() as url:
        block = {
            "enabled": True,
            "teacher_model_by_agent_name": {"agent": "big"},
            "servers": {"big": {"base_url": url, "max_attempts": 1}},
        }
        exact = "tests.training.grpo.exact_model:ExactModel"
        async with start(["yes"], distillation=block, model_class=exact) as one:
            group = await one.rollouts.run_group(GroupJob(id=0, row=0, epoch=0), 0)
    assert [member.reward for member in group.members] == [1.0] * 4
    samples = [sample for member in group.members for sample in member.samples]
    assert len(samples) == 4
    scored = [sample.teacher_log_probs for sample in samples if sample.teacher_log_probs is not None]
    assert [values.tolist() for values in scored] == [
        pytest.approx([0, *(-nth / 100 for nth in range(2, 13))])
    ] * n_scored
    assert [body["prompt"] for body in teacher.bodies] == [list(range(1, 13))] * 4
