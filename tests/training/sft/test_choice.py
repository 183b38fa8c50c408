"""Claims about which rollouts of finished runs are trained on."""

import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paddock.errors import ConfigError
from paddock.training.core.testing import rollout, turn
from paddock.training.sft.choice import ChosenRollouts, SftRollout, choose, held_out_rows
from paddock.training.sft.config import SftDataConfig
from paddock.types import AgentRef, Outcome, Rollout, Row, Stamp


class RolloutFacts(NamedTuple):
    """A rollout in short."""

    agent: str
    row: int
    reward: float | None
    truncated: bool
    first: int
    """Its first sampled id: rollouts of a row with the same are the same."""


def stored(one: RolloutFacts, nth: int, **fields: Any) -> Rollout:
    outcome: Outcome = "infra" if one.reward is None else "truncated" if one.truncated else "completed"
    own = turn("a", prompt_ids=[1, 100 + one.row], sampled_ids=[one.first, len(one.agent) + ord(one.agent[0])])
    made = rollout(outcome, one.reward or 0.0, nth=nth, **{"turns": [own], **fields})
    row = Row(
        responses_create_params={"input": f"row {one.row}", "temperature": nth / 10},
        agent_ref=AgentRef(name=one.agent),
        stamp=Stamp(group_id=nth, group_size=1, member=0),
        task={"answer": one.row},
    )
    return made.model_copy(update={"row": row})


def write(path: Path, rollouts: Sequence[Rollout]) -> str:
    path.write_bytes(b"".join(orjson.dumps(one.to_wire()) + b"\n" for one in rollouts))
    return str(path)


def chosen_of(files: Sequence[str], data: Any = None, max_length: int = 100) -> ChosenRollouts:
    return choose(SftDataConfig.model_validate({"rollouts": files, **(data or {})}), seed=3, max_length=max_length)


def facts(candidates: Sequence[SftRollout]) -> list[tuple[str, str, float, str]]:
    return sorted((one.agent, one.row, one.reward, one.digest) for one in candidates)


ENDED = st.builds(
    RolloutFacts,
    st.sampled_from(["one", "two"]),
    st.integers(0, 4),
    st.sampled_from([None, 0.0, 0.5, 1.0, 2.0]),
    st.booleans(),
    st.integers(10, 14),
)
RULES = st.fixed_dictionaries(
    {
        "min_reward": st.sampled_from([0.0, 0.5, 1.0]),
        "max_per_row": st.sampled_from([1, 2, None]),
        "outcomes": st.sampled_from([["completed"], ["completed", "truncated"]]),
    }
)


@settings(max_examples=40)
@given(st.lists(ENDED, min_size=1, max_size=30), RULES, RULES, st.randoms(), st.sampled_from([0.0, 0.3]))
def test_a_rule_holds_whatever_the_order_of_the_rollouts(
    tmp_path_factory: pytest.TempPathFactory,
    ended: list[RolloutFacts],
    rule: Any,
    other: Any,
    chance: Any,
    share: float,
) -> None:
    folder = tmp_path_factory.mktemp("runs")
    rollouts = [stored(one, nth) for nth, one in enumerate(ended)]
    by_agent = {"two": other} if any(one.agent == "two" for one in ended) else {}
    data = {"choose": rule, "choose_by_agent": by_agent, "held_out_share": share}
    rules = {"one": rule, "two": other}

    taken = [
        one
        for one in ended
        if one.reward is not None
        and one.reward >= rules[one.agent]["min_reward"]
        and ("truncated" if one.truncated else "completed") in rules[one.agent]["outcomes"]
    ]
    if not taken:
        with pytest.raises(ConfigError, match="no rollout can be trained on"):
            chosen_of([write(folder / "all.jsonl", rollouts)], data)
        return
    chosen = chosen_of([write(folder / "all.jsonl", rollouts)], data)
    both = [*chosen.trained, *chosen.held_out]

    best: dict[tuple[str, int], dict[int, float]] = defaultdict(dict)
    for one in taken:
        assert one.reward is not None
        ids = best[one.agent, one.row]
        ids[one.first] = max(one.reward, ids.get(one.first, 0.0))
    expected = {
        key: sorted(rewards.values(), reverse=True)[: rules[key[0]]["max_per_row"]] for key, rewards in best.items()
    }
    rewards: dict[tuple[str, str], list[float]] = defaultdict(list)
    for candidate in both:
        rewards[candidate.agent, candidate.row].append(candidate.reward)
    assert sorted(map(sorted, rewards.values())) == sorted(map(sorted, expected.values()))

    assert not {one.row for one in chosen.trained} & {one.row for one in chosen.held_out}
    assert bool(chosen.held_out) == (share > 0 and len({one.row for one in taken}) > 1)
    assert sum(counts.total() for counts in chosen.fates.values()) == len(ended)
    assert sum((counts for counts in chosen.fates.values()), Counter())["trained"] == len(chosen.trained)

    chance.shuffle(rollouts)
    half = len(rollouts) // 2
    parts = [write(folder / "a.jsonl", rollouts[:half]), write(folder / "b.jsonl", rollouts[half:])]
    again = chosen_of([part for part in parts if Path(part).read_bytes()], data)
    assert facts(again.trained) == facts(chosen.trained)
    assert facts(again.held_out) == facts(chosen.held_out)


