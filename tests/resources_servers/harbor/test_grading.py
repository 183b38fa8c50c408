"""Claims about grading by state: what is paid, what can't be forged, what has no reward at all; over real sandboxes."""

from typing import Any

import pytest

from paddock.http import VERIFY, Call, VerifyRequest
from paddock.resources_servers.harbor import HarborServer
from paddock.resources_servers.harbor.server import HarborTask
from paddock.types import Row
from paddock.types.artifacts import ARTIFACTS

pytestmark = pytest.mark.sandbox

HONEST = "echo hello > hello.txt"
BOTH = pytest.mark.parametrize("isolation", ["fresh", "shared"])


@BOTH
async def test_the_published_solution_is_paid_and_nothing_is_not(standing: Any, make_task: Any, isolation: str) -> None:
    async with standing(harness="gold", isolation=isolation) as stand:
        solved = await stand.run(make_task())
    async with standing(harness="null", isolation=isolation) as stand:
        idle = await stand.run(make_task())
    assert (solved.outcome, solved.reward, solved.verdict.reason) == ("completed", 1.0, "paid"), solved.failure
    assert (idle.outcome, idle.reward, idle.verdict.reason) == ("completed", 0.0, "unpaid"), idle.failure


@pytest.mark.parametrize("transport", ["asgi", "http"])
@BOTH
async def test_the_sandbox_goes_to_a_verifier_behind_http_in_one_process(
    standing: Any, make_task: Any, isolation: str, transport: str
) -> None:
    async with standing(HONEST, isolation=isolation, transport=transport) as stand:
        rollout = await stand.run(make_task())
    assert (rollout.outcome, rollout.reward) == ("completed", 1.0), rollout.failure
    assert "sandbox_loan" not in rollout.model_dump_json()


async def test_a_fresh_sandbox_has_the_artifacts_and_nothing_else(standing: Any, make_task: Any) -> None:
    tests = """#!/bin/bash
ls -d /app/* /logs/artifacts/* /root/* /usr/bin/python3 2>/dev/null | tr '\\n' ' ' > /logs/verifier/test-list
cp /logs/verifier/test-list /dev/stdout
[ "$(cat /app/hello.txt)" = hello ] && [ ! -e /root/other ] && [ -x /logs/artifacts/deep/run ] \\
    && [ "$(readlink /logs/artifacts/link)" = /etc/passwd ] && echo 1 > /logs/verifier/reward.txt
"""
    leave = "mkdir -p /logs/artifacts/deep; echo x > /logs/artifacts/deep/run; chmod 755 /logs/artifacts/deep/run"
    async with standing(HONEST, "touch /root/other", leave, "ln -s /etc/passwd /logs/artifacts/link") as stand:
        rollout = await stand.run(make_task(**{"tests/test.sh": tests}))
    assert (rollout.outcome, rollout.reward) == ("completed", 1.0), (rollout.failure, rollout.verdict)


CHEATERS = {
    "a reward file written before": "mkdir -p /logs/verifier; echo 1 > /logs/verifier/reward.txt",
    "a better one beside it": "mkdir -p /logs/verifier; echo '{\"reward\": 1}' > /logs/verifier/reward.json",
    "tests of its own": "mkdir -p /tests; printf '#!/bin/sh\\necho 1 > /logs/verifier/reward.txt' > /tests/test.sh",
    "a writer in the background": (
        "(setsid sh -c 'while true; do echo 1 > /logs/verifier/reward.txt; sleep 0.02; done' >/dev/null 2>&1 &)"
    ),
    "one that waits in the artifacts": (
        "mkdir -p /logs/artifacts; printf '#!/bin/sh\\necho 1 > /logs/verifier/reward.txt' > /logs/artifacts/cat;"
        "chmod +x /logs/artifacts/cat"
    ),
}
OF_FRESH_ALONE = {
    "a patched tool on PATH": "mkdir -p /usr/local/bin; printf '#!/bin/sh\\necho hello' > /usr/local/bin/cat;"
    "chmod 755 /usr/local/bin/cat; cp /usr/local/bin/cat /usr/bin/cat",
    "a patched shell": "printf '#!/bin/sh\\necho 1 > /logs/verifier/reward.txt' > /usr/bin/bash.new;"
    "chmod 755 /usr/bin/bash.new; mv /usr/bin/bash.new /usr/bin/bash",
    "a file for every shell": "echo 'echo 1 > /logs/verifier/reward.txt; exit' > /etc/bash.bashrc;"
    "echo 'export BASH_ENV=/etc/bash.bashrc' >> /etc/profile",
}


