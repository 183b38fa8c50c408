"""Claims about the tools in a real sandbox: the editor's files are the shell's, and failures of files are texts."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from paddock.harness import RunLimits, SandboxWorkspace, Step, Task
from paddock.harness.native import NativeSettings
from paddock.harnesses.codeact import CodeActHarness
from paddock.http import SCRIPT, Call, ReplayScript, new_secret
from paddock.models_servers.replay import ReplayServer
from paddock.models_servers.replay.config import ReplayConfig
from paddock.sandbox import Provider, SandboxGone
from paddock.server.rollout_model import RolloutModel
from paddock.testing import over
from paddock.types import Fix

pytestmark = pytest.mark.sandbox
Tools = Callable[..., Awaitable[Callable[..., Awaitable[str]]]]
Open = Callable[..., Awaitable[SandboxWorkspace]]
HERE = "/testbed"


@pytest.fixture
async def peer() -> AsyncIterator[Any]:
    async with over("direct", ReplayServer(ReplayConfig(), name="model", peers={})) as peers:
        yield peers["model"]


@pytest.mark.slow
async def test_editor_and_shell_see_the_same_files(open_tools: Tools) -> None:
    call = await open_tools()
    await call("str_replace_editor", command="create", path=f"{HERE}/c.sh", file_text="echo one\n")
    await call("execute_bash", command="chmod +x c.sh && echo 'echo two' >> c.sh")
    edited = await call("str_replace_editor", command="str_replace", path=f"{HERE}/c.sh", old_str="one", new_str="1")
    assert f"a snippet of {HERE}/c.sh:\n     1\techo 1\n     2\techo two\nReview" in edited
    assert (await call("execute_bash", command="./c.sh")).startswith("1\ntwo\n")


@pytest.mark.slow
async def test_a_new_text_may_be_left_out_in_the_earlier_program_only(open_tools: Tools) -> None:
    arguments = {"command": "str_replace", "path": f"{HERE}/a.txt", "old_str": "two\n"}
    assert "has been edited" in await (await open_tools())("str_replace_editor", **arguments)
    later = await open_tools("openhands_1_58")
    said = await later("file_editor", **arguments, security_risk="LOW", summary="Remove a line")
    assert said == "[An error occurred during execution.]\nParameter `new_str` is required for command: str_replace."


async def test_a_folder_is_listed_from_inside(open_tools: Tools) -> None:
    call = await open_tools()
    await call("execute_bash", command="ln -s src link; ln -s nowhere broken")
    said = await call("str_replace_editor", command="view", path=HERE)
    head = f"Here's the files and directories up to 2 levels deep in {HERE}, excluding hidden items:\n"
    names = ["/", "/a.txt", "/broken", "/link/", "/link/b.py", "/src/", "/src/b.py"]
    hidden = "\n\n1 hidden files/directories in this directory are excluded. You can use 'ls -la /testbed' to see them."
    assert said == head + "\n".join(HERE + name for name in names) + hidden


@pytest.mark.parametrize(
    ("prepare", "path", "said"),
    [
        ("true", "no.txt", "Invalid `path` parameter: /testbed/no.txt. The path /testbed/no.txt does not exist."),
        ("true", "a.txt/x", "Invalid `path` parameter: /testbed/a.txt/x. The path /testbed/a.txt/x does not exist."),
        ("mkfifo pipe", "pipe", "Ran into [Errno 22] Invalid argument: '/testbed/pipe' while trying to read"),
        ("ln -s loop loop", "loop", "Ran into [Errno 40] Too many levels of symbolic links: '/testbed/loop'"),
        ("true", "x" * 300, "Ran into [Errno 36] File name too long: "),
    ],
)
async def test_a_file_that_cannot_be_read_is_a_text(open_tools: Tools, prepare: str, path: str, said: str) -> None:
    call = await open_tools()
    await call("execute_bash", command=prepare)
    assert (await call("str_replace_editor", command="view", path=f"{HERE}/{path}")).startswith(f"ERROR:\n{said}")


async def test_a_binary_file_is_not_shown(open_tools: Tools) -> None:
    call = await open_tools()
    await call("execute_bash", command="printf '\\377\\000\\001' > bin")
    shown = await call("str_replace_editor", command="view", path=f"{HERE}/bin")
    assert shown == "ERROR_BINARY_FILE\n[Error occurred in processing last action]"
    edited = await call("str_replace_editor", command="insert", path=f"{HERE}/bin", insert_line=0, new_str="x")
    assert edited.startswith("ERROR:\nFile validation failed for /testbed/bin: File appears to be binary")


async def test_a_sandbox_that_is_gone_is_raised_and_is_no_text(
    open_tools: Tools, open_workspace: Open, provider: Provider
) -> None:
    call = await open_tools(workspace=await open_workspace())
    for handle in provider.live():
        await provider.destroy(handle.sandbox_id)
    with pytest.raises(SandboxGone):
        await call("str_replace_editor", command="view", path=f"{HERE}/a.txt")
    with pytest.raises(SandboxGone):
        await call("execute_bash", command="ls")


@pytest.mark.parametrize("profile", ["default", "minimal", "openhands_1_58"])
async def test_a_whole_run_of_the_oracle_makes_the_fix(peer: Any, open_workspace: Open, profile: str) -> None:
    patch = b"diff --git a/src/b.py b/src/b.py\n--- a/src/b.py\n+++ b/src/b.py\n@@ -1 +1,2 @@\n-x = 1\n+x = 2\n+y = 3\n"
    fix = Fix(patch=patch, workdir=HERE, files={"src/b.py": "x = 1\n"}, test_command="grep -c = src/b.py")
    harness = CodeActHarness(NativeSettings(profile=profile))
    space, secret, steps = await open_workspace(), new_secret(), list[Step]()
    await peer.call(SCRIPT, ReplayScript(turns=harness.oracle(fix)), Call(), secret=secret)
    model = RolloutModel(peer, Call(), secret=secret, name="model")
    left = await harness.run(Task(prompt="Go."), space, model, RunLimits(), steps.append)
    assert (left.ended, left.malformed) == ("finished", {})
    assert left.turns == len(steps) == 5
    assert (await space.read("src/b.py")) == b"x = 2\ny = 3\n"
    assert steps[-2].output[-1]["output"].startswith("2\n")
