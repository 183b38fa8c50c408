"""Claims about the comparator `executed`, in real sandboxes of a small repository."""

import json
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import pytest_asyncio

from paddock.errors import RowError
from paddock.http import VERIFY, Call, VerifyRequest, read_row
from paddock.resources_servers.pivot import PivotServer
from paddock.resources_servers.pivot.server import PivotConfig
from paddock.testing import over
from paddock.testing.sandboxes import WORKDIR, repository_image, sandbox_home, store_of
from paddock.types import Verdict
from paddock.types.responses import call_item, make_response

CODE = "import sys\n\n\ndef add(a, b):\n    return a - b\n\n\ndef main():\n    print(add(1, 2))\n"
UUID = "cat /proc/sys/kernel/random/uuid"
TIMES = 'for i in 1 2 3 4 5 6 7 8; do echo "(0.00$((RANDOM % 4))) step $i"; done'
UNITTEST = "import unittest\n\n\nclass T(unittest.TestCase):\n    def test_a(self):\n        self.assertEqual(1, 2)\n"
FILES = {
    "src/sums.py": CODE,
    "README.md": "# Sums\n",
    "naive.txt": "na\u00efve\n",
    "tests/__init__.py": "",
    "tests/test_sums.py": UNITTEST,
    "src/other.py": "def add_all():\n    pass\n\n\nNAMES = [\n" + 30 * "    'x',\n" + "]\n",
}
ShortCall = tuple[str, dict[str, Any]]
Judge = Callable[..., Awaitable[Verdict]]
pytestmark = [pytest.mark.sandbox, pytest.mark.skipif(not shutil.which("busybox"), reason="no busybox here")]


def sh(command: str) -> ShortCall:
    return "bash", {"command": command}


def replace(old: str, new: str, path: str = f"{WORKDIR}/src/sums.py") -> ShortCall:
    return "str_replace_editor", {"command": "str_replace", "path": path, "old_str": old, "new_str": new}


FIX = replace("return a - b", "return a + b")
TESTS = sh("python3 -m unittest tests.test_sums")
SCRIPT = "from src.sums import add\nprint('starts')\nprint('sum is', add(40, 3))\n"
WRITE = f"cat > probe.py <<'E'\n{SCRIPT}E\n"
WRITE_AND_RUN = sh(f"{WRITE}python3 probe.py")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def judge() -> AsyncIterator[Judge]:
    with sandbox_home() as home:
        image = repository_image(store_of(home), "sums", FILES)
        sandbox = {"home": str(home)}
        executed = {"sandbox": sandbox, "timeout_s": 5.0}
        config = PivotConfig.model_validate({"comparator": "executed", "executed": executed})
        server = PivotServer(config, name="pivot", peers={})
        async with over("direct", server) as peers:

            async def ask(expected: ShortCall, *given: ShortCall, **more: Any) -> Verdict:
                action = {"type": "function_call", "name": expected[0], "arguments": json.dumps(expected[1])}
                task = {"expected_action": action, "snapshot": {"image": image, "workdir": WORKDIR}, **more}
                row = read_row({"responses_create_params": {"input": "x"}, **task})
                output = [call_item(name, json.dumps(arguments)) for name, arguments in given]
                return await peers["pivot"].call(
                    VERIFY, VerifyRequest(row=row, response=make_response(output, {}, model="m")), Call()
                )

            yield ask


