"""Claims about reading tasks: both published forms, what is refused by name, rewards, parsers, rows and registries."""

import base64
import io
import json
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest

from paddock.errors import ConfigError, RowError, VerifierError
from paddock.resources_servers.harbor import make_rows
from paddock.resources_servers.harbor.folders import find_folder, read_folder
from paddock.resources_servers.harbor.parsers import solved
from paddock.resources_servers.harbor.registry import registry_folders
from paddock.resources_servers.harbor.rewards import RewardFile, read_rewards, single_reward

REPOSITORY = Path(__file__).parents[3]
PLAIN = '[environment]\ndocker_image = "a"\n'
COMPOSE = """services:
  client:
    build: {dockerfile: Dockerfile}
    command: [sleep, infinity]
    environment: ["TEST_DIR=${T_BENCH_TEST_DIR}", "A=b"]
    volumes:
      - ${T_BENCH_TASK_LOGS_PATH}:${T_BENCH_CONTAINER_LOGS_PATH}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Any:
    """Writes the files of a task's folder."""

    def write(**files: str) -> Path:
        for name, text in files.items():
            path = tmp_path / "task" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return tmp_path / "task"

    return write


def harbor(folder: Any, toml: str, **files: str) -> Path:
    made: Path = folder(**{"task.toml": toml, "instruction.md": "Do it.", "tests/test.sh": "exit 0", **files})
    return made


def test_the_smallest_task_has_harbors_defaults(folder: Any) -> None:
    task = read_folder(harbor(folder, PLAIN))
    assert (task.name, task.instruction, task.image.name, task.network) == ("task", "Do it.", "a", "public")
    assert (task.agent_timeout_s, task.tests_timeout_s, task.memory_mib, task.separate) == (None, 600.0, None, False)
    assert task.solution is None


def test_older_names_are_read_and_unknown_keys_named(folder: Any) -> None:
    toml = (
        'version = "1.0"\nfoo = 1\n[environment]\ndocker_image = "a"\nmemory = "2G"\nallow_internet = false\nbar = 2\n'
    )
    task = read_folder(harbor(folder, toml))
    assert (task.memory_mib, task.network, task.unknown_keys) == (2048, "none", ["environment.bar", "foo"])


def test_a_verifier_with_an_environment_is_separate(folder: Any) -> None:
    toml = PLAIN + '[verifier]\nenvironment_mode = "separate"\n'
    assert read_folder(harbor(folder, toml)).separate
    task = read_folder(harbor(folder, PLAIN + '[verifier.environment]\ndocker_image = "judge"\n'))
    assert task.separate
    assert (task.verifier_image.name if task.verifier_image else None, task.tests) == ("judge", [])
    built = read_folder(harbor(folder, toml, **{"tests/Dockerfile": "FROM a"}))
    assert built.verifier_image is not None
    assert (built.verifier_image.context, built.tests) == (built.image.context or built.verifier_image.context, [])


@pytest.mark.parametrize(
    ("toml", "files", "why"),
    [
        ('[[steps]]\nname = "one"\n' + PLAIN, {}, "several steps"),
        (PLAIN, {"environment/docker-compose.yaml": "services: {}"}, "several containers"),
        (PLAIN + 'network_mode = "allowlist"\nallowed_hosts = ["a.com"]', {}, "allowlist"),
        (PLAIN + "gpus = 1", {}, "gpus"),
        (PLAIN + 'os = "Windows"', {}, "Linux"),
        (PLAIN + '[[environment.mcp_servers]]\nname = "x"\nurl = "http://x"', {}, "mcp_servers"),
        (PLAIN + '[environment.healthcheck]\ncommand = "true"', {}, "healthcheck"),
        (PLAIN + '[agent]\nuser = "dev"', {}, "root"),
        (PLAIN + '[[verifier.collect]]\ncommand = "true"', {}, "collect"),
        (PLAIN + '[environment.env]\nKEY = "${OPENAI_API_KEY}"', {}, "variable of the host"),
        ('artifacts = [{source = "/a", service = "db"}]\n' + PLAIN, {}, "service 'db'"),
        ("[environment]\n", {}, "docker_image"),
    ],
)
def test_what_can_not_be_run_is_refused_by_name(folder: Any, toml: str, files: dict[str, str], why: str) -> None:
    with pytest.raises(RowError, match=why) as caught:
        read_folder(harbor(folder, toml, **files))
    assert caught.value.kind == "harbor_refused"


