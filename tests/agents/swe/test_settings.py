"""Claims about a SWE agent before it runs anything: what its config may say, what a harness is told, what is kept."""

from pathlib import Path
from typing import Any

import orjson
import pytest
from pydantic import ValidationError

from paddock.agents.swe import SweAgent, canaries
from paddock.agents.swe.artifacts import Artifacts
from paddock.agents.swe.canaries import CanaryWatch
from paddock.agents.swe.config import SweAgentConfig
from paddock.agents.swe.state import RolloutState
from paddock.agents.swe.task_spec import task_spec_of
from paddock.agents.swe.variants import Variant, Variants
from paddock.errors import ConfigError, LeakError, RequestError, RowError
from paddock.harness import Step
from paddock.http import Call
from paddock.sandbox import SandboxLimits
from paddock.types import Row, Session, Stamp

REFERENCES = {
    "resources_server": {"type": "resources_servers", "name": "world"},
    "model_server": {"type": "models_servers", "name": "policy"},
}
TOKEN = "paddock-canary-" + "0" * 32


def make(**block: Any) -> SweAgent:
    return SweAgent(SweAgentConfig.model_validate({"harness": "null", **REFERENCES, **block}), name="agent", peers={})


def variant(**block: Any) -> Variant:
    config = SweAgentConfig.model_validate({"harness": "null", **REFERENCES, **block})
    return Variants(config, "agent").of(Row(responses_create_params={}))


def session(**visible: Any) -> Session:
    return Session(image="one", workdir="/testbed", visible={"problem_statement": "It is wrong.", **visible})