@pytest.mark.parametrize(
    ("expected", "given"),
    [
        (FIX, [sh("sed -i 's/a - b/a + b/' src/sums.py")]),
        (FIX, [sh("cd src && perl -v >/dev/null 2>&1; sed -i '5s/-/+/' sums.py")]),
        (FIX, [sh("cat src/sums.py"), FIX]),
        (sh("cat src/sums.py"), [("read_file", {"file_path": f"{WORKDIR}/src/sums.py"})]),
        (sh("grep -rn 'def add' src"), [sh("cd src && grep -n 'def add' ./sums.py other.py")]),
        (sh("ls -la src"), [sh("cd src && ls -1p")]),
        (sh("ls -la"), [sh("find . -maxdepth 1")]),
        (sh("ls src"), [sh("find src -maxdepth 1")]),
        (sh("ls -F"), [sh("ls")]),
        (sh("ls"), [sh(f"cd {WORKDIR} && ls")]),
        (sh("ls"), [sh(f"true /wsrc/ /asrc && ls {WORKDIR}")]),
        (sh("grep -rn 'def add' src/sums.py src/sums.py"), [sh("grep -rn 'def add' src")]),
        (sh("find src -maxdepth 1"), [sh("ls -1a src")]),
        (sh("cat naive.txt"), [sh("python3 -c \"print(open('naive.txt').read())\"")]),
        (sh("ls -R src"), [sh(f"ls -R {WORKDIR}/src/")]),
        (sh("grep 'def add' src/sums.py"), [sh("git grep -n 'def add' -- src/sums.py")]),
        (sh("git grep -n 'def add' -- src/sums.py"), [sh("grep 'def add' src/sums.py")]),
        (sh("find src -name '*.py'"), [sh("find ./src -name '*.py'")]),
        (sh("ls -l src/sums.py"), [sh(f"ls {WORKDIR}/src/sums.py")]),
        (sh("mkdir -p out && chmod 700 out"), [sh("mkdir -m 700 out")]),
        (TESTS, [sh("python3 -m unittest tests.test_sums.T -v 2>&1 | tail -20")]),
        (WRITE_AND_RUN, [sh(f"tee probe.py <<'E'\n{SCRIPT}E\npython3 -u ./probe.py")]),
        (
            WRITE_AND_RUN,
            [sh(f"python3 - <<'E'\nopen('probe.py', 'w').write({SCRIPT!r})\nE\npython3 probe.py")],
        ),
        (
            WRITE_AND_RUN,
            [("write_file", {"file_path": f"{WORKDIR}/probe.py", "content": SCRIPT}), sh("python3 probe.py")],
        ),
        (sh(f"{WRITE}python3 probe.py; {UUID}"), [sh(f"{WRITE}python3 probe.py")]),
        (sh(f"{WRITE}python3 probe.py; {TIMES}"), [sh(f"{WRITE}python3 probe.py; {TIMES}")]),
        (sh(f"{WRITE}no_such_program"), [sh(WRITE)]),
        (sh("sed -i 's/a - b/a + b/' src/sums.py && echo done"), [FIX]),
        (sh("sed -i 's/a - b/a + b/' src/sums.py && git diff"), [FIX, sh("git diff")]),
        (sh("git rm -r src"), [sh("git rm -q -r src")]),
        (sh(f"touch x; {TESTS[1]['command']}"), [sh(f"touch x && {TESTS[1]['command']} -v")]),
        (sh("rm README.md"), [sh("git rm -q README.md; git reset -q")]),
        (sh("git add -A; git commit -qm x --allow-empty"), [sh("git commit -q --allow-empty --message=x")]),
    ],
)
@pytest.mark.asyncio(loop_scope="module")
async def test_what_leaves_and_shows_the_same_is_the_same(
    judge: Judge, expected: ShortCall, given: list[ShortCall]
) -> None:
    verdict = await judge(expected, *given)
    assert (verdict.reward, verdict.reason, verdict.extras["judged_by"]) == (1.0, "match", "executed"), verdict.detail