@pytest.mark.parametrize(
    "toml",
    [
        "[environment",
        PLAIN + "cpus = 'x'",
        PLAIN + "memory = '2X'",
        PLAIN + "memory = 'infG'",
        PLAIN + "memory_mb = -5",
        PLAIN + "[agent]\ntimeout_sec = inf",
    ],
)
def test_a_file_that_is_wrong_is_the_rows_fault(folder: Any, toml: str) -> None:
    with pytest.raises(RowError) as caught:
        read_folder(harbor(folder, toml))
    assert caught.value.kind == "harbor_invalid"


def test_a_link_out_of_the_folder_is_refused(folder: Any) -> None:
    made = harbor(folder, PLAIN)
    (made / "tests/secret").symlink_to("/etc/passwd")
    with pytest.raises(RowError, match="out of the task"):
        read_folder(made)


@pytest.mark.parametrize("part", ["instruction.md", "tests", "environment", "solution"])
def test_no_part_of_a_task_is_read_from_elsewhere(folder: Any, tmp_path: Path, part: str) -> None:
    made = harbor(folder, PLAIN)
    other = tmp_path / "other"
    other.mkdir()
    (other / "test.sh").write_text("secret")
    shutil.rmtree(made / part, ignore_errors=True)
    (made / part).unlink(missing_ok=True)
    (made / part).symlink_to(other / "test.sh" if part == "instruction.md" else other)
    with pytest.raises(RowError, match=f"{part}: a link that leads out of the task"):
        read_folder(made)


@pytest.mark.parametrize("part", ["run-tests.sh", "solution.sh"])
def test_no_script_of_the_older_form_is_read_from_elsewhere(folder: Any, tmp_path: Path, part: str) -> None:
    made = old(folder)
    (tmp_path / "secret").write_text("secret")
    (made / part).unlink()
    (made / part).symlink_to(tmp_path / "secret")
    with pytest.raises(RowError, match=f"{part}: a link that leads out of the task"):
        read_folder(made)


def old(folder: Any, yaml: str = "instruction: Do it.\ndifficulty: easy\n", **files: str) -> Path:
    contents = {"docker-compose.yaml": COMPOSE, "run-tests.sh": "pytest", "tests/test_outputs.py": "", "Dockerfile": ""}
    made: Path = folder(**{"task.yaml": yaml, **contents, "solution.sh": "true", **files})
    return made


def test_the_older_form_is_read(folder: Any) -> None:
    task = read_folder(old(folder))
    assert (task.instruction, task.parser, task.agent_timeout_s, task.tests_timeout_s) == (
        "Do it.",
        "pytest",
        360.0,
        60.0,
    )
    assert task.env == {"TEST_DIR": "/tests", "A": "b"}
    assert {file.path for file in task.tests} == {"/tests/run-tests.sh", "/tests/test_outputs.py"}
    assert task.solution is not None
    assert task.solution.argv == ["bash", "/oracle/solution.sh"]


@pytest.mark.parametrize("services", ["{a: null}", "[a]", "{a: [1]}", "{a: {working_dir: 5}}", "{a: {environment: 5}}"])
def test_a_compose_file_that_is_wrong_is_the_rows_fault(folder: Any, services: str) -> None:
    with pytest.raises(RowError) as caught:
        read_folder(old(folder, **{"docker-compose.yaml": f"services: {services}"}))
    assert caught.value.kind == "harbor_invalid"


def test_an_instruction_may_be_a_key_of_descriptions(folder: Any) -> None:
    yaml = "instruction: base\ndifficulty: easy\ndescriptions:\n- {key: base, description: The text.}\n"
    assert read_folder(old(folder, yaml)).instruction == "The text."


@pytest.mark.parametrize(
    ("files", "why"),
    [
        ({"docker-compose.yaml": COMPOSE + "  db: {image: x}\n"}, "several containers"),
        ({"docker-compose.yaml": COMPOSE + "      - ./:/app\n"}, "volume"),
        ({"docker-compose.yaml": COMPOSE + "    privileged: true\n"}, "rights"),
        ({"task.yaml": "instruction: a\nparser_name: other\n"}, "parser_name"),
    ],
)
def test_what_the_older_form_asks_beyond_is_refused(folder: Any, files: dict[str, str], why: str) -> None:
    with pytest.raises(RowError, match=why):
        read_folder(old(folder, **files))


@pytest.mark.parametrize(
    ("name", "text", "rewards"),
    [
        ("reward.txt", "1", {"reward": 1.0}),
        ("reward.txt", " -2.5\n", {"reward": -2.5}),
        ("reward.json", '{"a": 1, "b": true}', {"a": 1.0, "b": 1.0}),
        ("reward.json", "{}", {}),
    ],
)
def test_rewards_are_read(name: str, text: str, rewards: dict[str, float]) -> None:
    assert read_rewards(RewardFile(name, text)) == rewards


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("reward.txt", ""),
        ("reward.txt", "one"),
        ("reward.txt", "inf"),
        ("reward.json", "[1]"),
        ("reward.json", '{"a": null}'),
        ("reward.json", '{"a": 1e999}'),
        ("reward.json", '{"a": NaN}'),
        ("reward.json", "{"),
        ("reward.json", '{"a": ' + "1" * 400 + "}"),
        ("reward.json", "[" * 100_000),
    ],
)
def test_what_is_no_reward_is_no_zero(name: str, text: str) -> None:
    with pytest.raises(VerifierError):
        read_rewards(RewardFile(name, text))


