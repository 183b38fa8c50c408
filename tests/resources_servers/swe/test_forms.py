"""Claims about rows of the other forms, in real sandboxes: each is graded by its own rule, and shows an agent nothing.

The images of `FORMS` are as published ones have been found to be: later commits in the history, and with R2E-Gym's the
tests and the answers in their places. `SEARCH` is an agent that looks everywhere for texts of the answer.
"""

import base64
import hashlib
import itertools
import json
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.sampling import few

from paddock.agents.swe import SweAgent
from paddock.agents.swe.config import SweAgentConfig
from paddock.conformance.scripted import ModelConfig, ScriptedModel
from paddock.errors import VerifierError
from paddock.http import RUN, Call, Peer
from paddock.resources_servers.swe import SweServer
from paddock.sandbox import ExecRequest, SandboxSettings, SandboxSpec
from paddock.sandbox.images import ImageStore
from paddock.testing import over
from paddock.types import JsonObject, Rollout, Row, Stamp
from paddock.types.responses import output_items

pytestmark = [pytest.mark.sandbox, pytest.mark.asyncio(loop_scope="session")]
Open = Callable[..., Any]

BEFORE = "def area(width, height):\n    return width + height\n\n\ndef perimeter(width, height):\n"
BEFORE += "    return 2 * (width + height)\n"
AFTER = BEFORE.replace("width + height\n\n", "width * height\n\n")


def edit(before: str, after: str) -> str:
    """The patch of one changed function body, `before` to `after`."""
    start = 1 if "2 *" not in before else 5
    name = "area" if start == 1 else "perimeter"
    return (
        "diff --git a/shapes/__init__.py b/shapes/__init__.py\n--- a/shapes/__init__.py\n+++ b/shapes/__init__.py\n"
        f"@@ -{start},2 +{start},2 @@\n def {name}(width, height):\n-    return {before}\n+    return {after}\n"
    )


GOLD = edit("width + height", "width * height")
REGRESSING = GOLD + "@@ -5,2 +5,2 @@\n def perimeter(width, height):\n-    return 2 * (width + height)\n+    return 0\n"
MISSING = GOLD + "@@ -5,2 +5,1 @@\n-def perimeter(width, height):\n-    return 2 * (width + height)\n+SIDES = 4\n"
NULL = "diff --git a/NOTES b/NOTES\nnew file mode 100644\n--- /dev/null\n+++ b/NOTES\n@@ -0,0 +1 @@\n+nothing\n"
TEST_FILE = (
    "import shapes\n\n\ndef test_area(sides):\n    assert shapes.area(*sides) == 6\n\n\n"
    "if hasattr(shapes, 'perimeter'):\n    def test_perimeter(sides):\n        assert shapes.perimeter(*sides) == 10\n"
)
TEST_PATCH = "".join(
    [
        "diff --git a/tests/test_new.py b/tests/test_new.py\nnew file mode 100644\n--- /dev/null\n",
        "+++ b/tests/test_new.py\n",
        f"@@ -0,0 +1,{len(TEST_FILE.splitlines())} @@\n",
        *(f"+{line}\n" for line in TEST_FILE.splitlines()),
    ]
)
NEW, OLD = "tests/test_new.py::test_area", "tests/test_new.py::test_perimeter"
CASES = {
    "gold": (GOLD, "resolved"),
    "null": (NULL, "tests_fail"),
    "regression": (REGRESSING, "tests_regress"),
    "missing": (MISSING, "tests_regress"),
    "empty": ("", "no_patch"),
}
READER = """
import json, re, sys
log = open(sys.argv[1]).read()
found = re.findall(r"^(PASSED|FAILED) (\\S+)", log, re.M)
json.dump({"tests": [{"name": name, "status": status} for status, name in found]}, open(sys.argv[3], "w"))
"""


SMALL = {"memory_mib": 2048, "pids": 256, "disk_mib": 16}


class FormRow(NamedTuple):
    """A row of one form."""

    task: JsonObject
    params: JsonObject = {"input": []}
    workdir: str = "/testbed"


