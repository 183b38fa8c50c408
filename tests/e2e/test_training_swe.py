"""Claims about training on SWE rollouts: CodeAct in real sandboxes, from a sandbox that is killed to the advantages.

The rows are the demonstration's. Where a policy is played, that what is right is told from what is not. Where weights
are trained, a tiny model calls the tools at random: what is claimed is how its rollouts become batches.
"""

import math
from pathlib import Path

import pytest
from tests.e2e.learning import group, runs, swe, swe_run

from paddock.cli import main
from paddock.tokens.export import plan_rollout, rollout_samples
from paddock.training.core.batches import make_batch
from paddock.training.core.records import MaskEntry
from paddock.training.core.settings import GroupSettings, GrpoSettings
from paddock.types import REWARDED, Rollout

pytestmark = [pytest.mark.sandbox]
LONGEST = 65536
EPSILON = 1e-6


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> group.GroupEnd:
    (row,) = swe.built("sqlparse")
    return group.play(row, tmp_path_factory.mktemp("played"))


@pytest.mark.slow
def test_of_five_members_one_is_right_three_are_wrong_and_the_killed_one_is_neither(played: group.GroupEnd) -> None:
    members = played.group.members
    told = sorted((member.outcome, member.reward, member.reason) for member in members if member.reward is not None)
    assert told == [
        ("completed", 0.0, "no_patch"),
        ("completed", 0.0, "tests_fail"),
        ("completed", 0.0, "tests_fail"),
        ("completed", 1.0, "resolved"),
    ]
    (killed,) = (member for member in members if member.reward is None)
    assert (killed.outcome, killed.reason, killed.samples) == ("infra", "sandbox_gone", ())
    assert played.left == []


