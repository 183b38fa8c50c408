"""The official procedure, step by step, on the same image: for comparison, never for a reward.

Steps   the whole patch by the official chain; the row's script as it is, or as `rows.scripts` made it, with its test
        patch, its markers and the exit status that swebench adds; its functions over the whole log.
Rows    with an official script, of their own or made by the official tables. swebench has no procedure for the own
        format, R2E-Gym and nv-internal-1: `official` says nothing of these.
Differs from the published set-up in what cannot be had here: no network, the image's own commit as the base.
"""

import re

from paddock.resources_servers.swe import official, swebench_logs
from paddock.resources_servers.swe.grading.apply import apply
from paddock.resources_servers.swe.grading.log_process import TooSlowError, run_in_process
from paddock.resources_servers.swe.grading.run_results import expected_of
from paddock.resources_servers.swe.grading.sandbox import GradingSandbox
from paddock.resources_servers.swe.instance import SweInstance
from paddock.resources_servers.swe.swebench_logs import ExpectedTests
from paddock.sandbox import BudgetExceeded

SCRIPT = "/tmp/eval.sh"  # noqa: S108 - inside the sandbox
_COMMIT = re.compile(r"^(git .*?)\b[0-9a-f]{40}\b", re.MULTILINE)


def has_procedure(instance: SweInstance) -> bool:
    """Say whether the row has an official procedure."""
    script = instance.eval_script
    return script is not None and "git apply" in script and instance.rule == "lists"


async def run_official(
    sandbox: GradingSandbox, instance: SweInstance, patch: bytes, *, timeout_s: float, log_cpu_s: float
) -> str:
    """Run the official procedure: RESOLVED_FULL, RESOLVED_PARTIAL, RESOLVED_NO, NOT_FOUND; or ERROR for a patch that
    does not apply, or used up its time or its sandbox."""
    try:
        if await apply(sandbox, patch) is not None:
            return "ERROR"
        await sandbox.write(SCRIPT, whole_script(instance.eval_script or "").encode("utf-8", "surrogateescape"))
        done = await sandbox.run(("bash", SCRIPT), timeout_s=timeout_s)
    except BudgetExceeded:
        return "ERROR"
    if done.killed_by is not None:
        return "ERROR"
    expected = expected_of(instance)
    return await official_status(expected, bytes(done.stdout).decode(errors="replace"), cpu_s=log_cpu_s)


async def official_status(expected: ExpectedTests, log: str, *, cpu_s: float) -> str:
    """Return what the official functions say of a whole log; ERROR: they would take too long."""
    try:
        status, counts = await run_in_process(swebench_logs.status_map, expected, log, chars=len(log), cpu_s=cpu_s)
    except TooSlowError:
        return "ERROR"
    return official.judge(expected, status).status if counts else "NOT_FOUND"


def whole_script(script: str) -> str:
    """Return the row's script on this image's commit, with the lines that record the exit status."""
    lines = _COMMIT.sub(r"\1HEAD", script).split("\n")
    end = next((index for index, line in enumerate(lines) if official.END in line), len(lines))
    recorded = ["SWEBENCH_TEST_EXIT_CODE=$?", *lines[end : end + 1]]
    shown = [f'echo "{official.EXIT_CODE}: $SWEBENCH_TEST_EXIT_CODE"']
    return "\n".join([*lines[:end], *recorded, *shown, *lines[end + 1 :]])