def gym(own: JsonObject) -> FormRow:
    lists = {"FAIL_TO_PASS": [NEW], "PASS_TO_PASS": [OLD]}
    row = {"instance_id": "shapes__area-1", "repo": "iterative/dvc", "problem_statement": "x", "patch": GOLD}
    return FormRow({**row, "test_patch": TEST_PATCH, **lists, **own})


def r2e(own: JsonObject) -> FormRow:
    changed = {
        "header": {"file": {"path": "shapes/__init__.py"}},
        "old_file_content": BEFORE,
        "new_file_content": AFTER,
    }
    results = {
        "test_file_names": ["test_1.py"],
        "test_file_codes": [TEST_FILE],
        "old_commit_res_stdout": "= short test summary info =\nPASSED r2e_tests/test_1.py::test_perimeter\n"
        "FAILED r2e_tests/test_1.py::test_area - assert 5 == 6",
    }
    row = {
        "instance_id": "shapes__area-1",
        "repo_name": "shapes",
        "commit_hash": "abc",
        "parsed_commit_content": json.dumps({"file_diffs": [changed]}),
        "execution_result_content": json.dumps(results),
        "expected_output_json": json.dumps({"test_area": "PASSED", "test_perimeter": "PASSED"}),
        "problem_statement": "[ISSUE]x[/ISSUE]",
    }
    return FormRow({**row, **own})


def swe2(own: JsonObject) -> FormRow:
    source = {
        "repo": "pallets/flask",
        "instance_id": "shapes__area-1",
        "patch": GOLD,
        "test_patch": TEST_PATCH,
        "FAIL_TO_PASS": json.dumps([NEW]),
        "PASS_TO_PASS": json.dumps([OLD]),
        "environment_setup_commit": "a" * 40,
    }
    return blend("SWE-bench/SWE-bench_Verified", source, own)


def internal(own: JsonObject, **fields: str) -> FormRow:
    source = {
        "instance_id": "shapes__app-1",
        "before_repo_set_cmd": "git status\nmkdir -p tests && printf '%s' \"$NEW_TESTS\" > tests/test_new.py",
        "instance_dockerfile": "",
        "selected_test_files_to_run": "['tests/test_new.py']",
        "run_script.sh": "pytest -rA ${1//,/ }\n",
        "parsing_script.py": READER,
        "fail_to_pass": [NEW],
        "pass_to_pass": [OLD],
        **fields,
    }
    kept = {"paddock": {**own.get("paddock", {}), "env": {"NEW_TESTS": TEST_FILE}}}
    return blend("nv-internal-1", source, {**own, **kept})._replace(workdir="/app")


def blend(dataset_name: str, source: JsonObject, own: JsonObject) -> FormRow:
    """A row of the SWE2 blend, which holds its source row as text."""
    inside = {**source, **{key: value for key, value in own.items() if key != "paddock"}}
    metadata = {
        "instance_id": source["instance_id"],
        "dataset_name": dataset_name,
        "problem_statement": "x",
        "golden_patch": GOLD,
        "instance_dict": json.dumps(inside),
    }
    return FormRow({"paddock": own["paddock"]} if "paddock" in own else {}, {"input": [], "metadata": metadata})


FORMS = {made.__name__: made for made in (gym, r2e, swe2, internal)}
QUICK = [("r2e", "missing"), *((form, case) for form in FORMS for case in ("gold", "regression", "empty"))]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "case"), few(itertools.product(FORMS, CASES), QUICK, pytest.mark.long))
async def test_a_form_is_graded_by_its_rule(stand: Open, shapes: JsonObject, name: str, case: str) -> None:
    form, (patch, reason) = FORMS[name], CASES[case]
    row = form({"paddock": shapes})
    grade = await stand().grade(row.task, patch, row.params)
    assert (grade.reason, grade.official) == (reason, None), grade


UNREADABLE = GOLD.replace(
    "@@ -1,2 +1,2 @@\n", "@@ -1,2 +1,4 @@\n+import atexit, os\n+atexit.register(lambda: os.write(1, b'\\xff'))\n"
).replace("+    return width * height", "+    return width + height + 0")


@pytest.mark.slow
async def test_a_log_that_the_rows_program_cannot_read_is_the_patchs_doing(stand: Open, shapes: JsonObject) -> None:
    row = internal({"paddock": shapes})
    grade = await stand().grade(row.task, UNREADABLE, row.params)
    assert grade.reason == "tests_fail", grade