# Of rewards 1, 0, 0, 0. The others of the right one are all 0: their mean is 0, and there is no deviation to divide by.
# Those of a wrong one are 1, 0, 0: their mean is 1/3, their variance (4/9 + 1/9 + 1/9) / 2 = 1/3. Of all four the mean
# is 1/4, the variance (9/16 + 3 * 1/16) / 3 = 1/4.
BY_HAND = {
    "leave-one-out": ({"normalize_rewards": False}, 1.0, -1 / 3),
    "leave-one-out, normalised": ({}, 1.0, -(1 / 3) / (math.sqrt(1 / 3) + EPSILON)),
    "of all": ({"normalize_rewards": False, "use_leave_one_out_baseline": False}, 0.75, -0.25),
    "of all, normalised": ({"use_leave_one_out_baseline": False}, 0.75 / (0.5 + EPSILON), -0.25 / (0.5 + EPSILON)),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", BY_HAND)
def test_advantages_are_those_computed_by_hand(played: group.GroupEnd, case: str) -> None:
    given, right, wrong = BY_HAND[case]
    batch = make_batch(
        [played.group],
        step=0,
        grpo=GrpoSettings.model_validate(given),
        settings=GroupSettings(),
        max_length=LONGEST,
        known_versions=[0],
    )
    (killed,) = (member.nth for member in played.group.members if member.reward is None)
    assert batch.masked == [MaskEntry(0, killed, None, "infra")]
    assert sorted(row.reward for row in batch.rows) == [0.0, 0.0, 0.0, 1.0]
    for row in batch.rows:
        advantage = right if row.reward else wrong
        assert row.tokens > 0
        assert row.advantages[row.loss_mask] == pytest.approx(advantage, rel=1e-6)
        assert not row.advantages[~row.loss_mask].any()


STEPS = 3
MEAN, MAX = 2e-6, 1e-4
"""Of what trainer and engine say of the same tokens under the same weights."""
with_vllm = [pytest.mark.vllm, pytest.mark.slow, pytest.mark.timeout(2 * runs.RUN_S)]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> swe_run.FinishedRun:
    return swe_run.train(tmp_path_factory.mktemp("trained"), steps=STEPS, rerolls=0)


class TestOfThreeSteps:
    pytestmark = with_vllm

    def test_each_is_done_once_and_stored(self, trained: swe_run.FinishedRun) -> None:
        assert [line["step"] for line in trained.steps] == [1, 2, 3]
        assert [line["groups"] for line in trained.steps] == [[0], [1], [2]]
        assert (trained.out / "checkpoints" / f"step_{STEPS}" / "checkpoint.json").exists()
        assert all(line["metrics"]["train/staleness/max"] <= 1 for line in trained.steps)

    def test_weights_were_sent_while_sandboxes_lived(self, trained: swe_run.FinishedRun) -> None:
        """A rollout has one sandbox from its first turn to its last."""
        mixed = [rollout for rollout in trained.rollouts if {"0", "1"} <= set(_versions(rollout))]
        assert {rollout.row.stamp.group_id for rollout in mixed} == {1}
        assert trained.steps[1]["metrics"]["train/mixed_versions_rate"] > 0

    def test_engine_and_trainer_agree_about_current_weights_and_not_about_older_ones(
        self, trained: swe_run.FinishedRun
    ) -> None:
        told = [line["metrics"] for line in trained.steps]
        error = "train/logprob_error"
        current = [one for one in told if f"{error}/current/tokens" in one]
        assert current
        assert max(one[f"{error}/current/mean_abs"] for one in current) < MEAN
        assert max(one[f"{error}/current/max_abs"] for one in current) < MAX
        assert max(one[f"{error}/all/max_abs"] for one in told) > 10 * MAX

    def test_samples_are_what_the_engine_was_given_and_what_it_sampled(self, trained: swe_run.FinishedRun) -> None:
        rollouts = trained.rollouts
        assert len(rollouts) >= STEPS * swe_run.MEMBERS - 1
        assert max(len(rollout.turns) for rollout in rollouts) > 2
        for rollout in rollouts:
            assert (rollout.outcome in REWARDED, rollout.engine) == (True, "exact")
            assert plan_rollout(rollout, "whole").skipped == []
            (found,) = rollout_samples(rollout, "whole")
            ids, mask, log_probs = _plainly(rollout)
            assert (found.sample.ids, found.sample.loss_mask, found.sample.log_probs) == (ids, mask, log_probs)
            assert set(_versions(rollout)) <= {"0", "1", "2", "3"}

    def test_nemo_rl_would_take_them_as_they_are(
        self, trained: swe_run.FinishedRun, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["samples", "check", str(trained.out)]) == 0, capsys.readouterr().out

    def test_the_killed_member_is_masked_and_its_group_repaired(self, trained: swe_run.FinishedRun) -> None:
        # A shell that is stopped while it opens is given up, which is in doubt: its member was tried again.
        failed_lines = [line for line in trained.lines("failures.jsonl") if line["group_id"] == 1]
        lines = [line for line in failed_lines if not line.get("doubtful")]
        assert len(lines) == 1, failed_lines
        (failed,) = lines
        assert (failed["outcome"], failed["kind"], failed["stage"]) == ("infra", "sandbox_gone", "model")
        assert failed["usage"]["output_tokens"] > 0
        one = next(line["metrics"] for line in trained.steps if line["groups"] == [1])
        assert (one["train/outcome/infra"], one["train/masked/infra"]) == (1, 1)
        assert (one["train/group_size/mean"], one["train/samples"]) == (swe_run.MEMBERS - 1, swe_run.MEMBERS - 1)
        journal = next(line for line in trained.lines("groups.jsonl") if line["id"] == 1)
        assert journal["rewards"][failed["member"]] is None
        assert sum(reward is not None for reward in journal["rewards"]) == swe_run.MEMBERS - 1

    def test_nothing_is_left_running(self, trained: swe_run.FinishedRun, capsys: pytest.CaptureFixture[str]) -> None:
        assert not trained.processes_left
        assert trained.sandboxes_left == []
        assert main(["sandbox", "list", "--home", str(swe.HOME)]) == 0
        told = [line.split("-")[0] for line in capsys.readouterr().out.splitlines() if not line.startswith(" ")]
        assert not {str(pid) for pid in trained.pids} & set(told)


@pytest.mark.vllm
@pytest.mark.long
@pytest.mark.timeout(2 * runs.RUN_S)
def test_where_it_may_be_a_killed_member_is_run_anew(tmp_path: Path) -> None:
    run = swe_run.train(tmp_path, steps=2, rerolls=1)
    (failed,) = run.lines("failures.jsonl")
    anew = next(
        rollout.row.stamp
        for rollout in run.rollouts
        if (rollout.row.stamp.group_id, rollout.row.stamp.member) == (failed["group_id"], failed["member"])
    )
    assert (failed["attempt"], anew.attempt) == (0, 1)
    one = next(line["metrics"] for line in run.steps if line["groups"] == [1])
    assert (one["train/group_size/mean"], one["train/outcome/infra"]) == (swe_run.MEMBERS, 0)
    assert (run.processes_left, run.sandboxes_left) == (False, [])


def _versions(rollout: Rollout) -> list[str | None]:
    return [
        version
        for turn in rollout.turns
        for version in ([span.version for span in turn.weight_spans] or [turn.weight_version])
    ]


def _plainly(rollout: Rollout) -> tuple[list[int], list[int], list[float]]:
    """Ids, mask and log-probs of turns that each continue the one before: prompt, answer, prompt, answer, ..."""
    ids: list[int] = []
    mask: list[int] = []
    log_probs: list[float] = []
    before = None
    for turn in rollout.turns:
        assert turn.parent == before
        assert turn.prompt_ids is not None
        assert turn.sampled_ids
        assert turn.log_probs is not None
        ids += [*turn.prompt_ids, *turn.sampled_ids]
        mask += [0] * len(turn.prompt_ids) + [1] * len(turn.sampled_ids)
        log_probs += [*[0.0] * len(turn.prompt_ids), *turn.log_probs]
        before = turn.id
    return ids, mask, log_probs
