"""Claims about mixed prompts: what is drawn, for whom, and that a group's first prompts are the same byte for byte."""

import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from pydantic import ValidationError
from tests.support.first_request import first_request

from paddock.agents.swe.config import DEFAULT_MIX, SweAgentConfig
from paddock.agents.swe.task_spec import task_spec_of
from paddock.agents.swe.variants import Variant, Variants
from paddock.config import validate
from paddock.config.files import PACKAGE
from paddock.errors import ConfigError
from paddock.harness import RunLimits, make_harness
from paddock.sandbox import SandboxLimits
from paddock.tools import canonical
from paddock.types import JsonObject, Row, Session, Stamp
from paddock.types.responses import call_item, make_response

REFERENCES = {
    "resources_server": {"type": "resources_servers", "name": "world"},
    "model_server": {"type": "models_servers", "name": "policy"},
}
TOY = """
from pathlib import Path
from paddock.harness.native import NativeHarness, Toolbox

class {name}(NativeHarness):
    TOOLBOX = Toolbox

    @classmethod
    def folder(cls):
        return Path(__file__).parent / "{name}"
"""
TOOLS = {"Toy": ["execute_bash", "str_replace_editor", "finish"], "Other": ["bash", "read", "edit", "apply_patch"]}
TOYS = [f"paddock_mixed_toys:{name}" for name in TOOLS]

GOLD = [
    "diff --git a/calc.py b/calc.py",
    "--- a/calc.py",
    "+++ b/calc.py",
    "@@ -1,2 +1,2 @@",
    " def add(a, b):",
    "-    return a - b",
    "+    return a + b",
]