@given(st.sets(st.text(min_size=1, max_size=4), max_size=40), st.floats(0, 0.99), st.integers())
def test_some_rows_are_held_out_and_some_are_left(rows: set[str], share: float, seed: int) -> None:
    held_out = held_out_rows(rows, share, seed)
    assert held_out <= rows
    if share and len(rows) > 1:
        assert 1 <= len(held_out) < len(rows)
        assert abs(len(held_out) - share * len(rows)) <= 1
    else:
        assert not held_out


def test_ids_and_masks_are_those_of_the_export(tmp_path: Path) -> None:
    turns = [turn("a"), turn("b", "a", sampled=3), turn("c", sampled=1)]
    file = write(tmp_path / "r.jsonl", [rollout(turns=turns)])
    (whole,) = chosen_of([file]).trained[0].samples
    assert whole.ids.tolist() == [1, 2, 10]
    (branch, single) = chosen_of([file], {"sample_mode": "branch"}).trained[0].samples
    assert branch.ids.tolist() == [1, 2, 10, 11, 1, 2, 10, 11, 12]
    assert branch.loss_mask.tolist() == [False, False, True, True, False, False, True, True, True]
    assert single.tokens == 1


def test_what_is_longer_than_the_policy_takes_is_left_out_and_counted(tmp_path: Path) -> None:
    file = write(tmp_path / "r.jsonl", [rollout(turns=[turn("a", sampled=n)]) for n in (2, 9)])
    chosen = chosen_of([file], max_length=8)
    assert [one.samples[0].tokens for one in chosen.trained] == [2]
    assert chosen.fates[""] == {"trained": 1, "too_long": 1}


def test_a_run_without_tokens_is_refused_by_name(tmp_path: Path) -> None:
    with_ids = write(tmp_path / "ids.jsonl", [rollout()])
    without = write(tmp_path / "text.jsonl", [rollout(engine="text")])
    with pytest.raises(ConfigError, match=r"text\.jsonl: none of the 1 rollouts .* has exact tokens \(engine text\)"):
        chosen_of([with_ids, without])


def test_a_broken_line_is_named(tmp_path: Path) -> None:
    file = tmp_path / "r.jsonl"
    file.write_text(json.dumps(rollout().to_wire()) + "\n{}\n")
    with pytest.raises(ConfigError, match=r"r\.jsonl:2"):
        chosen_of([str(file)])


def test_rows_that_the_policy_sees_as_one_are_held_out_together(tmp_path: Path) -> None:
    # Rows 2n and 2n + 1 have a task each and the same prompt, as a data set has that was put together of others.
    ended = [RolloutFacts("one", row, 1.0, False, 10 + row) for row in range(12)]
    prompts = [turn("a", prompt_ids=[1, 100 + one.row // 2], sampled_ids=[one.first, 7]) for one in ended]
    rollouts = [stored(one, nth, turns=[prompt]) for nth, (one, prompt) in enumerate(zip(ended, prompts, strict=True))]
    # Under another agent, each of these rows has a prompt of its own.
    apart = [turn("a", prompt_ids=[1, 200 + one.row], sampled_ids=[one.first, 7]) for one in ended]
    other = [
        stored(one._replace(agent="two"), 20 + nth, turns=[prompt])
        for nth, (one, prompt) in enumerate(zip(ended, apart, strict=True))
    ]
    chosen = chosen_of([write(tmp_path / "r.jsonl", [*rollouts, *other])], {"held_out_share": 0.3})
    assert len(chosen.held_out) == 8
    trained, held_out = (
        {int(sample.ids[1]) for one in part for sample in one.samples} for part in (chosen.trained, chosen.held_out)
    )
    assert not trained & held_out
    assert not {one.row for one in chosen.trained} & {one.row for one in chosen.held_out}


def test_the_same_tokens_count_once_whoever_sampled_them(tmp_path: Path) -> None:
    own = turn("a", prompt_ids=[1, 2], sampled_ids=[3, 4])
    ended = [RolloutFacts(agent, row, reward, False, 3) for agent, row, reward in (("one", 0, 1.0), ("two", 1, 2.0))]
    rollouts = [stored(one, nth, turns=[own]) for nth, one in enumerate(ended)]
    chosen = chosen_of([write(tmp_path / "r.jsonl", rollouts)])
    assert [(one.agent, one.reward) for one in chosen.trained] == [("two", 2.0)]
    assert chosen.fates == {"one": {"doubled": 1}, "two": {"trained": 1}}


def test_a_rule_for_an_agent_that_ran_nothing_is_refused(tmp_path: Path) -> None:
    file = write(tmp_path / "r.jsonl", [stored(RolloutFacts("coder", 0, 1.0, False, 3), 0)])
    rule = {"min_reward": 0.5}
    assert chosen_of([file], {"choose_by_agent": {"coder": rule}}).trained
    with pytest.raises(ConfigError, match="choose_by_agent: no rollout of an agent `codr`; nearest: `coder`"):
        chosen_of([file], {"choose_by_agent": {"codr": rule}})
