"""Claims about what a terminal shows of a training run: what its loop does and since when, its groups, what failed."""

import asyncio
import os
import pty
from contextlib import suppress

from paddock.collect.results import FailedAttempt
from paddock.training.core.order import all_rows
from paddock.training.core.settings import AsyncGrpoSettings, GroupSettings, GrpoSettings
from paddock.training.grpo.loop import Loop
from paddock.training.grpo.loop_records import LoopSettings, LoopStatus
from paddock.training.grpo.progress import Progress, status_lines
from paddock.training.grpo.roles import GroupJob
from paddock.training.grpo.testing import ScriptedPolicy, ScriptedRollouts, ScriptedRun, now, virtually

FAILED = FailedAttempt(
    group_id=7,
    member=1,
    attempt=0,
    agent="swe",
    outcome="infra",
    owner="infra",
    kind="sandbox_died",
    message="it was\n\x1b[2Jkilled",
    stage="tools",
    at=0.0,
)


def test_a_loop_says_what_it_does_since_when_and_which_groups_run_the_longest() -> None:
    grpo = GrpoSettings(
        num_prompts_per_step=2,
        num_generations_per_prompt=2,
        max_num_steps=2,
        async_grpo=AsyncGrpoSettings(max_trajectory_age_steps=1, in_flight_weight_updates=True),
    )
    seen: list[LoopStatus] = []

    def seconds(work: GroupJob) -> float:
        return 100.0 if work.id == 1 else 20.0

    async def main() -> None:
        world = ScriptedRun()
        loop = Loop(
            LoopSettings(grpo, GroupSettings(), all_rows(8), max_length=100),
            ScriptedRollouts(world, seconds=seconds),
            ScriptedPolicy(world, train_s=50.0),
            lambda report: None,
            clock=now,
        )
        seen.append(loop.status())
        task = asyncio.create_task(loop.run())
        while not task.done():
            await asyncio.sleep(10.0)
            seen.append(loop.status())
        await task

    virtually(main())
    assert (seen[0].span, seen[0].running) == (None, {})
    first = seen[1]
    assert (first.step, first.span, first.span_s, first.n_waiting, first.n_needed) == (0, "wait_s", 10.0, 0, 2)
    assert set(first.running.values()) == {10.0}
    training = [status for status in seen if status.span == "train_s"]
    assert {status.step for status in training} == {0, 1}
    assert max(status.span_s for status in training) <= 50.0
    long = [status.running for status in seen if status.running.get(1, 0) > 20]
    assert long
    assert all(next(iter(running)) == 1 for running in long), "the one that has run the longest comes first"


def test_lines_name_the_span_the_workers_the_oldest_groups_and_the_last_failures() -> None:
    running = {group: 100.0 - group for group in range(8)}
    status = LoopStatus(step=11, span="wait_s", span_s=95.0, n_waiting=3, n_needed=8, running=running)
    now, groups, failed = status_lines(status, [5, 3], [FAILED])
    assert now == "step 12 waits for groups for 95 s; 3 of the 8 groups that a step takes have ended"
    assert groups.startswith("in flight 8 groups (5, 3 at 2 workers): 0 for 100 s, 1 for 99 s, ")
    assert groups.count(" for ") == 5
    assert failed == "failed 7-1: infra, sandbox_died in tools: it was ?[2Jkilled"
    idle = LoopStatus(step=0, span=None, span_s=0.0, n_waiting=0, n_needed=8, running={})
    assert list(status_lines(idle, [0], [])) == ["step 1; 0 of the 8 groups that a step takes have ended"]
    stores = idle._replace(step=6, span="checkpoint_s", span_s=3.0)
    assert next(status_lines(stores, [0], [])).startswith("step 6 stores a checkpoint for 3 s;")


async def test_a_terminal_shows_what_the_run_does_below_the_bar_and_is_clean_at_the_end() -> None:
    ours, theirs = pty.openpty()
    os.set_blocking(ours, False)
    shown = ""

    def read() -> None:
        nonlocal shown
        with suppress(BlockingIOError):
            shown += os.read(ours, 1 << 20).decode(errors="replace")

    with os.fdopen(theirs, "w") as terminal:
        progress = Progress(4, every_s=1.0, stream=terminal)
        progress.report(1, {"train/total_reward/mean": 0.5})
        nth = 0

        def lines() -> list[str]:
            nonlocal nth
            nth += 1
            return [f"look {nth}"]

        async with asyncio.timeout(30), progress.follow(lines):
            while "look 3" not in shown:
                await asyncio.sleep(0.05)
                read()
        progress.close()
        terminal.flush()
        read()
    os.close(ours)
    last = shown.rpartition("look")[2]
    assert "reward 0.500" in last, "the bar stays, what was done does not"


async def test_without_a_terminal_nothing_is_asked() -> None:
    def lines() -> list[str]:
        raise AssertionError("nobody sees it")

    progress = Progress(4, every_s=1.0)
    async with progress.follow(lines):
        await asyncio.sleep(0.3)
    progress.close()
