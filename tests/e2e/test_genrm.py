"""Claims about groups that a judge compares, from a config in `configs/` by the command: our own rows, published ones,
environments mixed in one file; and what can be made of such a run without a judge.
"""

import json
import math
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from paddock.cli import main
from paddock.collect import EvalSettings, evaluate, make_plan
from paddock.config import load
from paddock.testing import ScriptedAnswer, ScriptedUpstream
from paddock.types import JsonObject
from paddock.types.responses import message_item, messages

if TYPE_CHECKING:
    from tests.e2e.conftest import SweCase

ROOT = Path(__file__).parents[2]
CONFIG = str(ROOT / "configs" / "genrm.yaml")
OWN = ROOT / "resources_servers" / "genrm" / "data" / "example.jsonl"
COMPARE = "resources_servers/genrm_compare/configs/genrm_compare.yaml"


@pytest.fixture(autouse=True)
def endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    """An endpoint that is not there."""
    monkeypatch.chdir(ROOT)
    for name, value in (("BASE_URL", "http://127.0.0.1:9/v1"), ("API_KEY", "none"), ("MODEL", "my-model")):
        monkeypatch.setenv(f"OPENAI_{name}", value)


def lines(path: Path) -> list[JsonObject]:
    return [orjson.loads(line) for line in path.read_bytes().splitlines()]


def groups(found: Iterable[JsonObject]) -> dict[int, list[JsonObject]]:
    by_row: dict[int, list[JsonObject]] = {}
    for line in sorted(found, key=lambda line: (line["_ng_task_index"], line["_ng_rollout_index"])):
        by_row.setdefault(line["_ng_task_index"], []).append(line)
    return by_row


def state(folder: Path, server: str = "genrm") -> str:
    return f"+{server}.resources_servers.genrm.state_dir={folder / 'state'}"