@pytest.fixture(scope="module", autouse=True)
def toys(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Two harnesses of a module that only these tests have."""
    folder = tmp_path_factory.mktemp("toys")
    (folder / "paddock_mixed_toys.py").write_text("".join(TOY.format(name=name) for name in TOOLS))
    for name, tools in TOOLS.items():
        (folder / name / "profiles").mkdir(parents=True)
        (folder / name / "prompts").mkdir()
        shown = [{"type": "function", "name": tool, "parameters": {"type": "object"}} for tool in tools]
        for profile in ("default", "terse"):
            face = {"source": "toy", "tools": shown, "system": "system.jinja", "user": f"{profile}.jinja"}
            (folder / name / "profiles" / f"{profile}.json").write_text(json.dumps(face))
            (folder / name / "prompts" / f"{profile}.jinja").write_text(f"{profile}: {{{{ problem_statement }}}}")
        (folder / name / "prompts/system.jinja").write_text(f"You are {name} with {{{{ tools.{tools[0]} }}}}.")
    sys.path.insert(0, str(folder))
    yield folder
    sys.path.remove(str(folder))


def config(**block: Any) -> SweAgentConfig:
    return SweAgentConfig.model_validate({"harness": TOYS[0], **REFERENCES, **block})


def variants(**block: Any) -> Variants:
    return Variants(config(**block), "agent")


def a_row(group: int = 0, **stamp: Any) -> Row:
    return Row(responses_create_params={"input": []}, stamp=Stamp(group_id=group, **stamp), task={"instance_id": "x"})


async def request_of(variant: Variant, group: int) -> JsonObject:
    """The first request of a rollout of that group."""
    shown = {"problem_statement": f"Problem {group}.", "repo": "a/b", "language": "python", "instance_id": f"i-{group}"}
    spec = task_spec_of(
        Session(image="one", workdir="/testbed", visible=shown), variant, SandboxLimits(), {"temperature": 1}
    )
    return await first_request(make_harness(variant.harness, variant.harness_config), spec.task)


TWO = [{"harness": name, "weight": weight} for name, weight in zip(TOYS, (1, 3), strict=True)]


def test_options_are_met_by_their_weights() -> None:
    drawn = Counter(
        variants_of_two.of(a_row(group)).harness
        for variants_of_two in [variants(agent_prompt_overrides=TWO)]
        for group in range(1000)
    )
    # Five standard deviations of a share of three quarters; nothing here is random.
    assert abs(drawn[TOYS[1]] - 750) < 70
    assert drawn.total() == 1000


def test_an_option_is_made_of_its_own_prompts_settings_and_names(tmp_path: Path) -> None:
    (tmp_path / "own.jinja").write_text("Own: {{ problem_statement }} {{ tools.bash }}")
    option = {
        "name": "mine",
        "harness": TOYS[1],
        "harness_config": {"profile": "terse"},
        "user_prompt_template": str(tmp_path / "own.jinja"),
        "system_prompt_template": "At {{ workspace_path }}",
        "camel_case_tool_names": True,
    }
    found = variants(agent_prompt_overrides=[option]).of(a_row())
    assert (found.name, found.harness, found.harness_config) == ("mine", TOYS[1], {"profile": "terse"})
    assert found.tool_names == {"bash": "Bash", "read": "Read", "edit": "Edit", "apply_patch": "ApplyPatch"}
    spec = task_spec_of(
        Session(image="i", workdir="/w", visible={"problem_statement": "P"}), found, SandboxLimits(), {}
    )
    assert (spec.task.system, spec.task.prompt) == ("At /w", "Own: P Bash")


def test_what_an_option_does_not_say_is_the_agents() -> None:
    options = [{"name": "same"}, {"name": "other", "harness": TOYS[1]}]
    made = variants(harness_config={"profile": "terse"}, prompt_template="P", agent_prompt_overrides=options).all()
    assert [(one.harness, one.harness_config) for one in made] == [(TOYS[0], {"profile": "terse"}), (TOYS[1], None)]
    assert [one.user.render({}, "/", {}) for one in made] == ["P", "P"]


def test_names_of_options_are_told_apart() -> None:
    options = [{}, {"harness": TOYS[1]}, {}, {"name": f"{TOYS[0]}-3"}, {}]
    names = [one.name for one in variants(agent_prompt_overrides=options).all()]
    assert names == [TOYS[0], TOYS[1], f"{TOYS[0]}-2", f"{TOYS[0]}-3", f"{TOYS[0]}-4"]


@pytest.mark.parametrize(
    ("switch", "options", "mixed"),
    [
        (None, None, None),
        (None, [], None),
        (None, TWO, TOYS),
        (True, TWO, TOYS),
        (True, None, ["codeact", "opencode", "codex"]),
        (True, [], ["codeact", "opencode", "codex"]),
        (False, None, None),
        (False, TWO, None),
    ],
)
def test_a_list_mixes_and_so_does_the_switch_which_may_also_forbid_it(
    switch: bool | None, options: Any, mixed: list[str] | None
) -> None:
    found = config(run_with_mixed_prompts=switch, agent_prompt_overrides=options).options
    assert [option.harness for option in found] == (mixed or [])
    assert {option.weight for option in found} <= {1.0, 3.0}


def test_an_agent_that_does_not_mix_always_works_in_one_way() -> None:
    made = variants(run_with_mixed_prompts=False, agent_prompt_overrides=TWO)
    assert {made.of(a_row(group)).name for group in range(100)} == {TOYS[0]}


@pytest.mark.parametrize(
    ("option", "why"),
    [
        ({"harness": "terminus"}, "terminus"),
        ({"harness_config": {"profil": "terse"}}, "profile"),
        ({"harness_config": {"profile": "tears"}}, "terse"),
        ({"harness": "null", "harness_config": {"profile": "terse"}}, "no settings"),
        (
            {"user_prompt_template": "{{ problem }}"},
            r"agent_prompt_overrides\.1: user_prompt_template: .*problem_statement",
        ),
        ({"system_prompt_template": "{% if %}"}, r"agent_prompt_overrides\.1: system_prompt_template"),
        ({"user_prompt_template": "none.jinja"}, "no file `none.jinja`"),
        ({"user_prompt_template": "{{ tools.bash }}"}, "no attribute 'bash'"),
    ],
)
def test_an_option_that_is_wrong_is_refused_when_the_agent_is_made(option: JsonObject, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        variants(agent_prompt_overrides=[{}, option])


@pytest.mark.parametrize(
    ("block", "why"),
    [
        ({"agent_prompt_overrides": [{"weight": 0}]}, "greater than 0"),
        ({"agent_prompt_overrides": [{"weight": float("inf")}]}, "finite"),
        ({"agent_prompt_overrides": [{"name": "a"}, {"name": "a"}]}, "two options are named 'a'"),
        ({"agent_prompt_overrides": [{"user_template": "x"}]}, "Extra inputs"),
        (
            {"mix_per_rollout": True, "datasets": [{"name": "t", "type": "train", "jsonl_fpath": "x"}]},
            "not for training",
        ),
    ],
)
def test_a_mix_that_makes_no_sense_is_refused(block: JsonObject, why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        config(**block)


def test_an_unknown_key_of_an_option_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"agent_prompt_overrides.0.weigth`; nearest: `weight`"):
        validate(SweAgentConfig, {"harness": "null", **REFERENCES, "agent_prompt_overrides": [{"weigth": 1}]}, "agent")


def test_epoch_and_seed_draw_anew_and_attempts_and_members_do_not() -> None:
    def drawn(**block: Any) -> list[str]:
        stamp = block.pop("stamp", {})
        made = variants(agent_prompt_overrides=TWO, **block)
        return [made.of(a_row(group, **stamp)).name for group in range(60)]

    first = drawn()
    assert first == drawn(stamp={"member": 3, "attempt": 2, "run_id": "r", "group_size": 8})
    assert first != drawn(stamp={"epoch": 1}) != drawn(stamp={"epoch": 2})
    assert first != drawn(mixing_seed=1)


def test_evaluation_may_draw_for_each_member() -> None:
    made = variants(agent_prompt_overrides=TWO, mix_per_rollout=True)
    drawn = [made.of(a_row(0, member=member, attempt=attempt)).name for member in range(60) for attempt in (0, 1)]
    assert set(drawn) == set(TOYS)
    assert drawn[::2] == drawn[1::2]


def mix(*harnesses: str, **more: Any) -> list[JsonObject]:
    """Each harness with its own names, with drawn ones, in Pascal case, and with both."""
    switches = [(diversify, camel) for diversify in (False, True) for camel in (False, True)]
    return [
        {"harness": name, "diversify_tool_names": diversify, "camel_case_tool_names": camel, **more}
        for name in harnesses
        for diversify, camel in switches
    ]


def faces(harness: str) -> list[str]:
    return sorted(path.stem for path in PACKAGE.glob(f"harnesses/{harness}/profiles/*.json"))


MIXES: dict[str, list[JsonObject]] = {
    "toys": mix(*TOYS),
    "mixed prompts": [{"harness": name} for name in DEFAULT_MIX],
    **{f"{name}-{face}": mix(name, harness_config={"profile": face}) for name in DEFAULT_MIX for face in faces(name)},
}


QUICK = ("mixed prompts",)
SOME = [pytest.param(named, marks=[pytest.mark.slow] * (named not in QUICK)) for named in MIXES]


@pytest.mark.long
@pytest.mark.parametrize("named", SOME)
async def test_first_requests_of_a_group_are_the_same_byte_for_byte_at_a_thousand_groups(
    named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, elsewhere = (variants(agent_prompt_overrides=MIXES[named]) for _ in range(2))
    texts: list[bytes] = []
    for group in range(1000):
        texts.append(orjson.dumps(await request_of(here.of(a_row(group, member=0, attempt=0)), group)))
    monkeypatch.chdir(tmp_path)
    for group in range(1000):
        row = a_row(group, member=7, attempt=group % 3, run_id="another", group_size=8)
        assert orjson.dumps(await request_of(elsewhere.of(row), group)) == texts[group]
    assert len(set(texts)) == 1000


@pytest.mark.parametrize("named", MIXES)
def test_every_drawn_name_leads_back_to_its_tool(named: str) -> None:
    made = variants(agent_prompt_overrides=MIXES[named])
    seen: dict[str, set[str]] = {}
    for group in range(500):
        names = made.of(a_row(group)).tool_names
        assert len(set(names.values())) == len(names)
        assert {shown: canonical(shown, among=list(names)) for shown in names.values()} == {
            shown: real for real, shown in names.items()
        }
        for real, shown in names.items():
            seen.setdefault(real, set()).add(shown)
    assert named == "mixed prompts" or any(len(shown) > 2 for shown in seen.values())


class GuessingModel:
    """A model that calls a tool that no harness has, then each tool with half an argument, and then says no more."""

    name = "model"

    def __init__(self, shown: Collection[str]) -> None:
        self.seen: list[JsonObject] = []
        self._turns = [[call_item("fly", "{}")], [call_item(name, '{"a') for name in shown], []]

    async def respond(self, body: JsonObject) -> JsonObject:
        self.seen.append(body)
        return make_response(self._turns[len(self.seen) - 1], {}, model="model")

    async def endpoint(self) -> Any:
        raise AssertionError("a native harness needs no endpoint")


@pytest.mark.parametrize("named", MIXES)
async def test_what_a_model_reads_calls_no_tool_by_a_name_that_it_is_not_shown_by(named: str) -> None:
    made = variants(agent_prompt_overrides=MIXES[named])
    for group in range(40):
        variant = made.of(a_row(group))
        hidden = {real for real, shown in variant.tool_names.items() if shown != real}
        harness: Any = make_harness(variant.harness, variant.harness_config)
        functions = [tool["name"] for tool in harness.profile.tools if tool["type"] == "function"]
        model = GuessingModel([variant.tool_names[name] for name in functions])
        shown = {"problem_statement": "P", "repo": "a/b", "language": "python", "instance_id": "i"}
        spec = task_spec_of(Session(image="i", workdir="/w", visible=shown), variant, SandboxLimits(), {})
        workspace: Any = None  # no call is one that a tool takes
        await harness.run(spec.task, workspace, model, RunLimits(max_turns=3), lambda _: None)
        answers = " ".join(item["output"] for item in model.seen[-1]["input"] if "output" in item)
        assert "fly" in answers
        assert [name for name in hidden if re.search(rf"\b{name}\b", answers)] == []
        # A name of one word may also be that word.
        words = json.dumps(model.seen)
        assert [name for name in hidden if "_" in name and re.search(rf"\b{name}\b", words)] == []


ROOT = Path(__file__).parents[3]
PROGRAM = """
import asyncio, hashlib, json, runpy, sys, time
tests = runpy.run_path(sys.argv[1])
made = tests["variants"](agent_prompt_overrides=json.loads(sys.argv[2]))

async def main():
    told = hashlib.sha256()
    for group in range(200):
        request = await tests["request_of"](made.of(tests["a_row"](group, member=group % 5)), group)
        told.update(json.dumps(request).encode())
    print(told.hexdigest(), time.strftime("%F"))

asyncio.run(main())
"""


@pytest.mark.slow
def test_other_processes_on_another_day_in_another_folder_say_the_same(toys: Path, tmp_path: Path) -> None:
    said = []
    options = [option for mixed in MIXES.values() for option in mixed]
    # Twenty-five hours apart: never the same day.
    for hash_seed, zone, folder in [("1", "Pacific/Kiritimati", tmp_path), ("2", "Pacific/Pago_Pago", Path("/"))]:
        environment = {
            **os.environ,
            "PYTHONHASHSEED": hash_seed,
            "TZ": zone,
            "PYTHONPATH": os.pathsep.join([str(toys), str(ROOT)]),
            "HOME": str(folder),
        }
        command = [sys.executable, "-c", PROGRAM, __file__, json.dumps(options)]
        done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=True)
        said.append(done.stdout.split())
    assert said[0][0] == said[1][0]
    assert said[0][1] != said[1][1]


@pytest.mark.slow
@pytest.mark.sandbox
async def test_a_rollout_is_worked_on_as_drawn_and_says_how(standing: Any) -> None:
    options = [{"harness": "null", "name": "idle"}, {"harness": "gold", "name": "right"}]
    gold = "".join(f"{line}\n" for line in GOLD)
    spec: dict[int, set[tuple[str, float | None]]] = {}
    async with standing("null", agent_prompt_overrides=options, mixing_seed=1) as stand:
        for group in range(3):
            for member in range(2):
                stamp = Stamp(run_id="r", group_id=group, group_size=2, member=member, attempt=0)
                rollout = await stand.run(stamp=stamp, patch=gold)
                assert rollout.response is not None
                spec.setdefault(group, set()).add((rollout.response["harness"]["variant"], rollout.reward))
    assert all(len(one) == 1 for one in spec.values())
    assert set.union(*spec.values()) == {("idle", 0.0), ("right", 1.0)}