@pytest.mark.slow
async def test_a_program_that_reads_no_log_is_never_a_zero(stand: Open, shapes: JsonObject) -> None:
    row = internal({"paddock": shapes}, **{"parsing_script.py": "raise SystemExit('no such column')"})
    with pytest.raises(VerifierError, match="no such column"):
        await stand().grade(row.task, NULL, row.params)


async def test_reference_tests_that_take_more_than_a_sandbox_may_are_never_a_zero(
    stand: Open, shapes: JsonObject
) -> None:
    row = internal({"paddock": shapes}, before_repo_set_cmd="head -c 64M /dev/zero >/tmp/big; sleep 30")
    with pytest.raises(VerifierError, match=r"reference's tests: .* on disk"):
        await stand(limits=SMALL).grade(row.task, GOLD, row.params)


@pytest.mark.long
async def test_a_patch_that_takes_more_than_a_sandbox_may_is_its_own_doing(
    stand: Open, shapes: JsonObject, diff: Callable[..., str]
) -> None:
    row = gym({"paddock": shapes})
    grade = await stand(limits=SMALL).grade(row.task, diff({"zeros": bytes(256 << 20)}), row.params)
    assert grade.reason == "over_budget", grade


LEAVE = """
cd "$1"
git config user.name a; git config user.email a@b
git apply - < /tmp/gold; git apply - < /tmp/tests; git add -A -f; git commit -q -m later
git tag v2; git branch fix; git reset -q --hard HEAD~1
echo changed >> README.md; git stash -q
if [ "$2" = r2e ]; then
    mkdir /root/r2e_tests; cp /tmp/file /root/r2e_tests/test_1.py; cp -r /root/r2e_tests /r2e_tests
    ln -s /root/r2e_tests r2e_tests; ln -s /opt/venv .venv
    for name in expected_test_output parsed_commit execution_result; do cp /tmp/json $name.json; done
    echo "pytest r2e_tests/test_1.py" | tee /run_tests.sh > run_tests.sh
fi
rm /tmp/gold /tmp/tests /tmp/file /tmp/json
"""
HIDDEN = ["width * height", "shapes.area(*sides)", NEW, OLD, "test_1.py", "test_new.py", '{"test_area"', "FAIL_TO_PASS"]
SEARCH = r"""python3 - <<'END'
import base64, json, os, stat, subprocess
hidden = [text.encode() for text in json.loads(base64.b64decode("WANTED"))]
def look(where, data):
    for text in hidden:
        if text in data:
            print("FOUND", where, text.decode())
look("environment", repr(os.environ).encode())
for folder, folders, files in os.walk("/"):
    if folder.startswith("/sys"):
        folders.clear()
    look(folder, "\n".join([folder, *folders, *files]).encode("utf-8", "surrogateescape"))
    for name in files:
        path = os.path.join(folder, name)
        told = folder.count("/") == 2 and name in ("environ", "cmdline", "mountinfo", "maps")
        try:
            if (told or not folder.startswith("/proc")) and stat.S_ISREG(os.stat(path).st_mode):
                look(path, open(path, "rb").read())
        except OSError:
            pass
run = lambda *words: subprocess.run(words, capture_output=True).stdout
look("objects", run("git", "cat-file", "--batch", "--batch-all-objects"))
look("history", run("git", "log", "--all", "--reflog", "-p", "--format=%B%D"))
print("SEARCHED")
END""".replace("WANTED", base64.b64encode(json.dumps(HIDDEN).encode()).decode())
FIX = "sed -i '2s/+/*/' shapes/__init__.py"