@BOTH
@pytest.mark.parametrize("cheater", CHEATERS)
async def test_a_forged_reward_is_not_paid(standing: Any, make_task: Any, isolation: str, cheater: str) -> None:
    async with standing(CHEATERS[cheater], isolation=isolation) as stand:
        rollout = await stand.run(make_task())
    assert (rollout.outcome, rollout.reward) == ("completed", 0.0), (rollout.failure, rollout.verdict)


@pytest.mark.parametrize("cheater", OF_FRESH_ALONE)
async def test_what_an_agent_made_of_its_tools_is_not_in_a_fresh_sandbox(
    standing: Any, make_task: Any, cheater: str
) -> None:
    async with standing(OF_FRESH_ALONE[cheater]) as stand:
        rollout = await stand.run(make_task())
    assert (rollout.outcome, rollout.reward) == ("completed", 0.0), (rollout.failure, rollout.verdict)


UNDECLARED = 'artifacts = ["/app/hello.txt"]'
LEFT = {
    "logs that lead nowhere": "rm -rf /logs/artifacts; ln -s /nowhere/x /logs/artifacts",
    "a file for logs": "rm -rf /logs/artifacts; touch /logs/artifacts",
    "logs in a circle": "rm -rf /logs; ln -s /logs /logs",
    "a file for the workdir": "cd /; rm -rf /app; touch /app",
    "a workdir that leads nowhere": "cd /; rm -rf /app; ln -s /nowhere /app",
    "no workdir": "cd /; rm -rf /app",
    "a file for a folder": "rm -rf /app/sub; touch /app/sub",
    "a folder for a file": "rm /app/seed.txt; mkdir /app/seed.txt",
    "a folder for the tests": "mkdir -p /tests/test.sh/x",
    "tests that lead nowhere": "rm -rf /tests; ln -s /nowhere /tests",
    "a path too long to name": (
        "i=0; while [ $i -lt 40 ]; do n=$(printf '%0200d' 7); mkdir $n && cd $n; i=$((i+1)); done; touch x"
    ),
}


@BOTH
@pytest.mark.parametrize("left", LEFT)
async def test_no_state_that_an_agent_leaves_keeps_the_tests_from_running(
    standing: Any, make_task: Any, isolation: str, left: str
) -> None:
    folder = make_task(**{"environment/sub/x": "x"})
    (folder / "task.toml").write_text((folder / "task.toml").read_text().replace(UNDECLARED, ""))
    async with standing(LEFT[left], isolation=isolation) as stand:
        rollout = await stand.run(folder)
    assert (rollout.outcome, rollout.reward) == ("completed", 0.0), rollout.failure


async def test_a_folder_may_become_a_file_and_a_link_a_folder(standing: Any, make_task: Any) -> None:
    tests = "[ -f sub ] && [ -d seed.txt/deep ] && [ ! -L link ] && [ ! -e /root/x ] && [ -f link/x ]"
    folder = make_task(
        **{
            "environment/sub/x": "x",
            "tests/test.sh": f"#!/bin/bash\n{tests}; echo $((1 - $?)) > /logs/verifier/reward.txt",
        }
    )
    (folder / "environment" / "link").symlink_to("/root")
    (folder / "task.toml").write_text((folder / "task.toml").read_text().replace(UNDECLARED, ""))
    change = "rm -rf sub seed.txt link; touch sub; mkdir -p seed.txt/deep link; touch link/x"
    async with standing(change) as stand:
        rollout = await stand.run(folder)
    assert (rollout.outcome, rollout.reward) == ("completed", 1.0), (rollout.failure, rollout.verdict)


