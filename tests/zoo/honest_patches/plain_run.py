"""A patch's tests run plainly, as its author would: whether it is really right, whatever a grader says of it.

Run     the patch by `git apply` or `patch`, the reference's tests in their places, what the row's script installs, the
        row's command: once, with nothing of a grader's among its tests.
Right   swebench's own functions find the output resolved. The command itself may fail: some rows have tests that do so
        with the reference fix, and list none of them.
"""

from paddock.resources_servers.swe.grading.patches import sections
from paddock.resources_servers.swe.grading.run_results import GradingRun, official_view
from paddock.resources_servers.swe.grading.sandbox import GradingSandbox, open_grading_sandbox
from paddock.resources_servers.swe.grading.script import read_script
from paddock.resources_servers.swe.instance import SweInstance
from paddock.sandbox import Provider, SandboxLimits

LIMITS = SandboxLimits(memory_mib=2048, pids=512, disk_mib=1024)
APPLY = "git apply /tmp/patch || { git reset -q --hard && patch --batch --forward --fuzz=5 -p1 < /tmp/patch; }"
TAIL = 1500
"""Characters of an output that are shown."""


async def complaint(provider: Provider, instance: SweInstance, patch: bytes, *, timeout_s: float) -> str | None:
    """Why a patch is not right; None: it is."""
    async with open_grading_sandbox(provider, instance, instance.image, LIMITS) as bench:
        await bench.write("/tmp/patch", patch if patch.endswith(b"\n") else patch + b"\n")
        done = await bench.run(("bash", "-c", APPLY))
        if not done.ok:
            return f"it does not apply: {bytes(done.stdout).decode(errors='replace')[-TAIL:]}"
        await _place(bench, instance)
        script = read_script(instance)
        if script.install is not None:
            await bench.run(("bash", "-c", script.install), timeout_s=timeout_s)
        done = await bench.run(("bash", "-c", script.test_program()), timeout_s=timeout_s)
        output = bytes(done.stdout).decode(errors="replace")
        status = official_view(instance, GradingRun(output, done.exit_code))
        if status == "RESOLVED_FULL":
            return None
        return f"{status}, exit status {done.exit_code}: {output[-TAIL:]}"


async def _place(bench: GradingSandbox, instance: SweInstance) -> None:
    for path in tests_of(instance):
        await bench.run(("rm", "-rf", "--", path))
        await bench.run(("git", "checkout", "-q", "HEAD", "--", path))
    if instance.test_patch:
        await bench.must(("git", "apply", "-"), "the reference's tests", stdin=instance.test_patch)
    for path, data in instance.test_files.items():
        await bench.write(bench.below(path), data)


def tests_of(instance: SweInstance) -> frozenset[str]:
    """Paths of the reference's tests."""
    return frozenset((*(part.path for part in sections(instance.test_patch)), *instance.test_files))
