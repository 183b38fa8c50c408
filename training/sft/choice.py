"""Which rollouts of finished runs are trained on: rejection sampling by a rule.

Rule    of each row and agent the rollouts with an outcome and a reward that the rule takes, the highest rewards first,
        at most so many; the same tokens once. Between equal rewards a draw decides, which depends on the seed and the
        tokens alone: neither the order of runs and lines nor their folders change what is chosen.
Held out all rollouts of some rows, drawn likewise; a row is the same in all runs: its prompt and its task. Rows of
        which the policy was given the same ids are held out together.
Memory  the samples of what may still be chosen, five bytes a token; lines are read one at a time.
Source  RAFT (arXiv 2304.06767), RFT (arXiv 2308.01825).
Errors  ConfigError: a run without rollouts or tokens, ids of another vocabulary, a rule for an agent that has no
        rollouts, nothing that can be trained on.
"""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import orjson

from paddock.collect.lines import Fault, StoredLine
from paddock.collect.recovery import indexed_lines, may_be_older, read_rollout
from paddock.collect.reverify import find_rollouts
from paddock.config.problems import raise_all, suggestion
from paddock.errors import ConfigError
from paddock.training.sft.config import ChoiceRule, SftDataConfig
from paddock.training.sft.samples import SftSample, digest, samples_of
from paddock.types import Outcome, Rollout, Row

Fate = Literal["failed", "outcome", "reward", "not_exact", "too_long", "doubled", "surplus", "trained", "held_out"]
"""What becomes of a rollout: it has no verdict; the rule does not take its outcome or its reward; none of its samples
is proven, or short enough for the policy; another one has the same tokens; its row has enough others; it is trained
on; its row is held out."""


class SftRollout(NamedTuple):
    """A rollout that the rule takes."""

    agent: str
    row: str
    """Names its row, in all runs."""
    reward: float
    samples: tuple[SftSample, ...]
    digest: str
    """Of its samples."""
    prompt: str
    """Of the ids that its first sample begins with: what the policy was given before it sampled anything."""


class ChosenRollouts(NamedTuple):
    """What a run trains on, and what its held-out loss is measured on."""

    trained: list[SftRollout]
    held_out: list[SftRollout]
    fates: Mapping[str, Counter[Fate]]
    """How many rollouts of each agent were read, by what became of them."""


class _RolloutLine(NamedTuple):
    """A line of a file of rollouts."""

    outcome: Outcome
    reward: float | None
    agent: str
    line: StoredLine
    parsed: Rollout | None
    """None: the index of its run says how it ended, and it was not parsed."""


def no_check(_file: Path, _rollout: Rollout) -> None:
    """Takes any vocabulary: that of the policy is not known here."""


def choose(
    data: SftDataConfig,
    *,
    seed: int,
    max_length: int,
    require_vocabulary: Callable[[Path, Rollout], None] = no_check,
) -> ChosenRollouts:
    """The rollouts of `data`. `max_length`: tokens of the longest sample that is trained on; `require_vocabulary`:
    raises a ConfigError for a rollout whose ids the policy does not understand."""
    fates: dict[str, Counter[Fate]] = defaultdict(Counter)
    best: dict[tuple[str, str], dict[str, SftRollout]] = defaultdict(dict)
    for source in data.rollouts:
        file = find_rollouts(Path(source).expanduser())
        taken: Counter[str] = Counter()
        for stored in _stored(file):
            rule, own = data.rule(stored.agent), fates[stored.agent]
            if (fate := _refusal(stored, rule)) is not None:
                own[fate] += 1
                continue
            rollout = stored.parsed or _read(file, stored.line)
            candidate, fate = _candidate(rollout, stored, data, max_length)
            taken["exact" if fate != "not_exact" else rollout.engine or "text"] += 1
            if candidate is None:
                own[fate] += 1
                continue
            require_vocabulary(file, rollout)
            for lost in _keep(best[candidate.row, candidate.agent], candidate, rule, seed):
                own[lost] += 1
        _require_ids(file, taken)
    _require_agents(data, fates)
    chosen = _undoubled(
        [candidate for kept in best.values() for candidate in sorted(kept.values(), key=_preference(seed))], fates
    )
    names = _shared_names(chosen)
    drawn = held_out_rows(names.values(), data.held_out_share, seed)
    parts: dict[Fate, list[SftRollout]] = {"trained": [], "held_out": []}
    for candidate in chosen:
        fate = "held_out" if names[candidate.row] in drawn else "trained"
        fates[candidate.agent][fate] += 1
        parts[fate].append(candidate)
    result = ChosenRollouts(parts["trained"], parts["held_out"], dict(fates))
    if not result.trained:
        raise ConfigError(f"no rollout can be trained on: {fates_text(result.fates)}", kind="rollouts_missing")
    return result


def held_out_rows(rows: Iterable[str], share: float, seed: int) -> frozenset[str]:
    """The rows that are held out: at least one where a share is, and at least one is left."""
    drawn = sorted(set(rows), key=lambda row: _draw(seed, row))
    count = min(max(1, round(share * len(drawn))), len(drawn) - 1) if share and drawn else 0
    return frozenset(drawn[:count])


def fates_text(fates: Mapping[str, Counter[Fate]]) -> str:
    """`agent: 12 read, 3 trained, ...; ...`"""
    parts = []
    for agent, counts in sorted(fates.items()):
        texts = ", ".join(f"{count} {_FATE_TEXTS[fate]}" for fate, count in sorted(counts.items()))
        parts.append(f"{agent or 'no agent'}: {counts.total()} read, {texts}")
    return "; ".join(parts) or "none was read"