def test_our_rows_with_the_scripted_judge_in_one_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "run"
    assert main(["eval", CONFIG, "--oracle", "--out", str(out), state(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "passed" not in said
    assert "judge_swap_consistency 1" in said
    found = groups(lines(out / "rollouts.jsonl"))
    assert {len(members) for members in found.values()} == {4}
    assert len(found) == len(lines(OWN))
    for members in found.values():
        rewards = [line["reward"] for line in members]
        sizes = [len("".join(messages(line["response"]))) for line in members]
        assert rewards.index(max(rewards)) == sizes.index(max(sizes)), "the scripted judge prefers the longest"
        for line in members:
            assert math.fsum(line["reward_components"].values()) == pytest.approx(line["reward"], abs=1e-9)
            assert line["rollout"]["verdict"]["reason"] == "scored"


def test_a_run_is_scored_again_without_a_judge(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "run"
    assert main(["eval", CONFIG, "--oracle", "--out", str(out), state(tmp_path)]) == 0
    capsys.readouterr()
    elsewhere = f"genrm.resources_servers.genrm.state_dir={tmp_path / 'elsewhere'}"
    assert main(["verify", str(out), CONFIG, elsewhere, "vars.judge=genrm_model"]) == 0
    assert f"{4 * len(lines(OWN))} as stored" in capsys.readouterr().out
    term = "genrm.resources_servers.genrm.group_answer_length_penalty_coeff=0.35"
    assert main(["verify", str(out), CONFIG, elsewhere, "vars.judge=genrm_model", term]) == 4


@pytest.mark.parametrize("kept", [True, False])
def test_a_resumed_group_is_completed_with_its_state_and_without(tmp_path: Path, kept: bool) -> None:
    out = tmp_path / "run"
    arguments = ["eval", CONFIG, "--oracle", "--out", str(out)]
    assert main([*arguments, state(tmp_path)]) == 0
    before = lines(out / "rollouts.jsonl")
    left = [line for line in before if line["_ng_task_index"] != 1 or line["_ng_rollout_index"] in (0, 3)]
    (out / "rollouts.jsonl").write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in left))
    assert main([*arguments, "--resume", state(tmp_path if kept else tmp_path / "elsewhere")]) == 0
    now = lines(out / "rollouts.jsonl")
    assert now[: len(left)] == left
    again = {line["_ng_rollout_index"]: line for line in now[len(left) :]}
    reasons = {line["rollout"]["verdict"]["reason"] for line in again.values()}
    assert (set(again), reasons) == ({1, 2}, {"scored_late" if kept else "scored_partial"})
    if kept:
        rewards = {line["_ng_rollout_index"]: line["reward"] for line in before if line["_ng_task_index"] == 1}
        assert all(line["reward"] == rewards[member] for member, line in again.items()), "the same answers"


def published() -> list[object]:
    folder = os.environ.get("PADDOCK_TEST_DATA")
    path = Path(folder, "genrm", "compare.jsonl") if folder else None
    missing = pytest.mark.skip(reason="PADDOCK_TEST_DATA names no folder with published rows (genrm/compare.jsonl)")
    return [path] if path and path.is_file() else [pytest.param(None, marks=missing)]


@pytest.mark.parametrize("rows", published())
async def test_published_rows_run_by_the_published_names(tmp_path: Path, rows: Path) -> None:
    judge = {"judge": {"models_servers": {"paddock.testing.judges:ScriptedJudge": {"prefers": "hash"}}}}
    block = tmp_path / "genrm.yaml"
    server = {"genrm_model_server": {"type": "models_servers", "name": "judge"}, "state_dir": str(tmp_path / "state")}
    tree = {
        "config_paths": ["responses_api_models/vllm_model/configs/vllm_model.yaml", COMPARE],
        "policy_model_reasoning_off": {"_copy": "policy_model"},
        "genrm_compare_resources_server": {"resources_servers": {"genrm_compare": server}},
        **judge,
    }
    block.write_text(json.dumps(tree))
    async with ScriptedUpstream(ScriptedAnswer("An answer.")) as upstream:
        policy = (f"policy_base_url={upstream.url}", "policy_api_key=k", "policy_model_name=m", "genrm_model_name=none")
        config = load([block], policy)
        plan = make_plan(config, EvalSettings(rows=[str(rows)], repeats=16, concurrency=16))
        collected = await evaluate(plan, tmp_path / "run", quiet=True)
    assert collected.n_verdicts == 16 * len(lines(rows))


# Eight comparisons of a group are asked at most twice in each of two attempts: 32 times. So 40 failures outlast the
# first group however slow the machine is, and end with the third at the latest.
OUTAGES = [
    pytest.param({"fail_first": 40}, 0.2, 0.15, id="40 questions"),
    pytest.param({"down_for_s": 10.0}, 1.5, 0.2, id="10 s", marks=pytest.mark.slow),
]


@pytest.mark.slow
@pytest.mark.parametrize(("outage", "timeout_s", "retry_s"), OUTAGES)
def test_groups_of_a_judge_that_is_down_are_retried_then_masked_and_the_rest_goes_on(
    tmp_path: Path, outage: JsonObject, timeout_s: float, retry_s: float
) -> None:
    out = tmp_path / "run"
    judge = json.dumps({"paddock.testing.judges:ScriptedJudge": {"prefers": "hash", **outage}})
    genrm = "+genrm.resources_servers.genrm"
    patience = [f"{genrm}.comparison_timeout_s={timeout_s}", f"{genrm}.outage_retry_s={retry_s}"]
    flags = ["--oracle", "--concurrency", "4", "--max-attempts", "2", "--retry-wait-s", "0", "--out", str(out)]
    flags += ["--stop-after-failures", "0"]  # it is to go on to the end
    main(["eval", CONFIG, *flags, state(tmp_path), *patience, f"scripted_judge.models_servers={judge}"])
    failures = lines(out / "failures.jsonl")
    masked = {(line["group_id"], line["member"]) for line in failures if line.get("final")}
    judged = {(line["_ng_task_index"], line["_ng_rollout_index"]) for line in lines(out / "rollouts.jsonl")}
    assert {(line["outcome"], line["kind"]) for line in failures} == {("verifier", "judge_down")}
    assert {line["attempt"] for line in failures} == {0, 1}, "each was tried again"
    assert masked, "the first group was given up while the judge was down"
    assert judged, "the last group came when it was up again"
    assert not masked & judged
    assert len(masked | judged) == 4 * len(lines(OWN))


def of(agent: str, rows: Iterable[JsonObject]) -> list[JsonObject]:
    return [{**row, "agent_ref": {"name": agent}} for row in rows]


def run_mixed(folder: Path, rows: list[JsonObject], more: JsonObject) -> dict[str, list[JsonObject]]:
    """Lines by agent. `more`: servers besides those of pivot and genrm."""
    (folder / "rows.jsonl").write_bytes(b"\n".join(map(orjson.dumps, rows)) + b"\n")
    paths = [CONFIG, "resources_servers/pivot/configs/pivot.yaml"]
    (folder / "mixed.yaml").write_text(json.dumps({"config_paths": paths, **more}))
    flags = ["--oracle", "--repeats", "4", "--concurrency", "4", "--out", str(folder / "run"), state(folder)]
    assert main(["eval", str(folder / "mixed.yaml"), "--rows", str(folder / "rows.jsonl"), *flags]) == 0
    by_agent: dict[str, list[Any]] = {}
    for line in lines(folder / "run" / "rollouts.jsonl"):
        by_agent.setdefault(line["agent_ref"]["name"], []).append(line)
    return by_agent


def pivot_and_genrm() -> list[JsonObject]:
    pivot = of("pivot_agent", lines(ROOT / "resources_servers" / "pivot" / "data" / "example.jsonl")[:3])
    genrm = of("genrm_agent", lines(OWN)[:2])
    return [pivot[0], genrm[0], pivot[1], genrm[1], pivot[2]]


def test_environments_are_mixed_in_one_file(tmp_path: Path) -> None:
    found = run_mixed(tmp_path, pivot_and_genrm(), {})
    assert {line["reward"] for line in found["pivot_agent"]} == {1.0}
    assert len(found["genrm_agent"]) == 8
    assert all(line["reward_components"] for line in found["genrm_agent"])


@pytest.mark.long
@pytest.mark.sandbox
def test_with_rows_of_repositories_too(tmp_path: Path, swe_case: "SweCase") -> None:
    policy: JsonObject = {"policy": {"models_servers": {"replay": {}}}}
    found = run_mixed(tmp_path, [*pivot_and_genrm(), swe_case.row], {**swe_case.tree, **policy})
    assert {agent: len(found[agent]) for agent in found} == {"pivot_agent": 12, "genrm_agent": 8, "codeact": 4}
    assert {line["reward"] for line in [*found["codeact"], *found["pivot_agent"]]} == {1.0}


def test_a_judge_is_held_against_known_preferences(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "preferences.jsonl"
    long, short = "A long answer, with all that was asked for.", "No."
    row = {"conversation_history": "How?", "strength": 2}
    rows = [
        {**row, "response_1": long, "response_2": short, "preference": 1},
        {**row, "response_1": short, "response_2": {"output": [message_item(long)]}, "preference": 2},
        {**row, "response_1": long, "response_2": short, "preference": 2},
    ]
    path.write_bytes(b"\n".join(map(orjson.dumps, rows)))
    figures = tmp_path / "judge.json"
    arguments = ["judge", "check", str(path), CONFIG, state(tmp_path), "--json", str(figures)]
    assert main([*arguments, "--at-least", "0.6"]) == 0
    assert "agreement      0.667" in capsys.readouterr().out
    found = json.loads(figures.read_text())
    assert (found["agreement"]["hits"], found["agreement"]["of"], found["consistent"]["share"]) == (2, 3, 1.0)
    assert main([*arguments, "--at-least", "0.7"]) == 1
