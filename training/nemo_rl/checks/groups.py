"""Rules that results of a group break together: NeMo-RL makes groups by first prompt, whatever a row's index is.

Shapes  a group is the results with one `_ng_task_index` (of one run, epoch and cohort, where those are stamped). Where
        no result has an index there are no groups, and each is checked by itself alone.
Law     what is masked with a reason (`inline`'s placeholders) has failed: it counts as a member that is there, and its
        prompt must be no group's. What is masked without one was judged, and is compared as NeMo-RL does.
Memory  per result a digest of its first prompt; per group that is not complete one first prompt.
"""

import hashlib
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from paddock.training.nemo_rl.checks.results import DEFAULTS, check_result, is_masked, shape_violation
from paddock.training.nemo_rl.checks.rules import breach
from paddock.training.nemo_rl.checks.settings import CheckSettings
from paddock.training.nemo_rl.checks.turns import turns_of
from paddock.training.nemo_rl.records import Result, Violation

TASK, MEMBER, SIZE = "_ng_task_index", "_ng_rollout_index", "_paddock_group_size"
GROUP_STAMPS = ("_paddock_run_id", "_paddock_epoch", "_paddock_cohort")
"""Where these differ, results with one task index are of different groups."""


class ResultFinding(NamedTuple):
    """A broken rule, and the result that breaks it."""

    result: int
    """The number of the result, from 1."""
    violation: Violation

    def __str__(self) -> str:
        return f"{self.result}: {self.violation}"


class FailedMember(NamedTuple):
    """A member that failed and may have no result."""

    task: int
    member: int
    epoch: int | None = None
    """Of its group, where the results are of several."""


class _MemberFacts(NamedTuple):
    """The facts of one result that are compared in its group."""

    result: int
    nth: int | None
    """Its member number, as it is stamped."""
    size: int | None
    """The size of its group, as it is stamped."""
    prompt: bytes
    """Digest of its first prompt; empty: it has none."""
    differs_at: int | None
    """The index where it differs from the first prompt that was added first; None: it does not."""
    failed: bool
    agent: str | None
    sampling: tuple[Any, Any]


class _GroupMembers:
    """The members of one group, added in any order."""

    def __init__(self) -> None:
        self.members: list[_MemberFacts] = []
        self.failed_members: set[int] = set()
        """Members that failed, and have no result."""
        self._prompt: Sequence[int] | None = None
        """The first prompt of the first member that did not fail."""

    def add(self, nth: int, result: Result) -> None:
        prompt = first_prompt(result)
        failed = is_failed(result)
        differs_at = None
        if prompt and not failed:
            self._prompt = self._prompt or array("q", prompt)
            differs_at = _first_difference(self._prompt, prompt)
        params, ref = result["responses_create_params"], result.get("agent_ref")
        size = _integer(result.get(SIZE))
        self.members.append(
            _MemberFacts(
                nth,
                _integer(result.get(MEMBER)),
                size,
                digest(prompt),
                differs_at,
                failed,
                ref.get("name") if isinstance(ref, dict) else None,
                (params.get("temperature"), params.get("top_p")),
            )
        )
        if len(self.members) == size:
            self._prompt = array("q")

    def fail(self, member: int) -> None:
        """Note a member that failed: it has no result, or that of another attempt."""
        if member not in {present.nth for present in self.members}:
            self.failed_members.add(member)

    @property
    def prompts(self) -> set[bytes]:
        """The digests of the first prompts of members that are compared."""
        return {member.prompt for member in self.members if not member.failed}


def first_prompt(result: Result) -> list[int]:
    """The ids of the first prompt; empty: there is none that could be compared."""
    first = next(turns_of(result), None)
    prompt = first.prompt if first else None
    sound = isinstance(prompt, list) and all(type(token) is int and abs(token) < 2**63 for token in prompt)
    return prompt if isinstance(prompt, list) and sound else []


def is_failed(result: Result) -> bool:
    return is_masked(result) and bool(result["instance_config"].get("mask_reason"))


def digest(prompt: Iterable[int]) -> bytes:
    ids = array("q", prompt)
    return hashlib.blake2b(ids.tobytes(), digest_size=16).digest() if ids else b""


class GroupChecker:
    """Takes results in any order; which rules they break together is known at the end."""

    def __init__(self) -> None:
        self._groups: dict[tuple[Any, ...], _GroupMembers] = {}
        self._without: list[int] = []
        """Results without an index."""

    @property
    def n_groups(self) -> int:
        return len(self._groups)

    def add(self, nth: int, result: Result) -> None:
        """Add a result, which has passed `shape_violation`. `nth`: its number in findings."""
        task = _integer(result.get(TASK))
        if task is None:
            self._without.append(nth)
            return
        key = (*(_hashable(result.get(name)) for name in GROUP_STAMPS), task)
        self._groups.setdefault(key, _GroupMembers()).add(nth, result)

    def fail(self, failed: FailedMember) -> None:
        """Note a failed member, which its group then does not miss. To be called after all results are added."""
        for (*stamps, task), group in self._groups.items():
            if task == failed.task and failed.epoch in (None, stamps[GROUP_STAMPS.index("_paddock_epoch")]):
                group.fail(failed.member)

    def findings(self) -> Iterator[ResultFinding]:
        if self._groups:
            for nth in self._without:
                yield ResultFinding(nth, breach("task_index", f"it has no `{TASK}`, and others have one"))
        for group in self._groups.values():
            yield from _check_members(group.members, len(group.failed_members))
        yield from self._check_prompts()

    def _check_prompts(self) -> Iterator[ResultFinding]:
        """Groups that have one first prompt, and failed members that have a group's."""
        owners: dict[bytes, tuple[Any, ...]] = {}
        for key, group in self._groups.items():
            for prompt in group.prompts - {b""}:
                owner = owners.setdefault(prompt, key)
                if owner[-1] != key[-1]:
                    nth = next(member.result for member in group.members if member.prompt == prompt)
                    yield ResultFinding(
                        nth, breach("groups_apart", f"tasks {owner[-1]} and {key[-1]} have one first prompt")
                    )
        for key, group in self._groups.items():
            for member in group.members:
                if member.failed and member.prompt in owners:
                    task = owners[member.prompt][-1]
                    text = (
                        f"it failed in task {key[-1]}, and has the first prompt of task {task}: give it one of its own"
                    )
                    yield ResultFinding(member.result, breach("masked_apart", text))