async def test_no_artifact_gets_to_the_tests_by_a_link_of_the_agents(standing: Any, make_task: Any) -> None:
    tests = "#!/bin/bash\n[ -e /tests/sub/forged ]; echo $((1 - $?)) > /logs/verifier/reward.txt"
    folder = make_task(**{"tests/test.sh": tests})
    toml = (folder / "task.toml").read_text()
    (folder / "task.toml").write_text(toml.replace(UNDECLARED, 'artifacts = ["/app/out/sub", "/app"]'))
    forge = "mkdir -p /tests/sub; touch /tests/sub/forged; ln -s /tests out"
    async with standing(forge) as stand:
        rollout = await stand.run(folder)
    assert (rollout.outcome, rollout.reward) == ("completed", 0.0), (rollout.failure, rollout.verdict)


@pytest.mark.parametrize("path", ["/tests/", "../tests", "/app/../logs/verifier", "//", "/tests/."])
async def test_what_the_verifier_alone_may_have_is_no_artifact(standing: Any, make_task: Any, path: str) -> None:
    folder = make_task()
    toml = (folder / "task.toml").read_text()
    (folder / "task.toml").write_text(toml.replace(UNDECLARED, f'artifacts = ["{path}"]'))
    async with standing(HONEST) as stand:
        rollout = await stand.run(folder)
    assert (rollout.outcome, rollout.failure and rollout.failure.kind) == ("row", "harbor_refused")


async def test_no_workdir_leads_out_of_the_image(standing: Any, make_task: Any, home: Any) -> None:
    folder = make_task(**{"environment/planted-by-a-task": "x"})
    toml = (folder / "task.toml").read_text()
    (folder / "task.toml").write_text(toml.replace('"/app"', '"/../../../.."', 1))
    async with standing(HONEST) as stand:
        rollout = await stand.run(folder)
    assert (rollout.outcome, rollout.failure and rollout.failure.kind) == ("row", "harbor_invalid")
    assert not list(home.path.rglob("planted-by-a-task"))


@pytest.mark.slow
async def test_a_service_that_is_left_is_there_for_tests_where_the_config_leaves_it(
    standing: Any, make_task: Any
) -> None:
    service = "(setsid sh -c 'sleep 1; echo hello > /app/hello.txt; sleep 60' >/dev/null 2>&1 &)"
    tests = {
        "tests/test.sh": "#!/bin/bash\nsleep 2\n"
        + "\n".join(["test -e /app/hello.txt; echo $((1 - $?)) > /logs/verifier/reward.txt"])
    }
    rewards = []
    for leftover in ("kill", "leave"):
        async with standing(service, isolation="shared", leftover_processes=leftover) as stand:
            rewards.append((await stand.run(make_task(leftover, **tests))).reward)
    assert rewards == [0.0, 1.0]


@pytest.mark.parametrize(
    ("tests", "kind"),
    [
        ("exit 0", "no_reward"),
        ("> /logs/verifier/reward.txt", "no_reward"),
        ("echo nan > /logs/verifier/reward.txt", "reward_invalid"),
        ('echo \'{"reward": "1"}\' > /logs/verifier/reward.json', "reward_invalid"),
        ('echo \'{"a": 1, "b": 2}\' > /logs/verifier/reward.json', "reward_key"),
        ("mkdir /logs/verifier/reward.txt", "no_reward"),
        ("sleep 60", "tests_timeout"),
    ],
)
async def test_tests_without_a_reward_are_the_verifiers_failure(
    standing: Any, make_task: Any, tests: str, kind: str
) -> None:
    folder = make_task(**{"tests/test.sh": f"#!/bin/bash\n{tests}\n"})
    toml = (folder / "task.toml").read_text()
    (folder / "task.toml").write_text(toml.replace("timeout_sec = 20.0", "timeout_sec = 2.0"))
    async with standing(HONEST) as stand:
        rollout = await stand.run(folder)
    assert (rollout.outcome, rollout.reward) == ("verifier", None)
    assert rollout.failure is not None
    assert rollout.failure.kind == kind, rollout.failure


async def test_rewards_are_not_clipped_and_have_names(standing: Any, make_task: Any) -> None:
    tests = """#!/bin/bash\necho '{"speed": -3.5, "reward": 2, "whole": true}' > /logs/verifier/reward.json; exit 1"""
    async with standing(HONEST) as stand:
        rollout = await stand.run(make_task(**{"tests/test.sh": tests}))
    async with standing(HONEST, reward_key="speed") as stand:
        chosen = await stand.run(make_task(**{"tests/test.sh": tests}))
    assert (rollout.reward, chosen.reward) == (2.0, -3.5)
    assert rollout.verdict is not None
    assert rollout.verdict.extras["rewards"] == {"speed": -3.5, "reward": 2.0, "whole": 1.0}
    assert rollout.verdict.metrics["reward/speed"] == -3.5


