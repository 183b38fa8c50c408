"""Samples with what a trainer has to know of their rollout.

Wire    one flat object: the line's format, the stamps under their wire keys (`_ng_task_index` is the group,
        `_ng_rollout_index` the member), `row`, `outcome`, `reward`, `engine`, `mode`, `sample` of `samples`, `cut`,
        then the sample's fields.
Law     the reward is the whole rollout's, in each of its samples; null unless the outcome carries one. A rollout whose
        engine is not known is as one of engine `text`: it has no samples.
Errors  ValidationError for a line that is none; ConfigError for one of a later format.
"""

from collections.abc import Iterator
from typing import Self

from paddock.errors import ConfigError
from paddock.tokens.export.records import Mode, Sample
from paddock.tokens.export.sample_plan import SamplePlan, plan
from paddock.types import Engine, JsonObject, Outcome, Record, Rollout, Stamp, TurnRecord
from paddock.types.formats import FORMAT, FORMAT_KEY, later_format_text

_STAMP_KEYS = {field.alias for field in Stamp.model_fields.values()}


class RolloutSample(Record):
    """One sample of a rollout."""

    stamp: Stamp
    row: str | None
    """What the row calls itself; None: nothing."""
    outcome: Outcome
    reward: float | None
    engine: Engine
    """`exact` or `spliced`."""
    mode: Mode
    index: int
    """Among the rollout's samples, from 0."""
    count: int
    """How many the rollout has."""
    cut: bool
    """A budget ended it: the rollout was truncated, or the sample's last turn reached its length. Overlong filtering
    goes by this."""
    sample: Sample

    def to_wire(self) -> JsonObject:
        sample = self.sample
        return {
            FORMAT_KEY: FORMAT,
            **self.stamp.to_wire(),
            "row": self.row,
            "outcome": self.outcome,
            "reward": self.reward,
            "engine": self.engine,
            "mode": self.mode,
            "sample": self.index,
            "samples": self.count,
            "cut": self.cut,
            **{key: value for key, value in sample.__dict__.items() if key != "routed_experts"},
            "spans": [span.__dict__ for span in sample.spans],
            **({} if sample.routed_experts is None else {"routed_experts": sample.routed_experts}),
        }

    @classmethod
    def from_wire(cls, line: JsonObject) -> Self:
        stamp = {key: value for key, value in line.items() if key in _STAMP_KEYS}
        own = {
            key: value for key, value in line.items() if key in ("row", "outcome", "reward", "engine", "mode", "cut")
        }
        position = {"index": line.get("sample"), "count": line.get("samples")}
        number = line.get(FORMAT_KEY, 1)
        if isinstance(number, int) and number > FORMAT:
            raise ConfigError(f"a line of samples: {later_format_text(number)}", kind="format_unknown")
        own_keys = {*stamp, *own, "sample", "samples", FORMAT_KEY}
        rest = {key: value for key, value in line.items() if key not in own_keys}
        return cls.model_validate({**own, **position, "stamp": stamp, "sample": rest})


def plan_rollout(rollout: Rollout, mode: Mode) -> SamplePlan:
    return plan(TurnRecord(engine=rollout.engine or "text", turns=rollout.turns), mode)


def rollout_samples(rollout: Rollout, mode: Mode, planned: SamplePlan | None = None) -> Iterator[RolloutSample]:
    """The rollout's samples, in order. `planned`: what `plan_rollout` gave for the same, if it was asked."""
    planned = planned or plan_rollout(rollout, mode)
    for index, sample in enumerate(planned.make()):
        yield RolloutSample(
            stamp=rollout.row.stamp,
            row=rollout.row.name,
            outcome=rollout.outcome,
            reward=rollout.reward,
            engine=rollout.engine or "text",
            mode=mode,
            index=index,
            count=len(planned.planned),
            cut=rollout.outcome == "truncated" or sample.finish_reason == "length",
            sample=sample,
        )
