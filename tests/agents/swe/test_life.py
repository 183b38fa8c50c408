"""Claims about the life of a SWE rollout, over real sandboxes: how each way of ending is told, and what is left."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from paddock.errors import ConfigError
from paddock.types import Stamp
from paddock.types.responses import output_items

pytestmark = pytest.mark.sandbox

GOLD = """diff --git a/calc.py b/calc.py
--- a/calc.py
+++ b/calc.py
@@ -1,2 +1,2 @@
 def add(a, b):
-    return a - b
+    return a + b
"""
FIX = "sed -i 's/a - b/a + b/' calc.py"
CANARY = "canary-8f14e45fceea167a5a36dedd4bea2543"
ASK = """busybox wget -q -O - --post-data '{"input": "hello"}' $OPENAI_BASE_URL/responses"""


def script(*commands: str, **more: Any) -> dict[str, Any]:
    return {"harness_config": {"commands": list(commands), **more}}


async def until(holds: Any) -> None:
    async with asyncio.timeout(60):
        while not holds():
            await asyncio.sleep(0.01)


async def test_the_known_fix_is_paid_and_asks_no_model(standing: Any) -> None:
    async with standing("gold") as stand:
        rollout = await stand.run(patch=GOLD)
    assert (rollout.outcome, rollout.reward, rollout.turns) == ("completed", 1.0, [])
    assert stand.model.n_calls == 0
    assert rollout.response is not None
    assert rollout.response["object"] == "response"
    assert "+    return a + b" in rollout.response["model_patch"]
    assert stand.kept("patch.diff").decode() == rollout.response["model_patch"]
    assert stand.kept("meta.json")["reward"] == 1.0


async def test_waiting_for_the_verifiers_turn_is_told_apart(standing: Any) -> None:
    async with standing("null") as stand:
        rollout = await stand.run(waited_s=1000.0)
    assert (rollout.timing.verify_wait_s, rollout.timing.verify_s) == (1000.0, 0.0)
    assert rollout.verdict is not None
    assert rollout.verdict.waited_s == 0.0


async def test_doing_nothing_is_a_verdict_and_an_empty_patch(standing: Any) -> None:
    async with standing("null") as stand:
        rollout = await stand.run()
    assert (rollout.outcome, rollout.reward) == ("completed", 0.0)
    assert rollout.response is not None
    assert rollout.response["model_patch"] == ""


async def test_a_known_fix_that_does_not_apply_is_the_rows_fault(standing: Any) -> None:
    async with standing("gold") as stand:
        rollout = await stand.run(patch=GOLD.replace("a - b", "a * b"))
        missing = await stand.run()
    assert (rollout.outcome, rollout.reward) == ("row", None)
    assert missing.outcome == "row"


async def test_a_known_fix_that_only_the_environment_can_read_comes_as_its_known_good_turn(standing: Any) -> None:
    async with standing("gold", model={"model": "replay", "answer": GOLD}) as stand:
        rollout = await stand.run()
    assert (rollout.outcome, rollout.reward) == ("completed", 1.0)


async def test_new_and_binary_files_are_in_the_patch_and_litter_is_not(standing: Any) -> None:
    block = script(FIX, "printf '\\000\\001' > logo.bin", "echo x > new.py", "echo x > run.log", "rm README")
    async with standing(**block) as stand:
        rollout = await stand.run()
    assert rollout.reward == 1.0
    patch = stand.kept("patch.diff").decode()
    assert "b/new.py" in patch and "GIT binary patch" in patch and "deleted file" in patch
    assert "run.log" not in patch


async def test_steps_are_the_answer_and_the_trajectory(standing: Any) -> None:
    async with standing(**script("echo one", "false", FIX)) as stand:
        rollout = await stand.run()
    items = output_items(rollout.response)
    assert [item["type"] for item in items] == ["function_call", "function_call_output"] * 3 + ["message"]
    kept = stand.kept()
    assert [step["turn"] for step in kept["steps"]] == [1, 2, 3]
    assert "one" in kept["steps"][0]["output"][1]["output"]
    assert '"exit_code": 1' in kept["steps"][1]["output"][1]["output"]
    assert kept["task"]["visible"]["problem_statement"] == "add(1, 2) gives -1."
    assert not list(stand.artifacts.glob("*/*/steps.jsonl"))


async def test_what_a_harness_leaves_is_kept_beside_however_it_ended(
    standing: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    async with standing("stub_harnesses:ArtifactHarness") as stand:
        rollout = await stand.run()
        kept = {path.name for path in stand.artifacts.glob("*/*/*")}
    assert rollout.outcome == "infra"
    assert {"traj.json", "meta.json"} < kept
    assert [path.read_bytes() for path in stand.artifacts.glob("*/*/*own.json")] == [b"[1]"]


async def test_one_shell_keeps_its_folder_and_separate_ones_do_not(standing: Any) -> None:
    for together, seen in ((True, "/etc"), (False, "/testbed")):
        async with standing(**script("cd /etc", "pwd", shell=together)) as stand:
            rollout = await stand.run(stamp=Stamp(run_id="r", group_id=int(together), member=0, attempt=0))
        assert seen in output_items(rollout.response)[3]["output"]


@pytest.mark.slow
async def test_a_time_limit_truncates_and_what_is_there_is_graded(standing: Any) -> None:
    async with standing(agent_timeout_s=3.0, **script(FIX, "sleep 30")) as stand:
        rollout = await stand.run()
        assert stand.agent._provider.value.live() == []
    assert (rollout.outcome, rollout.reward) == ("truncated", 1.0)
    assert stand.kept()["exit"]["ended"] == "time_limit"


@pytest.mark.slow
async def test_a_command_has_its_own_time_limit(standing: Any) -> None:
    async with standing(command_timeout_s=2.0, **script("sleep 30", FIX)) as stand:
        rollout = await stand.run()
    assert (rollout.outcome, rollout.reward) == ("completed", 1.0)
    assert "time limit" in output_items(rollout.response)[1]["output"]
    assert stand.kept("meta.json")["commands_timed_out"] == 1


async def test_a_turn_limit_truncates(standing: Any) -> None:
    async with standing(agent_max_turns=1, **script("true", FIX)) as stand:
        rollout = await stand.run()
        assert rollout.outcome == "truncated", rollout.failure
        assert stand.world.judged == [""]


@pytest.mark.slow
async def test_a_sandbox_that_uses_up_its_budget_truncates(standing: Any) -> None:
    block = script(
        FIX, "for n in 1 2 3 4 5 6 7 8; do head -c 1000000 /dev/zero > /var/tmp/$n; sleep 0.3; done; sleep 30"
    )
    async with standing(limits={"disk_mib": 2, "memory_mib": 512}, **block) as stand:
        rollout = await stand.run()
    assert (rollout.outcome, rollout.reward) == ("truncated", 1.0)
    assert stand.kept()["exit"]["ended"] == "budget"


async def test_a_sandbox_that_dies_is_infra_and_has_no_reward(standing: Any) -> None:
    async with standing(**script(FIX, "sleep 30")) as stand:
        running = asyncio.create_task(stand.run())
        await until(lambda: list(stand.artifacts.glob("*/*/steps.jsonl")))
        provider = stand.agent._provider.value
        await provider.destroy(provider.live()[0].sandbox_id)
        rollout = await running
    assert (rollout.outcome, rollout.reward) == ("infra", None)
    assert rollout.failure is not None and rollout.failure.stage == "model"
    assert [step["turn"] for step in stand.kept()["steps"]] == [1]
    assert stand.kept("meta.json")["outcome"] == "infra"


async def test_what_a_dead_sandbox_leaves_is_not_graded(standing: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    async with standing("stub_harnesses:DeadSandboxHarness") as stand:
        rollout = await stand.run()
        assert stand.world.judged == []
    assert (rollout.outcome, rollout.reward) == ("infra", None)
    assert rollout.failure is not None
    assert (rollout.failure.kind, rollout.failure.stage) == ("sandbox_gone", "sandbox")


async def test_an_image_that_is_not_there_is_the_rows_fault(standing: Any) -> None:
    async with standing("null") as stand:
        rollout = await stand.run(session={"image": "cal"})
        without = await stand.run(session={"image": None})
    assert (rollout.outcome, without.outcome) == ("row", "row")
    assert rollout.failure is not None and "'calc'" in rollout.failure.message


async def test_a_canary_that_is_read_is_a_leak(standing: Any) -> None:
    async with standing(**script("echo fine", "cat /hidden/test_calc.py", "echo never")) as stand:
        honest = await stand.run(stamp=Stamp(run_id="honest", group_id=0, member=0, attempt=0))
        rollout = await stand.run(canary=CANARY, stamp=Stamp(run_id="leak", group_id=0, member=0, attempt=0))
        silly = await stand.run(canary="add(1, 2) gives -1.", stamp=Stamp(run_id="s", group_id=0, member=0, attempt=0))
    assert honest.outcome == "completed"
    assert (rollout.outcome, rollout.reward) == ("leak", None)
    assert silly.outcome == "row"
    meta = (stand.artifacts / "leak/0-0-0/meta.json").read_text()
    assert '"outcome": "leak"' in meta


async def test_a_canary_that_a_program_shows_its_model_is_a_leak_too(standing: Any) -> None:
    tell = 'busybox wget -q -O - --post-data "$(cat /hidden/test_calc.py)" $OPENAI_BASE_URL/responses >/dev/null 2>&1'
    async with standing(**script(FIX, tell)) as stand:
        rollout = await stand.run(canary=CANARY)
    assert (rollout.outcome, rollout.reward) == ("leak", None)
    assert stand.model.n_calls == 0


async def test_a_program_inside_reaches_its_model_and_its_calls_are_turns(standing: Any) -> None:
    async with standing(**script(ASK, "env; cat /proc/*/environ /proc/*/cmdline")) as stand:
        rollout = await stand.run()
    assert rollout.outcome == "completed"
    items = output_items(rollout.response)
    assert "yes" in items[1]["output"]
    assert len(rollout.turns) == stand.model.n_calls == 1
    assert rollout.usage.output_tokens == 2
    assert "ro_" not in items[3]["output"]
    assert "OPENAI_BASE_URL=http://127.0.0.1:" in items[3]["output"]
    assert stand.kept("meta.json")["model_calls"] == 1


async def test_a_model_that_fails_last_is_infra(standing: Any) -> None:
    async with standing(model={"fail_first": 100}, **script(FIX, ASK)) as stand:
        rollout = await stand.run()
    assert (rollout.outcome, rollout.reward) == ("infra", None)
    assert rollout.failure is not None and rollout.failure.stage == "model"


async def test_a_model_that_recovers_costs_nothing(standing: Any) -> None:
    async with standing(model={"fail_first": 1}, **script(FIX, ASK, ASK)) as stand:
        assert (await stand.run()).reward == 1.0


async def test_a_refused_command_is_advice_and_is_counted(standing: Any) -> None:
    async with standing(**script("pip install requests", FIX)) as stand:
        rollout = await stand.run()
    assert rollout.reward == 1.0
    assert "Not run" in output_items(rollout.response)[1]["output"]
    meta = stand.kept("meta.json")
    assert sum(meta["commands_refused"].values()) == 1
    assert meta["commands"] == 1


async def test_cancelling_ends_the_sandbox_and_keeps_what_was_done(standing: Any) -> None:
    async with standing(**script(FIX, "sleep 30")) as stand:
        running = asyncio.create_task(stand.run())
        await until(lambda: list(stand.artifacts.glob("*/*/steps.jsonl")))
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert stand.agent._provider.value.live() == []
    assert stand.kept("meta.json")["outcome"] == "cancelled"
    assert len(stand.kept()["steps"]) == 1


@pytest.mark.slow
async def test_a_rollout_waits_until_its_sandbox_fits(standing: Any) -> None:
    block = script("sleep 0.3")
    async with standing(admission={"memory_mib": 600}, **block) as stand:
        most = 0
        runs = [asyncio.create_task(stand.run(stamp=Stamp(run_id="w", group_id=n, member=0))) for n in range(3)]
        while not all(run.done() for run in runs):
            most = max(most, len(stand.agent._provider.value.live()))
            await asyncio.sleep(0.01)
    assert [run.result().outcome for run in runs] == ["completed"] * 3
    assert most == 1
    assert max(run.result().timing.sandbox_s for run in runs) > 0.5


async def test_agents_of_one_process_share_a_provider_and_its_last_user_closes_it(standing: Any) -> None:
    async with standing("null") as one:
        async with standing(**script(FIX)) as two:
            provider = one.agent._provider.value
            assert provider is two.agent._provider.value
        assert (await one.run()).outcome == "completed"
        assert one.agent._admission.value is two.agent._admission.value
    async with standing("null") as three:
        assert three.agent._provider.value is not provider


@pytest.mark.slow
async def test_the_rollouts_own_time_limit_is_infra(standing: Any, tmp_path: Path) -> None:
    async with (
        standing(
            rollout_timeout_s=1.0, agent_timeout_s=0.9, admission={"memory_mib": 600}, **script("sleep 5")
        ) as stand,
        stand.agent._admission.value.hold(stand.agent._admission.value.total),
    ):
        rollout = await stand.run()
    assert (rollout.outcome, rollout.reward) == ("infra", None)
    assert rollout.failure is not None and rollout.failure.stage == "sandbox"


async def test_a_program_that_is_not_installed_is_named_when_the_agent_starts(standing: Any) -> None:
    with pytest.raises(ConfigError, match="is not installed: paddock harness install codex_cli"):
        async with standing("codex_cli"):
            raise AssertionError("it was started")


async def test_a_tunnel_that_is_lost_under_a_program_ends_its_rollout(standing: Any) -> None:
    """A program may wait for a network for ever."""
    async with standing(**script("sleep 300")) as stand:
        opened: list[Any] = []
        own = stand.agent._tunnel

        async def kept(*wish: Any) -> Any:
            opened.append(await own(*wish))
            return opened[-1]

        stand.agent._tunnel = kept
        running = asyncio.create_task(stand.run())
        async with asyncio.timeout(60):
            while not opened:
                await asyncio.sleep(0.01)
        await opened[0].close()
        rollout = await running
    assert (rollout.outcome, rollout.reward) == ("infra", None)
    assert rollout.failure.kind == "tunnel_lost"