_FATE_TEXTS: Mapping[Fate, str] = {
    "failed": "without a verdict",
    "outcome": "with another outcome",
    "reward": "with too small a reward",
    "not_exact": "without exact tokens",
    "too_long": "longer than policy.max_total_sequence_length",
    "doubled": "with the tokens of another",
    "surplus": "more than max_per_row",
    "trained": "to train on",
    "held_out": "held out",
}


def row_key(row: Row) -> str:
    """Names a row by its prompt and its task, however it was sampled."""
    params = row.responses_create_params
    parts = [params.get("instructions"), params.get("input"), params.get("tools"), row.task]
    return hashlib.sha256(orjson.dumps(parts, option=orjson.OPT_SORT_KEYS)).hexdigest()


def _stored(file: Path) -> Iterator[_RolloutLine]:
    """The rollouts of a file. What the index of a run says is not parsed."""
    for line, result in indexed_lines(file, older=may_be_older(file)):
        if line.data.isspace():
            continue
        if result is not None:
            yield _RolloutLine(result.outcome, result.reward, result.agent, line, None)
            continue
        rollout = _read(file, line)
        agent = rollout.row.agent_ref.name if rollout.row.agent_ref else ""
        yield _RolloutLine(rollout.outcome, rollout.reward, agent, line, rollout)


def _read(file: Path, line: StoredLine) -> Rollout:
    try:
        return read_rollout(line)
    except Fault as fault:
        raise fault.error(file, line.span.number) from fault


def _refusal(stored: _RolloutLine, rule: ChoiceRule) -> Fate | None:
    if stored.reward is None:
        return "failed"
    if stored.outcome not in rule.outcomes:
        return "outcome"
    return "reward" if stored.reward < rule.min_reward else None


def _candidate(
    rollout: Rollout, stored: _RolloutLine, data: SftDataConfig, max_length: int
) -> tuple[SftRollout | None, Fate]:
    """The candidate, or why it is none."""
    samples = samples_of(rollout, data.sample_mode)
    short = tuple(sample for sample in samples if len(sample.ids) <= max_length)
    if not short:
        return None, "too_long" if samples else "not_exact"
    assert stored.reward is not None
    given = samples[0].ids[: samples[0].loss_mask.argmax()]
    prompt = hashlib.sha256(given.tobytes()).hexdigest()
    return SftRollout(stored.agent, row_key(rollout.row), stored.reward, short, digest(short), prompt), "trained"


def _keep(kept: dict[str, SftRollout], candidate: SftRollout, rule: ChoiceRule, seed: int) -> list[Fate]:
    """Put the candidate into those of its row, as far as it is one of the best; what becomes of one that is lost."""
    other = kept.get(candidate.digest)
    if other is not None:
        kept[candidate.digest] = max(other, candidate, key=lambda one: one.reward)
        return ["doubled"]
    kept[candidate.digest] = candidate
    if rule.max_per_row is None or len(kept) <= rule.max_per_row:
        return []
    worst = max(kept.values(), key=_preference(seed))
    del kept[worst.digest]
    return ["surplus"]


def _undoubled(candidates: Sequence[SftRollout], fates: Mapping[str, Counter[Fate]]) -> list[SftRollout]:
    """The candidates, of those of several rows or agents with the same tokens the one with the highest reward."""
    best: dict[str, SftRollout] = {}
    for candidate in sorted(candidates, key=lambda one: (-one.reward, one.agent, one.row)):
        if best.setdefault(candidate.digest, candidate) is not candidate:
            fates[candidate.agent]["doubled"] += 1
    return [candidate for candidate in candidates if best[candidate.digest] is candidate]


def _shared_names(candidates: Sequence[SftRollout]) -> dict[str, str]:
    """A name for each row; rows with a prompt of the same ids have the same."""
    parents: dict[str, str] = {}

    def root(name: str) -> str:
        while (parent := parents.get(name, name)) != name:
            name = parent
        return name

    for candidate in candidates:
        first, second = sorted((root(candidate.row), root(candidate.prompt)))
        parents[second] = first
    return {candidate.row: root(candidate.row) for candidate in candidates}


def _preference(seed: int) -> Callable[[SftRollout], tuple[float, str]]:
    """Sorts the best to the front."""
    return lambda candidate: (-candidate.reward, _draw(seed, candidate.digest))


def _draw(seed: int, what: str) -> str:
    return hashlib.sha256(f"{seed} {what}".encode()).hexdigest()


def _require_agents(data: SftDataConfig, fates: Mapping[str, Counter[Fate]]) -> None:
    raise_all(
        f"data.choose_by_agent: no rollout of an agent `{name}`{suggestion(name, fates)}"
        for name in sorted(data.choose_by_agent.keys() - fates.keys())
    )


def _require_ids(file: Path, taken: Mapping[str, int]) -> None:
    if taken and not taken.get("exact"):
        raise ConfigError(
            f"{file}: none of the {sum(taken.values())} rollouts that data.choose takes has exact tokens (engine "
            f"{', '.join(sorted(taken))}): roll out with models_servers/vllm or sglang, which record ids; "
            "`paddock samples` says why turns are left out",
            kind="no_tokens",
        )


def samples_in(candidates: Sequence[SftRollout]) -> list[SftSample]:
    return [sample for candidate in candidates for sample in candidate.samples]