def test_one_reward_is_chosen_or_none() -> None:
    assert single_reward({"a": 2.0}, None) == 2.0
    assert single_reward({"a": 2.0, "reward": 1.0}, None) == 1.0
    assert single_reward({"a": 2.0, "reward": 1.0}, "a") == 2.0
    for rewards in ({}, {"a": 1.0, "b": 2.0}):
        with pytest.raises(VerifierError, match="reward_key"):
            single_reward(rewards, None)


SUMMARY = "x\n==== short test summary info ====\n"


@pytest.mark.parametrize(
    ("output", "tests"),
    [
        ("PASSED a.py::t\nSKIPPED [1] a.py:3: why\nXFAIL a.py::x\n", [True, True, True]),
        ("PASSED a.py::t\nFAILED a.py::u - assert 1 - 2\nERROR b.py::v\nXPASS b.py::w\n", [True, False, False, False]),
        ("\x1b[32mPASSED\x1b[0m a.py::\x1b[1mt\x1b[0m\n== 1 passed ==\n", [True]),
    ],
)
def test_pytests_summary_is_read(output: str, tests: list[bool]) -> None:
    assert list(solved("pytest", SUMMARY + output).values()) == tests


@pytest.mark.parametrize(("parser", "output"), [("pytest", "PASSED a"), ("pytest", SUMMARY), ("swebench", "PASSED")])
def test_output_without_results_says_nothing(parser: str, output: str) -> None:
    with pytest.raises(ValueError, match=r"no|No"):
        solved(parser, output)


def test_the_example_rows_are_what_the_script_makes(capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(REPOSITORY)
    here = Path("resources_servers/harbor/data")
    assert make_rows.main([str(here / "tasks")]) == 0
    made = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    stored = [json.loads(line) for line in (here / "example.jsonl").read_text().splitlines()]
    for row in (*made, *stored):  # a compressor may differ
        data = base64.b64decode(row["solution"].pop("archive"))
        with tarfile.open(fileobj=io.BytesIO(data)) as tar:
            row["files"] = {info.name: (info.mode, tar.extractfile(info).read().decode()) for info in tar}  # type: ignore[union-attr]
    assert made == stored


def test_a_row_can_name_no_folder_outside_and_no_changed_one(folder: Any, tmp_path: Path) -> None:
    made = harbor(folder, PLAIN)
    row = make_rows.row_of(made, tmp_path)
    assert find_folder(row["task_folder"], tmp_path, row["task_sha256"]) == made
    for name in (str(made), "../task", "a/../../task", "nothing"):
        with pytest.raises(RowError) as caught:
            find_folder(name, tmp_path / "task" if ".." in name else tmp_path, None)
        assert caught.value.kind == "no_task"
    (made / "tests/test.sh").write_text("exit 1")
    with pytest.raises(RowError, match="made from"):
        find_folder(row["task_folder"], tmp_path, row["task_sha256"])


def test_a_registry_is_read_as_it_is(folder: Any, tmp_path: Path, capsys: Any) -> None:
    made = harbor(folder, PLAIN)
    git = ["git", "-C", str(made), "-c", "user.name=a", "-c", "user.email=a@b"]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "x"]):
        subprocess.run([*git, *words], check=True)
    commit = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
    subprocess.run([*git, "rm", "-rq", "tests"], check=True)
    subprocess.run([*git, "commit", "-qm", "y"], check=True)
    source = {"git_url": made.as_uri(), "git_commit_id": commit}
    tasks = [{"name": "t", "path": ".", **source}]
    registry = tmp_path / "registry.json"
    registry.write_text(json.dumps([{"name": "d", "version": "1.0", "description": "", "tasks": tasks, "metrics": []}]))
    assert make_rows.main([str(registry), "--root", str(tmp_path), "--dataset", "d@1.0"]) == 0
    row = json.loads(capsys.readouterr().out)
    assert (tmp_path / row["task_folder"] / "tests/test.sh").is_file()
    with pytest.raises(ConfigError, match="no dataset 'e'"):
        list(registry_folders(registry, "e", tmp_path))
    registry.write_text("{}")
    with pytest.raises(ConfigError, match="no registry"):
        list(registry_folders(registry, None, tmp_path))