@pytest.mark.parametrize(
    ("block", "why"),
    [
        ({"harness": "nul"}, "null"),
        ({"harness": "script"}, "one of the two"),
        ({"harness_config": {"a": 1}}, "no settings"),
        ({"prompt_template": "{{ problem }}"}, "problem_statement"),
        ({"prompt_template": "{% if %}"}, "prompt_template"),
    ],
)
def test_a_block_that_is_wrong_is_refused_before_anything_starts(block: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        make(**block)


def test_a_bare_null_in_yaml_is_the_null_harness() -> None:
    assert make(harness=None).config.harness == "null"


def test_there_must_be_time_to_grade() -> None:
    with pytest.raises(ValidationError, match="has to be graded"):
        make(agent_timeout_s=100, rollout_timeout_s=100)


async def test_a_sandbox_that_never_fits_is_refused_at_the_start(tmp_path: Path) -> None:
    agent = make(admission={"memory_mib": 100}, sandbox={"home": str(tmp_path)})
    with pytest.raises(ConfigError, match="never fits"):
        await agent.start()
    await agent.stop()


async def test_an_agent_of_repositories_is_no_model() -> None:
    with pytest.raises(RequestError, match="rows"):
        await make().responses({"input": "hello"}, Call())


def test_a_harness_sees_what_the_session_shows_and_no_more() -> None:
    spec = task_spec_of(
        session(repo="a/b", network="blackhole"),
        variant(prompt_template="{{ problem_statement }} in {{ workdir }} of {{ repo }}"),
        SandboxLimits(memory_mib=64),
        {"temperature": 0.7, "input": [], "metadata": {"patch": "no"}},
    )
    assert spec.task.prompt == "It is wrong. in /testbed of a/b"
    assert spec.task.params == {"temperature": 0.7}
    assert spec.task.visible == {"problem_statement": "It is wrong.", "repo": "a/b"}
    assert (spec.sandbox.network, spec.sandbox.limits.memory_mib) == ("blackhole", 64)


def test_a_problem_is_words_and_no_template() -> None:
    spec = task_spec_of(session(problem_statement="{{ 7 * 7 }} <b>"), variant(), SandboxLimits(), {})
    assert "{{ 7 * 7 }} <b>" in spec.task.prompt
    assert "/testbed" in spec.task.prompt


@pytest.mark.parametrize("given", [Session(visible={"problem_statement": "x"}), Session(image="one")])
def test_a_session_without_an_image_or_a_problem_is_the_rows_fault(given: Session) -> None:
    with pytest.raises(RowError):
        task_spec_of(given, variant(), SandboxLimits(), {})


def test_a_canary_is_seen_once_and_for_all() -> None:
    watch = CanaryWatch([TOKEN, ""])
    watch.look(b"paddock-canary-1")
    watch.check()
    with pytest.raises(LeakError):
        watch.look(b"a " + TOKEN.encode())
    with pytest.raises(LeakError):
        watch.check()


def test_planted_tokens_are_where_they_belong_and_stay_the_same(tmp_path: Path) -> None:
    planted = canaries.plant(tmp_path / "home")
    assert planted == canaries.plant(tmp_path / "home")
    assert planted[0] != canaries.plant(tmp_path / "other")[0]
    assert [path.read_text().strip() for path in (tmp_path / "home").iterdir()] == planted[:1]


@pytest.mark.parametrize("given", ["short", ["long enough, this one", 3], {"a": 1}, "It is wrong, surely."])
def test_a_rows_canary_that_would_accuse_the_honest_is_refused(given: Any) -> None:
    with pytest.raises(RowError, match="canary"):
        canaries.of_row(given, "The problem: It is wrong, surely. Mend it.")


def test_artifacts_hold_no_secret_and_survive_a_kill_as_steps(tmp_path: Path) -> None:
    stamp = Stamp(run_id="a/../b c", group_id=2, member=1, attempt=0)
    row = Row(responses_create_params={"input": []}, stamp=stamp)
    artifacts = Artifacts(tmp_path, row, hidden="ro_secret", canary=TOKEN)
    state = RolloutState(artifacts.step)
    state.report(Step(turn=1, output=[{"type": "message", "content": "the key is ro_secret"}]))
    assert artifacts.folder == tmp_path / "a_.._b_c" / "2-1-0"
    (line,) = (artifacts.folder / "steps.jsonl").read_bytes().splitlines()
    assert orjson.loads(line)["output"][0]["content"] == "the key is ..."
    artifacts.close(state, None)
    assert sorted(path.name for path in artifacts.folder.iterdir()) == ["meta.json", "traj.json"]
    assert all(b"ro_secret" not in path.read_bytes() for path in artifacts.folder.iterdir())
    assert orjson.loads((artifacts.folder / "meta.json").read_bytes())["canary"] == TOKEN


@pytest.mark.parametrize(
    ("params", "task", "folder"),
    [
        ({}, {"instance_id": "django__django-11099", "uuid": "u"}, "7-0-0-django__django-11099"),
        ({"metadata": {"instance_id": "a/../b"}}, {}, "7-0-0-a_.._b"),
        ({}, {"uuid": "x" * 400}, "7-0-0-" + "x" * 120),
    ],
)
def test_artifacts_are_found_by_the_name_of_their_row(tmp_path: Path, params: Any, task: Any, folder: str) -> None:
    row = Row(responses_create_params={"input": [], **params}, task=task, stamp=Stamp(run_id="r", group_id=7))
    assert Artifacts(tmp_path, row, hidden="x", canary="y").folder == tmp_path / "r" / folder


def test_artifacts_of_an_attempt_that_is_made_again_are_those_of_the_last(tmp_path: Path) -> None:
    row = Row(responses_create_params={"input": []}, stamp=Stamp(run_id="r", group_id=0, member=0, attempt=0))
    first = Artifacts(tmp_path, row, hidden="x", canary="y")
    assert first.folder is not None
    (first.folder / "patch.diff").write_text("old")
    second = Artifacts(tmp_path, row, hidden="x", canary="y")
    second.close(RolloutState(second.step), None)
    assert not (first.folder / "patch.diff").exists()


def test_a_disk_that_is_full_costs_no_rollout(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    row = Row(responses_create_params={"input": []})
    artifacts = Artifacts(tmp_path / "file", row, hidden="x", canary="y")
    artifacts.close(RolloutState(artifacts.step), None)