async def leaky(provider: Any, workdir: str, kind: str) -> str:
    """The name of the project's image with the answer in it."""
    base = "shapes__app-1" if workdir == "/app" else "shapes__area-1"
    layers = provider.store.get(base).record.layers
    made_of = repr((layers, LEAVE, GOLD, TEST_PATCH, kind)).encode()
    name = f"shapes__leaky-{hashlib.sha256(made_of).hexdigest()[:16]}:latest"
    if not provider.store.has(name):
        handle = await provider.create(SandboxSpec(image=base), request_id=uuid.uuid4().hex)
        texts = {"gold": GOLD, "tests": TEST_PATCH, "file": TEST_FILE, "json": '{"test_area": "PASSED"}'}
        for file, text in texts.items():
            await provider.write(handle.sandbox_id, f"/tmp/{file}", text.encode())
        await inside(provider, handle.sandbox_id, ["bash", "-s", workdir, kind], LEAVE)
        await provider.snapshot(handle.sandbox_id, name)
        await provider.destroy(handle.sandbox_id)
    return name


async def inside(provider: Any, sandbox_id: str, argv: list[str], stdin: str) -> str:
    request = ExecRequest(argv=argv, stdin=stdin.encode(), merge_stderr=True)
    done = await provider.exec(sandbox_id, request, request_id=uuid.uuid4().hex)
    return bytes(done.stdout).decode()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("workdir", "kind"), [("/testbed", "r2e"), pytest.param("/app", "git", marks=pytest.mark.long)]
)
async def test_the_search_finds_what_is_in_an_image(stand: Open, workdir: str, kind: str) -> None:
    provider = stand().provider
    spec = SandboxSpec(image=await leaky(provider, workdir, kind), workdir=workdir)
    handle = await provider.create(spec, request_id=uuid.uuid4().hex)
    said = await inside(provider, handle.sandbox_id, ["sh", "-s"], SEARCH)
    assert "SEARCHED" in said
    places = ["objects", "history"]
    places += ["/root/r2e_tests/test_1.py", "/testbed/parsed_commit.json", "/run_tests.sh"] if kind == "r2e" else []
    assert [place for place in places if f"FOUND {place} " not in said] == []


@pytest.mark.slow
@pytest.mark.parametrize("form", [r2e, *(pytest.param(form, marks=pytest.mark.long) for form in (gym, swe2, internal))])
async def test_an_agent_finds_nothing_of_the_answer_and_is_paid_for_a_fix(
    stand: Open, images: ImageStore, form: Callable[[JsonObject], FormRow], tmp_path: Path
) -> None:
    kind = "r2e" if form is r2e else "git"
    image = await leaky(stand().provider, form({}).workdir, kind)
    rollout = await live(form({"docker_image" if form is r2e else "image": image}), images.home, tmp_path)
    assert (rollout.outcome, rollout.reward) == ("completed", 1.0), (rollout.verdict, rollout.failure)
    said = output_items(rollout.response)[1]["output"]
    assert json.loads(said)["output"] == "SEARCHED\n"
    told = json.dumps(_trajectory(tmp_path)["task"])
    assert [text for text in HIDDEN if json.dumps(text)[1:-1] in told] == []
    assert "problem" in told


def _trajectory(folder: Path) -> JsonObject:
    told: JsonObject = json.loads(next(folder.glob("run/0-0-0*/traj.json")).read_text())
    return told


async def live(form: FormRow, home: Path, artifacts: Path) -> Rollout:
    """A rollout of an agent that searches, and then fixes what is wrong."""
    sandbox = SandboxSettings(home=home)
    peers: dict[str, Peer] = {}
    world = SweServer(SweServer.config_type(sandbox=sandbox), name="world", peers=peers)
    policy = ScriptedModel(ModelConfig(), name="policy", peers=peers)
    config = SweAgentConfig.model_validate(
        {
            "resources_server": {"type": "resources_servers", "name": "world"},
            "model_server": {"type": "models_servers", "name": "policy"},
            "harness": "script",
            "harness_config": {"commands": [SEARCH, FIX]},
            "sandbox": sandbox,
            "limits": {"memory_mib": 512},
            "artifacts_dir": artifacts,
            "blocklist": {"enabled": False},  # advice to honest models; isolation is what must hold
        }
    )
    agent = SweAgent(config, name="agent", peers=peers)
    stamp = Stamp(run_id="run", group_id=0, group_size=1, member=0, attempt=0)
    async with over("direct", world, policy, agent) as found:
        row = Row(responses_create_params=form.params, stamp=stamp, task=form.task)
        return await found["agent"].call(RUN, row, Call())