@pytest.mark.parametrize(
    ("expected", "given", "reason"),
    [
        (FIX, [FIX, replace("return a + b", "return a - b")], "files_differ"),
        (FIX, [FIX, sh("rm README.md")], "files_differ"),
        (FIX, [sh("sed -i 's/a - b/b + a/' src/sums.py")], "files_differ"),
        (FIX, [replace("no such text", "x")], "action_failed"),
        (sh("cat src/sums.py"), [sh("cat src/other.py")], "output_differs"),
        (sh("cat README.md"), [sh("cat src/*.py README.md")], "output_differs"),
        (sh("ls -la src"), [sh("ls -la .")], "output_differs"),
        (sh("ls src"), [sh("find tests -maxdepth 1")], "output_differs"),
        (sh("ls src"), [sh("find . -maxdepth 1")], "output_differs"),
        (sh("ls README.md"), [sh("ls README.md/")], "output_differs"),
        (sh("git grep -n def -- src/sums.py"), [sh("git grep -n def -- src/other.py")], "output_differs"),
        (sh("find src -name '*.py'"), [sh("find . -name 'R*'")], "output_differs"),
        (sh("cat README.md"), [sh("cat README.md; touch x")], "files_differ"),
        (sh("chmod 700 README.md"), [sh("chmod 755 README.md")], "files_differ"),
        (sh("ln -s a x"), [sh("ln -s b x")], "files_differ"),
        (sh("git commit -qm x --allow-empty"), [sh("git commit -qm y --allow-empty")], "files_differ"),
        (sh("cat README.md"), [sh("sleep 100")], "action_failed"),
        (sh("cat README.md"), [sh("sleep 3"), sh("sleep 3"), sh("cat README.md")], "action_failed"),
        (sh("cat README.md"), [sh("echo '# Sums'")], "output_differs"),
        (sh("ls"), [sh("echo README.md naive.txt src tests | tr ' ' '\\n'")], "output_differs"),
        (WRITE_AND_RUN, [sh(WRITE)], "output_differs"),
        (WRITE_AND_RUN, [sh(f"{WRITE}echo starts; echo sum is 37")], "output_differs"),
        (WRITE_AND_RUN, [sh(f"{WRITE}cat <<'X'\nstarts\nsum is 43\nX")], "output_differs"),
        (WRITE_AND_RUN, [sh(f"{WRITE}cat <<< starts; cat <<< 'sum is 43'")], "output_differs"),
        (WRITE_AND_RUN, [sh(f"{WRITE}python3 -c \"print('starts'); print('sum is 43')\"")], "output_differs"),
        (sh(f"{WRITE}python3 probe.py | head -1"), [sh(f"{WRITE}echo starts")], "output_differs"),
        (WRITE_AND_RUN, [sh(f"{WRITE}python3 probe.py; cat src/other.py")], "output_differs"),
        (sh("sed -i 's/a - b/a + b/' src/sums.py && git diff"), [FIX], "output_differs"),
        (sh(f"{WRITE}python3 probe.py; {TIMES}"), [sh(f"{WRITE}{TIMES}")], "output_differs"),
        (sh(f"touch x; {TESTS[1]['command']}"), [sh("touch x")], "output_differs"),
        (sh(f"touch x; {TESTS[1]['command']}"), [sh("touch x; echo '1 failed in 0.01s'")], "output_differs"),
        (TESTS, [sh("echo '1 failed, 2 passed in 0.01s'")], "output_differs"),
        (TESTS, [sh("python3 -m unittest tests.test_none")], "output_differs"),
    ],
)
@pytest.mark.asyncio(loop_scope="module")
async def test_what_leaves_or_shows_something_else_is_not(
    judge: Judge, expected: ShortCall, given: list[ShortCall], reason: str
) -> None:
    verdict = await judge(expected, *given)
    assert (verdict.reward, verdict.reason) == (0.0, reason), verdict.detail


@pytest.mark.asyncio(loop_scope="module")
async def test_further_looks_beside_the_right_one_share_its_reward(judge: Judge) -> None:
    assert (await judge(sh("cat README.md"), sh("cat README.md"), sh("true"))).reward == 0.5


@pytest.mark.asyncio(loop_scope="module")
async def test_what_shows_and_changes_nothing_is_judged_by_its_text(judge: Judge) -> None:
    same = await judge(sh("cd src"), sh("cd ./src"))
    other = await judge(sh("cd src"), sh("true"))
    assert (same.reward, same.extras["judged_by"]) == (1.0, "semantic")
    assert (other.reward, other.extras["judged_by"]) == (0.0, "semantic")


@pytest.mark.asyncio(loop_scope="module")
async def test_an_experts_look_that_fails_makes_no_other_failure_right(judge: Judge) -> None:
    for expected, given in [("rg -n add", "rg -n xyz"), ("cat no_such_file", "cat none_such; true")]:
        verdict = await judge(sh(expected), sh(given))
        assert (verdict.reward, verdict.extras["judged_by"]) == (0.0, "semantic")


@pytest.mark.slow
@pytest.mark.asyncio(loop_scope="module")
async def test_what_comes_out_otherwise_each_time_is_judged_by_its_text(judge: Judge) -> None:
    for command in (f"{UUID} > now.txt", UUID):
        verdict = await judge(sh(command), sh(f"{command} || true"))
        assert (verdict.reward, verdict.extras["judged_by"]) == (1.0, "semantic")
        assert (await judge(sh(command), sh("echo 1 > now.txt"))).reward == 0.0


@pytest.mark.asyncio(loop_scope="module")
async def test_more_calls_than_are_judged_are_not_run(judge: Judge) -> None:
    verdict = await judge(FIX, *[sh("sleep 4")] * 65)
    assert (verdict.reward, verdict.reason) == (0.0, "too_many_calls")


@pytest.mark.asyncio(loop_scope="module")
async def test_a_row_without_a_step_or_whose_expert_fails_is_dropped(judge: Judge) -> None:
    with pytest.raises(RowError, match="snapshot: missing"):
        await judge(FIX, FIX, snapshot=None)
    with pytest.raises(RowError, match=r"snapshot: .*workdir"):
        await judge(FIX, FIX, snapshot={"image": "sums"})
    with pytest.raises(RowError, match="does not run from its snapshot"):
        await judge(replace("no such text", "x"), FIX)
