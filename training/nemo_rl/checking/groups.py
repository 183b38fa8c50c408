"""What is wrong between results: NeMo-RL makes groups by first prompt, whatever a row's index says.

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

from paddock.training.nemo_rl.checking.results import DEFAULTS, check_result, is_masked, shape_flaw
from paddock.training.nemo_rl.checking.rules import broken
from paddock.training.nemo_rl.checking.settings import CheckSettings
from paddock.training.nemo_rl.checking.turns import turns_of
from paddock.training.nemo_rl.records import Result, Violation

TASK, MEMBER, SIZE = "_ng_task_index", "_ng_rollout_index", "_paddock_group_size"
APART = ("_paddock_run_id", "_paddock_epoch", "_paddock_cohort")
"""With these a task's index comes again, of another group."""


class Finding(NamedTuple):
    """A rule that is broken, and by which result."""

    result: int
    """Its place among the results, from 1."""
    violation: Violation

    def __str__(self) -> str:
        return f"{self.result}: {self.violation}"


class _Member(NamedTuple):
    result: int
    nth: int | None
    """Which member of its group it says that it is."""
    size: int | None
    """How many members it says that there are."""
    prompt: bytes
    """Digest of its first prompt; empty: it has none."""
    differs_at: int | None
    """Where that differs from the group's first that was seen."""
    failed: bool
    agent: str | None
    sampling: tuple[Any, Any]


