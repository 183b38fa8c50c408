"""What the recipe's own servers get wrong, each as what ours do instead."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from tests.sandbox_server.swe_rl.conftest import CHECK, FIX, IMAGE, Serve, SweRlServer

from paddock.sandbox import SandboxError, SandboxSettings
from paddock.sandbox.owner import owners, sandboxes
from paddock.types import Verdict

pytestmark = pytest.mark.sandbox
EVAL = ("bash", "-lc")


async def until(true: Callable[[], bool], seconds: float = 10) -> None:
    async with asyncio.timeout(seconds):
        while not true():
            await asyncio.sleep(0.02)


async def until_status(server: SweRlServer, key: str, value: int) -> None:
    async with asyncio.timeout(10):
        while (await server.client.get("/status")).json()["pool"][key] != value:
            await asyncio.sleep(0.02)


def failing(act: Any, error: Exception, times: int, only: Callable[..., bool] = lambda *_, **__: True) -> Any:
    """`act`, which fails so many times before."""
    left = times

    async def call(*args: Any, **named: Any) -> Any:
        nonlocal left
        if left and only(*args, **named):
            left -= 1
            raise error
        return await act(*args, **named)

    return call


def is_script(_: str, request: Any, **__: Any) -> bool:
    return tuple(request.argv[:2]) == EVAL


# An evaluation that the machine fails becomes a reward of the policy's.


@pytest.mark.slow
async def test_an_evaluation_that_the_machine_failed_is_made_again(serve: Serve) -> None:
    server = await serve()
    broken = SandboxError("the machine has failed", kind="cue")
    server.provider.exec = failing(server.provider.exec, broken, 1, is_script)
    assert (await server.evaluate())["resolved"] is True


@pytest.mark.slow
async def test_a_failure_of_the_machine_is_an_error_and_no_verdict(serve: Serve) -> None:
    server = await serve(evaluate_attempts=2)
    server.provider.exec = failing(
        server.provider.exec, SandboxError("the machine has failed", kind="cue"), 2, is_script
    )
    lease_id = await server.allocate()
    response = await server.post("/evaluate", lease_id=lease_id, patch=FIX, eval_script=CHECK)
    assert response.status_code == 503 and "resolved" not in response.json()
    again = await server.ask("/evaluate", lease_id=lease_id, patch=FIX, eval_script=CHECK)
    assert again["resolved"] is True


async def test_a_failure_in_doubt_is_the_patchs_the_second_time(serve: Serve) -> None:
    server = await serve()
    doubt = SandboxError("its first process ended", kind="cue", doubtful=True)
    server.provider.exec = failing(server.provider.exec, doubt, 2, is_script)
    done = await server.evaluate()
    assert (done["resolved"], done["reason"]) == (False, "sandbox_ended")


async def test_a_rollout_whose_sandbox_is_lost_is_told_at_its_next_heartbeat(serve: Serve) -> None:
    """The client gives it up there and removes its sample; an observation would be trained on."""
    server = await serve()
    lease_id = await server.allocate()
    server.provider.exec = failing(server.provider.exec, SandboxError("the machine has failed", kind="cue"), 1)
    for path in ("/exec", "/exec", "/heartbeat"):
        response = await server.post(path, lease_id=lease_id, command="true")
        assert (response.status_code, response.json()["kind"]) == (200, "sandbox_lost")


# An allocation is repeated although it is no idempotent request.


@pytest.mark.slow
async def test_an_allocation_whose_client_has_gone_is_undone(serve: Serve) -> None:
    server = await serve(claim_timeout_s=1, max_sandboxes=2)
    await server.ask("/close", lease_id=await server.allocate())
    for milliseconds in range(0, 200, 10):
        asking = asyncio.ensure_future(server.post("/allocate", image=IMAGE))
        await asyncio.sleep(milliseconds / 1000)
        asking.cancel()
        await asyncio.wait([asking])
    await until_status(server, "total_leases", 0)
    assert server.provider.live() == []


@pytest.mark.slow
async def test_a_sandbox_whose_answer_was_lost_ends_unclaimed(serve: Serve) -> None:
    """Another of the same instance is another rollout's: a repeat can't be told by what it asks for."""
    server = await serve(claim_timeout_s=1)
    lost, mine = await server.allocate(), await server.allocate()
    assert lost != mine
    await server.ask("/heartbeat", lease_id=mine)
    await until(lambda: len(server.provider.live()) == 1)
    await server.ask("/heartbeat", lease_id=mine)
    assert (await server.post("/heartbeat", lease_id=lost)).json()["kind"] == "lease_unknown"


@pytest.mark.slow
async def test_a_command_whose_answer_was_lost_is_not_run_twice(serve: Serve) -> None:
    server = await serve()
    body = {"lease_id": await server.allocate(), "command": "echo x >> /tmp/runs; sleep 1; cat /tmp/runs"}
    asking = asyncio.ensure_future(server.post("/exec", **body))
    await asyncio.sleep(0.5)
    asking.cancel()
    await asyncio.sleep(0.1)
    assert (await server.ask("/exec", **body))["output"] == "x\n"
    assert (await server.ask("/exec", **body))["output"] == "x\nx\n"


# Heartbeats are stored and never looked at.


@pytest.mark.slow
async def test_a_lease_without_a_word_ends(serve: Serve) -> None:
    server = await serve(lease_timeout_s=1)
    silent, beating = await server.allocate(), await server.allocate()
    await server.ask("/heartbeat", lease_id=silent)
    for _ in range(8):
        await server.ask("/heartbeat", lease_id=beating)
        await asyncio.sleep(0.2)
    await until(lambda: len(server.provider.live()) == 1)
    assert (await server.run(beating, "sleep 2; echo still"))["output"] == "still\n"


# A command's time limit ends the client that waits for it, not what runs.


@pytest.mark.slow
async def test_a_command_out_of_time_is_killed_with_its_tree(serve: Serve) -> None:
    server = await serve()
    lease_id = await server.allocate()
    command = "echo begun; (setsid sleep 4321 &) ; (trap '' TERM; sleep 4321)"
    over = await server.run(lease_id, command, timeout=1)
    assert (over["returncode"], over["output"]) == (-1, "begun\n\nCommand timed out after 1s")
    assert (await server.run(lease_id, "cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -c 'sleep 432[1]'"))[
        "output"
    ] == "0\n"


# A place is given back although its container is still there.


@pytest.mark.slow
async def test_a_place_is_free_when_its_sandbox_is_destroyed(serve: Serve) -> None:
    server = await serve(max_sandboxes=1, queue_timeout_s=0.5)
    lease_id = await server.allocate()
    server.provider.destroy = failing(server.provider.destroy, SandboxError("not now", kind="cue"), 1)
    assert (await server.post("/close", lease_id=lease_id)).status_code == 503
    assert (await server.post("/allocate", image=IMAGE)).json()["kind"] == "pool_full"
    await server.ask("/close", lease_id=lease_id)
    await server.allocate()


# Anybody's request runs anything, as root, with the network and the history of the fix.


async def test_a_sandbox_has_no_capability_no_network_and_no_later_history(serve: Serve) -> None:
    server = await serve()
    lease_id = await server.allocate()
    assert (await server.run(lease_id, "grep CapEff /proc/self/status"))["output"].split()[1] == "0" * 16
    assert (await server.run(lease_id, "ls /sys/class/net; cat /proc/net/route"))["output"].count("eth") == 0
    log = await server.run(lease_id, "git log --all --format=%s; git tag; git reflog")
    assert (log["returncode"], log["output"]) == (0, "broken\n")


# All of a command's output is held and sent.


async def test_output_is_bounded_and_keeps_its_start_and_its_end(serve: Serve) -> None:
    server = await serve(max_output_kib=64)
    lease_id = await server.allocate()
    done = await server.run(lease_id, "echo first; yes | head -c 50000000; printf 'last\\377'")
    assert len(done["output"]) < 70_000
    assert done["output"].startswith("first\n") and done["output"].endswith("last\ufffd")
    assert "bytes left out" in done["output"]


# A restart of the pool forgets every lease, and leaves every container.


async def test_nothing_is_left_of_a_server_that_ended_and_its_leases_are_told_as_ended(serve: Serve) -> None:
    first = await serve()
    lease_id = await first.allocate()
    home = first.provider.settings.home
    await first.stop()
    assert not [folder for owner in owners(home) for folder in sandboxes(owner)]
    second = await serve()
    response = await second.post("/heartbeat", lease_id=lease_id)
    assert (response.status_code, response.json()["kind"]) == (200, "lease_unknown")


@pytest.mark.parametrize("after_s", [0.0, 0.02, 0.08, 0.2])
async def test_nothing_is_left_of_a_sandbox_that_was_starting_when_the_server_ended(
    serve: Serve, after_s: float
) -> None:
    server = await serve()
    asking = asyncio.ensure_future(server.post("/allocate", image=IMAGE))
    await asyncio.sleep(after_s)
    await server.stop()
    await asyncio.wait([asking])
    home = server.provider.settings.home
    assert not [folder for owner in owners(home) for folder in sandboxes(owner)]


# A full pool is an error.


async def test_who_finds_it_full_waits_for_his_turn(serve: Serve) -> None:
    server = await serve(max_sandboxes=1)
    lease_id = await server.allocate()
    waiting = [asyncio.ensure_future(server.allocate(name)) for name in ("gone", "next", "last")]
    await until_status(server, "waiting", 3)
    waiting[0].cancel()
    await until_status(server, "waiting", 2)
    for turn in waiting[1:]:
        assert not turn.done()
        await server.ask("/close", lease_id=lease_id)
        lease_id = await asyncio.wait_for(turn, 10)
    assert len(server.provider.live()) == 1


# The script's exit code alone resolves, whatever it is worth.


@pytest.mark.slow
async def test_a_script_that_passes_without_the_patch_tells_nothing(serve: Serve) -> None:
    server = await serve()
    lease_id = await server.allocate()
    for script, kind in (("true", "script_passes_unpatched"), (" \n", "no_eval_script")):
        response = await server.post("/evaluate", lease_id=lease_id, patch=FIX, eval_script=script)
        assert (response.status_code, response.json()["ok"], response.json()["kind"]) == (200, False, kind)
    assert (await server.evaluate("false"))["resolved"] is False
    trusting = await serve(evaluate_unpatched=False)
    assert (await trusting.evaluate("true"))["resolved"] is True


@pytest.mark.slow
async def test_a_known_rows_patch_is_graded_in_place_of_the_script(serve: Serve) -> None:
    async def grade(instance_id: str, patch: str) -> Verdict | None:
        verdicts = {"forger": "tests_forged", "fixer": "resolved"}
        return Verdict(reward=0, reason=verdicts[instance_id]) if instance_id in verdicts else None

    server = await serve(grade_row=grade)
    for instance_id, resolved in (("forger", False), ("fixer", True), ("unknown", True)):
        lease_id = await server.allocate(f"{instance_id}__eval")
        done = await server.ask("/evaluate", lease_id=lease_id, patch=FIX, eval_script=CHECK)
        assert done["resolved"] is resolved, done


async def test_an_evaluation_has_nothing_of_what_was_done_in_the_sandbox(serve: Serve) -> None:
    server = await serve()
    lease_id = await server.allocate()
    await server.run(lease_id, "echo 'def add(a, b): return 5' > adder.py; git config core.hooksPath /tmp")
    patch = FIX.replace("a + b", "a * b")
    assert (await server.ask("/evaluate", lease_id=lease_id, patch=patch, eval_script=CHECK))["resolved"] is False


async def test_code_under_test_can_not_end_the_script_by_reading_it(serve: Serve) -> None:
    server = await serve()
    script = "cat > /dev/null; python3 -c 'import sys; sys.stdin.read()'; exit 3"
    assert (await server.evaluate(script))["returncode"] == 3


# The check of a patch's shape lets what git refuses pass, and refuses what git takes.


@pytest.mark.slow
async def test_git_says_what_a_patch_is(serve: Serve) -> None:
    server = await serve()
    removal = (
        "diff --git a/adder.py b/adder.py\ndeleted file mode 100644\n--- a/adder.py\n+++ /dev/null\n@@ -1,2 +0,0 @@\n"
    )
    removal += "-def add(a, b):\n-    return a - b\n"
    assert (await server.evaluate("test ! -e adder.py", removal))["resolved"] is True
    for patch, reason in (
        ("", "no_patch"),
        ("see diff --git a/x b/x", "no_patch"),
        (FIX.replace("a - b", "a / b"), "patch_does_not_apply"),
    ):
        done = await server.evaluate(patch=patch)
        assert (done["resolved"], done["reason"]) == (False, reason)


@pytest.mark.slow
async def test_a_sandbox_over_its_budget_is_the_policys_and_keeps_its_patch(serve: Serve) -> None:
    server = await serve(limits={"disk_mib": 16})
    lease_id = await server.allocate()
    await server.run(lease_id, "sed -i s/-/+/ adder.py")
    over = await server.run(lease_id, "head -c 100000000 /dev/zero > /tmp/large; sleep 60")
    assert over["returncode"] == 137 and "disk" in over["output"]
    assert "+    return a + b" in (await server.ask("/diff", lease_id=lease_id))["patch"]
    done = await server.evaluate("head -c 100000000 /dev/zero > /tmp/large; sleep 60; exit 0")
    assert (done["resolved"], done["reason"]) == (False, "over_budget")


@pytest.mark.slow
async def test_sandboxes_of_nodes_are_scrubbed_where_they_are(node: str, serve: Serve) -> None:
    server = await serve(sandbox=SandboxSettings(nodes=(node,)))
    lease_id = await server.allocate()
    assert (await server.run(lease_id, "git log --all --format=%s; git tag"))["output"] == "broken\n"
    assert (await server.evaluate())["resolved"] is True
    assert (await server.client.get("/images")).json()["ok"] is False


@pytest.mark.slow
async def test_a_container_of_the_exec_servers_wire_may_be_silent_from_the_start(serve: Serve) -> None:
    """The recipe's pool passes no heartbeat on, and a model's first answer may take long."""
    server = await serve(claim_timeout_s=0.2, lease_timeout_s=3)
    await server.ask("/container/create", image=IMAGE)
    await asyncio.sleep(1)
    assert len(server.provider.live()) == 1
    await until_status(server, "total_leases", 0)