def check_group(results: Sequence[Result], *, size: int | None = None) -> list[Violation]:
    """The rules that the results of one group break together. `size`: the group's; None: as the results are stamped."""
    group = _GroupMembers()
    for nth, result in enumerate(results, 1):
        if shape_violation(result) is None:
            group.add(nth, result)
    members = [member._replace(size=size or member.size) for member in group.members]
    findings = list(_check_members(members))
    for member in members:
        if member.failed and member.prompt in group.prompts:
            findings.append(
                ResultFinding(member.result, breach("masked_apart", "it failed, and has its group's first prompt"))
            )
    return [
        finding.violation._replace(text=f"result {finding.result}: {finding.violation.text}") for finding in findings
    ]


def check_results(
    results: Iterable[Result], settings: CheckSettings = DEFAULTS, *, failed: Iterable[FailedMember] = ()
) -> Iterator[ResultFinding]:
    """All findings: first those of each result by itself, then those of groups. One result is in memory at a time.
    `failed` is read after all results."""
    groups = GroupChecker()
    for nth, result in enumerate(results, 1):
        violations = check_result(result, settings)
        yield from (ResultFinding(nth, violation) for violation in violations)
        if not any(violation.rule == "result" for violation in violations):
            groups.add(nth, result)
    for member in failed:
        groups.fail(member)
    yield from groups.findings()


def _check_members(members: Sequence[_MemberFacts], n_absent: int = 0) -> Iterator[ResultFinding]:
    yield from _check_complete(members, n_absent)
    yield from _check_uniform(members)
    compared = [member for member in members if not member.failed and member.prompt]
    common = Counter(member.prompt for member in compared).most_common(1)
    for member in compared:
        if member.prompt != common[0][0]:
            token = _differs_at(member, compared, common[0][0])
            yield ResultFinding(
                member.result, breach("group_prompt", "it is not its group's first prompt", token=token)
            )
    expected = max((member.size or 0 for member in members), default=0) or len(members)
    if expected > 1 and len(compared) == 1:
        text = f"of {expected} members {expected - 1} failed or are missing"
        yield ResultFinding(compared[0].result, breach("group_alone", text))


def _check_complete(members: Sequence[_MemberFacts], n_absent: int) -> Iterator[ResultFinding]:
    places = Counter(member.nth for member in members if member.nth is not None)
    for member in members:
        if member.nth is not None and places[member.nth] > 1:
            yield ResultFinding(
                member.result,
                breach("group_complete", f"member {member.nth} is there {places[member.nth]} times"),
            )
            places[member.nth] = 1
    sizes = {member.size for member in members if member.size is not None}
    if len(sizes) > 1:
        yield ResultFinding(members[0].result, breach("group_complete", f"its members say sizes {sorted(sizes)}"))
    elif sizes and len(members) + n_absent < max(sizes):
        text = f"{len(members)} of {max(sizes)} members are there"
        yield ResultFinding(members[0].result, breach("group_complete", text))


def _check_uniform(members: Sequence[_MemberFacts]) -> Iterator[ResultFinding]:
    first = members[0] if members else None
    for member in members:
        assert first is not None
        if member.agent != first.agent:
            yield ResultFinding(member.result, breach("group_agent", f"{member.agent!r}, and {first.agent!r} before"))
        if member.sampling != first.sampling:
            names = "temperature, top_p"
            yield ResultFinding(
                member.result, breach("group_sampling", f"{names} {member.sampling}, and {first.sampling} before")
            )


def _differs_at(member: _MemberFacts, compared: Sequence[_MemberFacts], common: bytes) -> int | None:
    """Where the member's first prompt differs from the common one; the group's first prompt may be the odd one."""
    if member.differs_at is not None:
        return member.differs_at
    return next((other.differs_at for other in compared if other.prompt == common), None)


def _first_difference(first: Sequence[int], second: Sequence[int]) -> int | None:
    if len(first) == len(second) and all(map(int.__eq__, first, second)):
        return None
    pairs = enumerate(zip(first, second, strict=False))
    return next((nth for nth, (left, right) in pairs if left != right), min(len(first), len(second)))


def _integer(value: Any) -> int | None:
    return value if type(value) is int else None


def _hashable(value: Any) -> Any:
    return value if isinstance(value, str | int) else None