class _Group:
    """One group's members, as they come."""

    def __init__(self) -> None:
        self.members: list[_Member] = []
        self.absent: set[int] = set()
        """Members that failed, and have no result."""
        self._prompt: Sequence[int] | None = None
        """Of the first member that did not fail."""

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
            _Member(
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
        """A member that has no result, or another attempt's."""
        if member not in {one.nth for one in self.members}:
            self.absent.add(member)

    @property
    def prompts(self) -> set[bytes]:
        """Of those that are compared."""
        return {member.prompt for member in self.members if not member.failed}


def first_prompt(result: Result) -> list[int]:
    """Empty: there is none that could be compared."""
    first = next(turns_of(result), None)
    prompt = first.prompt if first else None
    sound = isinstance(prompt, list) and all(type(one) is int and abs(one) < 2**63 for one in prompt)
    return prompt if isinstance(prompt, list) and sound else []


def is_failed(result: Result) -> bool:
    return is_masked(result) and bool(result["instance_config"].get("mask_reason"))


def digest(prompt: Iterable[int]) -> bytes:
    ids = array("q", prompt)
    return hashlib.blake2b(ids.tobytes(), digest_size=16).digest() if ids else b""


class GroupChecker:
    """Takes results in any order; what is wrong between them is known at the end."""

    def __init__(self) -> None:
        self._groups: dict[tuple[Any, ...], _Group] = {}
        self._without: list[int] = []
        """Results without an index."""

    @property
    def n_groups(self) -> int:
        return len(self._groups)

    def add(self, nth: int, result: Result) -> None:
        """`nth`: what findings call it. The result has its shape."""
        task = _integer(result.get(TASK))
        if task is None:
            self._without.append(nth)
            return
        key = (*(_plain(result.get(name)) for name in APART), task)
        self._groups.setdefault(key, _Group()).add(nth, result)

    def fail(self, task: int, member: int) -> None:
        """A member that has failed: its group does not miss it. It is known after all results."""
        for key, group in self._groups.items():
            if key[-1] == task:
                group.fail(member)

    def findings(self) -> Iterator[Finding]:
        if self._groups:
            for nth in self._without:
                yield Finding(nth, broken("task_index", f"it has no `{TASK}`, and others have one"))
        for group in self._groups.values():
            yield from _check_members(group.members, len(group.absent))
        yield from self._apart()

    def _apart(self) -> Iterator[Finding]:
        """What stands on one prompt, or on a failed one's."""
        owners: dict[bytes, tuple[Any, ...]] = {}
        for key, group in self._groups.items():
            for prompt in group.prompts - {b""}:
                owner = owners.setdefault(prompt, key)
                if owner[-1] != key[-1]:
                    nth = next(one.result for one in group.members if one.prompt == prompt)
                    yield Finding(nth, broken("groups_apart", f"tasks {owner[-1]} and {key[-1]} have one first prompt"))
        for key, group in self._groups.items():
            for member in group.members:
                if member.failed and member.prompt in owners:
                    task = owners[member.prompt][-1]
                    text = (
                        f"it failed in task {key[-1]}, and has the first prompt of task {task}: give it one of its own"
                    )
                    yield Finding(member.result, broken("masked_apart", text))


def check_group(results: Sequence[Result], *, size: int | None = None) -> list[Violation]:
    """What is wrong between the results of one group; each by itself is another matter. `size`: how many there are to
    be; None: as they say."""
    group = _Group()
    for nth, result in enumerate(results, 1):
        if shape_flaw(result) is None:
            group.add(nth, result)
    members = [member._replace(size=size or member.size) for member in group.members]
    found = list(_check_members(members))
    for member in members:
        if member.failed and member.prompt in group.prompts:
            found.append(Finding(member.result, broken("masked_apart", "it failed, and has its group's first prompt")))
    return [one.violation._replace(text=f"result {one.result}: {one.violation.text}") for one in found]


def check_results(
    results: Iterable[Result], settings: CheckSettings = DEFAULTS, *, failed: Iterable[tuple[int, int]] = ()
) -> Iterator[Finding]:
    """One result in memory at a time. First what is wrong with each by itself, then between them. `failed`: task and
    member of those that failed and may have no result; asked for after all results."""
    groups = GroupChecker()
    for nth, result in enumerate(results, 1):
        found = check_result(result, settings)
        yield from (Finding(nth, violation) for violation in found)
        if not any(violation.rule == "result" for violation in found):
            groups.add(nth, result)
    for task, member in failed:
        groups.fail(task, member)
    yield from groups.findings()


def _check_members(members: Sequence[_Member], n_absent: int = 0) -> Iterator[Finding]:
    yield from _complete(members, n_absent)
    yield from _one_of_each(members)
    compared = [member for member in members if not member.failed and member.prompt]
    common = Counter(member.prompt for member in compared).most_common(1)
    for member in compared:
        if member.prompt != common[0][0]:
            token = _differs_at(member, compared, common[0][0])
            yield Finding(member.result, broken("group_prompt", "it is not its group's first prompt", token=token))
    meant = max((member.size or 0 for member in members), default=0) or len(members)
    if meant > 1 and len(compared) == 1:
        text = f"of {meant} members {meant - 1} failed or are missing"
        yield Finding(compared[0].result, broken("group_alone", text))


def _complete(members: Sequence[_Member], n_absent: int) -> Iterator[Finding]:
    places = Counter(member.nth for member in members if member.nth is not None)
    for member in members:
        if member.nth is not None and places[member.nth] > 1:
            yield Finding(
                member.result, broken("group_complete", f"member {member.nth} is there {places[member.nth]} times")
            )
            places[member.nth] = 1
    sizes = {member.size for member in members if member.size is not None}
    if len(sizes) > 1:
        yield Finding(members[0].result, broken("group_complete", f"its members say sizes {sorted(sizes)}"))
    elif sizes and len(members) + n_absent < max(sizes):
        text = f"{len(members)} of {max(sizes)} members are there"
        yield Finding(members[0].result, broken("group_complete", text))


def _one_of_each(members: Sequence[_Member]) -> Iterator[Finding]:
    first = members[0] if members else None
    for member in members:
        assert first is not None
        if member.agent != first.agent:
            yield Finding(member.result, broken("group_agent", f"{member.agent!r}, and {first.agent!r} before"))
        if member.sampling != first.sampling:
            names = "temperature, top_p"
            yield Finding(
                member.result, broken("group_sampling", f"{names} {member.sampling}, and {first.sampling} before")
            )


def _differs_at(member: _Member, compared: Sequence[_Member], common: bytes) -> int | None:
    """The first that was seen may itself be the odd one."""
    if member.differs_at is not None:
        return member.differs_at
    return next((other.differs_at for other in compared if other.prompt == common), None)


def _first_difference(first: Sequence[int], second: Sequence[int]) -> int | None:
    if len(first) == len(second) and all(map(int.__eq__, first, second)):
        return None
    pairs = enumerate(zip(first, second, strict=False))
    return next((nth for nth, (one, other) in pairs if one != other), min(len(first), len(second)))


def _integer(value: Any) -> int | None:
    return value if type(value) is int else None


def _plain(value: Any) -> Any:
    return value if isinstance(value, str | int) else None
