"""Claims about an instance's known fix: what is read of its image, and what the line that runs tests leaves out."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from paddock.errors import BugError
from paddock.resources_servers.swe.fix import NO_TESTS, known_fix
from paddock.resources_servers.swe.images import Images, SweImages
from paddock.resources_servers.swe.instance import SweInstance
from paddock.sandbox.images import ImageStore
from paddock.server import ResourcesServer, ServerConfig
from paddock.types import Fix, Row

Make = Callable[..., SweInstance]
HIDDEN = "tests/test_hidden.py"
TREE = {
    "testbed/a.py": b"one\n",
    "testbed/windows.py": b"one\r\n",
    "testbed/latin.py": b"\xe9\n",
    "testbed/tests/test_old.py": b"",
    "opt/venv/bin/activate": b"",
}


def modified(*paths: str, line: str = "one") -> bytes:
    return "".join(
        f"diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n-{line}\n+two\n" for path in paths
    ).encode()


def added(path: str) -> bytes:
    return (
        f"diff --git a/{path} b/{path}\nnew file mode 100644\n--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+x\n".encode()
    )


@pytest.fixture
def store(tmp_path: Path) -> ImageStore:
    """An image `shapes` of two layers; the upper one hides a file of the lower one."""
    store = ImageStore(tmp_path, payload_id=1000)
    store.add("base", lambda tree: write(tree, {**TREE, "testbed/a.py": b"older\n"}))
    store.add("shapes", lambda tree: write(tree, {"testbed/a.py": TREE["testbed/a.py"]}), base="base")
    return store


def write(tree: Path, files: Mapping[str, bytes]) -> None:
    for name, data in files.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_bytes(data)


async def fix_of(store: ImageStore, instance: SweInstance) -> Fix:
    return await known_fix(instance, Images(store, SweImages()), store)


async def test_texts_are_those_of_the_image_and_what_is_no_text_or_not_there_is_left_out(
    store: ImageStore, make: Make
) -> None:
    patch = modified("a.py", "windows.py", "latin.py", "gone.py") + added("new.py")
    fix = await fix_of(store, make(gold_patch=patch))
    assert fix.files == {"a.py": "one\n", "windows.py": "one\r\n"}
    assert (fix.patch, fix.workdir) == (patch, "/testbed")


async def test_a_patch_that_is_none_has_no_texts(store: ImageStore, make: Make) -> None:
    for patch in (b"nonsense", b"\xff"):
        assert (await fix_of(store, make(gold_patch=patch))).files == {}


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("pytest -rA tests/test_hidden.py tests/test_old.py", "pytest -rA tests/test_old.py"),
        ("pytest -rA tests/test_hidden.py::test_new tests/test_old.py", "pytest -rA tests/test_old.py"),
        ("pytest -rA ./tests/test_hidden.py tests/test_old.py::test_a", "pytest -rA tests/test_old.py::test_a"),
        ("./runtests.py -v 2 test_hidden tests.test_old", "./runtests.py -v 2 tests.test_old"),
        ("pytest -rA tests/test_hidden.py", NO_TESTS),
        ("bash /answers/run.sh", NO_TESTS),
        ("pytest -rA", "pytest -rA"),
    ],
)
async def test_the_line_names_no_test_that_the_agent_does_not_have(
    store: ImageStore, make: Make, command: str, shown: str
) -> None:
    files = {HIDDEN: b"", "tests/test_old.py": b"changed"}
    instance = make(gold_patch=modified("a.py"), test_files=files, test_command=command, hidden_paths=["/answers"])
    assert (await fix_of(store, instance)).test_command == shown


@pytest.mark.parametrize(
    ("activate", "shown"),
    [
        ("/opt/venv/bin/activate", ". /opt/venv/bin/activate && pytest tests/test_old.py; echo done"),
        ("/opt/elsewhere/activate", "pytest tests/test_old.py; echo done"),
    ],
)
async def test_of_an_official_script_the_lines_between_the_markers_run_in_its_environment(
    store: ImageStore, make: Make, activate: str, shown: str
) -> None:
    script = f"source {activate}\ngit checkout abc x\n: '>>>>> Start Test Output'\n"
    script += f"pytest tests/test_old.py  {HIDDEN}\necho done\n: '>>>>> End Test Output'\n"
    patch = added(HIDDEN) + modified("tests/test_old.py")
    instance = make(gold_patch=modified("a.py"), test_patch=patch, eval_script=script, test_command=None)
    assert (await fix_of(store, instance)).test_command == shown


async def test_an_environment_that_knows_no_fix_says_so() -> None:
    class BareTree(ResourcesServer[ServerConfig, SweInstance]):
        pass

    with pytest.raises(BugError, match="BareTree knows no fix"):
        await BareTree(ServerConfig(), name="bare", peers={}).fix(None, Row(responses_create_params={}))  # type: ignore[arg-type]