async def test_artifacts_over_the_bound_are_a_verdict(standing: Any, make_task: Any) -> None:
    big = "head -c 3000000 /dev/zero > /app/hello.txt"
    async with standing(big, artifacts_max_mib=1) as stand:
        rollout = await stand.run(make_task())
    assert (rollout.reward, rollout.verdict.reason) == (0.0, "artifacts_too_large")


async def test_a_sandbox_that_ended_for_its_budget_is_a_verdict_in_either_mode(standing: Any, make_task: Any) -> None:
    spend = "head -c 60000000 /dev/zero > /app/x; sleep 20"
    limits = {"limits": {"memory_mib": 512, "disk_mib": 16}, "agent_timeout_s": 60}
    ends = []
    for isolation in ("fresh", "shared"):
        async with standing(HONEST, spend, isolation=isolation, agent=limits) as stand:
            rollout = await stand.run(make_task())
            assert rollout.outcome == "truncated", rollout.failure
            ends.append((rollout.reward, rollout.verdict.reason))
    assert ends == [(1.0, "paid"), (0.0, "sandbox_ended")]


class ParsedHarborServer(HarborServer):
    """Has its tasks graded by what their tests write, as those of Terminal-Bench are."""

    def read_task(self, row: Row) -> HarborTask:
        task = super().read_task(row)
        return HarborTask.model_construct(row=task.row, published=task.published._replace(parser="pytest"))


COMPILES = """#!/bin/bash
[ "$(cat /app/hello.txt 2>/dev/null)" != broken ] && [ -e /app/hello.txt ] || exit 1
echo "== short test summary info =="
[ "$(cat /app/hello.txt)" = hello ] && echo PASSED tests.py::one || echo FAILED tests.py::one
"""


@BOTH
async def test_tests_without_results_are_0_where_the_solution_gives_them_some(
    standing: Any, make_task: Any, isolation: str
) -> None:
    tests = {"tests/test.sh": COMPILES}
    ends = []
    for command in (HONEST, "echo other > hello.txt", "echo broken > hello.txt", "true"):
        async with standing(command, isolation=isolation, server_type=ParsedHarborServer) as stand:
            rollout = await stand.run(make_task(**tests))
            ends.append((rollout.outcome, rollout.reward, rollout.verdict and rollout.verdict.reason))
    empty = ("completed", 0.0, "no_results")
    assert ends == [("completed", 1.0, "paid"), ("completed", 0.0, "unpaid"), empty, empty]
    async with standing("true", isolation=isolation, server_type=ParsedHarborServer) as stand:
        rollout = await stand.run(make_task(**tests, **{"solution/solve.sh": "#!/bin/sh\ntrue\n"}))
    assert (rollout.outcome, rollout.failure.kind) == ("verifier", "no_results")


FILL = "head -c 200000000 /dev/zero > /dev/shm/x"
FULL = {
    "logs": "mkdir /dev/shm/logs; rm -rf /logs; ln -s /dev/shm/logs /logs",
    "tests": "mkdir /dev/shm/tests; rm -rf /tests; ln -s /dev/shm/tests /tests",
    "a workdir": "cd /; mkdir /dev/shm/app; rm -rf /app; ln -s /dev/shm/app /app",
    "a folder for temporary files": "mkdir /dev/shm/tmp; rm -rf /tmp; ln -s /dev/shm/tmp /tmp",
}
NEEDS_ROOM = """#!/bin/bash
set -e
head -c 6000000 /dev/zero > /tmp/x
if [ "$(cat /app/hello.txt 2>/dev/null)" = hello ]; then echo 1 > /logs/verifier/reward.txt
else echo 0 > /logs/verifier/reward.txt; fi
sleep 4
"""
SMALL = {"limits": {"memory_mib": 512, "disk_mib": 16}}


@pytest.mark.slow
@pytest.mark.parametrize("full", FULL)
async def test_a_full_folder_that_an_agent_leaves_is_its_own_doing(standing: Any, make_task: Any, full: str) -> None:
    async with standing(FULL[full], FILL, isolation="shared") as stand:
        rollout = await stand.run(make_task(**{"tests/test.sh": NEEDS_ROOM}))
    assert (rollout.outcome, rollout.reward) == ("completed", 0.0), rollout.failure


@pytest.mark.slow
async def test_a_budget_that_ends_in_the_tests_is_of_whoever_used_it(standing: Any, make_task: Any) -> None:
    waste = "head -c 11000000 /dev/zero > /root/x"
    async with standing(HONEST, waste, isolation="shared", agent=SMALL) as stand:
        wasteful = await stand.run(make_task(**{"tests/test.sh": NEEDS_ROOM}))
    assert (wasteful.outcome, wasteful.reward) == ("completed", 0.0), wasteful.failure
    assert wasteful.verdict.reason == "sandbox_ended"
    greedy = NEEDS_ROOM.replace("6000000", "15000000 /dev/zero > /root/x; head -c 6000000")
    async with standing(HONEST, isolation="shared", agent=SMALL) as stand:
        honest = await stand.run(make_task(**{"tests/test.sh": greedy}))
        frugal = await stand.run(make_task("frugal", **{"tests/test.sh": NEEDS_ROOM}))
    assert (honest.outcome, honest.failure.kind) == ("verifier", "tests_budget")
    assert (frugal.outcome, frugal.reward) == ("completed", 1.0), frugal.failure


async def test_a_stored_rollout_is_judged_again_with_and_without_its_tests(standing: Any, make_task: Any) -> None:
    async with standing(HONEST) as stand:
        rollout = await stand.run(make_task())
        request = VerifyRequest(row=rollout.row, response=rollout.response)
        anew = await stand.peers["harbor"].call(VERIFY, request, Call())
        nothing = {key: value for key, value in rollout.response.items() if key != ARTIFACTS}
        without = await stand.peers["harbor"].call(VERIFY, VerifyRequest(row=rollout.row, response=nothing), Call())
        server = stand.server
    task = server.read_task(rollout.row)  # it has stopped
    again = await server.reverify(task, rollout.row, rollout.response, rollout.verdict)
    assert (anew.reward, without.reward, again.reward) == (1.0, 0.0, 1.0)
    forged = rollout.verdict.model_copy(update={"reward": 7.0})
    assert (await server.reverify(task, rollout.row, rollout.response, forged)).reward == 1.0


async def test_limits_and_variables_are_the_tasks_own(standing: Any, make_task: Any) -> None:
    environment = 'memory_mb = 256\n[environment.env]\nWORD = "${UNSET_HERE:-hello}"'
    async with standing("echo $WORD > hello.txt", "pwd > /logs/artifacts.txt") as stand:
        rollout = await stand.run(make_task(environment=environment))
    async with standing(HONEST) as stand:
        large = await stand.run(make_task("large", environment="memory_mb = 100000"))
    assert rollout.reward == 1.0, rollout.failure
    assert (large.outcome, large.failure.kind) == ("row", "memory_over_limit")


@BOTH
async def test_tar_is_asked_to_give_files_to_the_only_user_there_is(
    standing: Any, make_task: Any, isolation: str
) -> None:
    reward = "[ $TAR_OPTIONS$(cat hello.txt) = --no-same-owner--no-same-owner ]"
    tests = {"tests/test.sh": f"#!/bin/bash\n{reward}; echo $((1 - $?)) > /logs/verifier/reward.txt"}
    async with standing("echo $TAR_OPTIONS > hello.txt", isolation=isolation) as stand:
        rollout = await stand.run(make_task(**tests))
    assert rollout.reward == 1.0, rollout.failure


async def test_time_is_the_tasks_own(standing: Any, make_task: Any) -> None:
    folder = make_task()
    toml = (folder / "task.toml").read_text()
    (folder / "task.toml").write_text(toml.replace("timeout_sec = 60.0", "timeout_sec = 2.0"))
    async with standing(HONEST, "sleep 50") as stand:
        rollout = await stand.run(folder)
    assert (rollout.outcome, rollout.reward) == ("truncated", 1.0)
