"""Pairs at the steps of trajectories that `paddock pivot mine --replay` played again.

Steps   rows of `candidates.jsonl` that name a snapshot which the store still has, and whose expert ran one command.
Pairs   of a step: the expert's action against other forms and near misses of it (`look_forms`; for what changes files,
        `edit_forms`, of what the change left in a sandbox), against other steps' actions of its trajectory, and against
        those of other trajectories of its instance near it. Steps take turns, so that no family crowds out others; all
        draws are by a fixed seed.
"""

import json
import random
import re
import uuid
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

from benchmarks.pivot_executed.edit_forms import ReplayedChange, forms_of_change, with_rest
from benchmarks.pivot_executed.look_forms import OTHER, any_forms, forms_of
from benchmarks.pivot_executed.pairs import Act, ActionPair, Neighbours, Start, miss, misses, shell
from paddock.resources_servers.pivot.executed.commands import command_texts
from paddock.resources_servers.pivot.executed.options import ExecutedOptions
from paddock.resources_servers.pivot.executed.runs import ACTION_ENV, ActionRunner, CallRefusedError
from paddock.sandbox import Provider, SandboxError, SandboxSpec
from paddock.sandbox.images import ImageStore
from paddock.shell import effects
from paddock.tools import ShellCommand

_FORMS_PER_STEP = 7
_PAIRS_PER_STEP = 4
"""Fewer than a step has, so that steps are left out of families that have many."""
_OTHERS_PER_STEP = 1
_NEAR_STEPS = 4
_FILE = re.compile(r"(?<![\w./-])(?:[\w-]+/)*[\w-]+\.(?:py|txt|rst|cfg|toml|html)\b")
_PATTERN = re.compile(r"grep (?:-\w+ )*['\"]([\w .:=]{3,})['\"]")
_MAX_CHANGED_FILES = 1
_WRITE_AND_REST = re.compile(r"cat [^\n;&|]*<<'?(?P<end>\w+)'?[^\n;&|]*\n.*?\n(?P=end)\n(?P<rest>.+)", re.DOTALL)
"""A here-document that is written, and what the command does behind it."""


class ReplayedStep(NamedTuple):
    """A step that can be started from."""

    trajectory: str
    instance: str
    number: int
    command: str
    start: Start


def replayed_steps(folder: Path, store: ImageStore) -> Iterator[ReplayedStep]:
    """Yield the steps of a mining's folder from which a sandbox can be started."""
    there = set(store.names())
    for line in (folder / "candidates.jsonl").read_bytes().splitlines():
        row = json.loads(line)
        snapshot, expected = row.get("snapshot"), row["expected_action"]
        if snapshot is None or snapshot["image"] not in there or expected["type"] != "function_call":
            continue
        command = json.loads(expected["arguments"]).get("command")
        if not isinstance(command, str):
            continue
        about = row["metadata"]
        start = Start(snapshot["image"], snapshot["workdir"], row["responses_create_params"]["input"])
        yield ReplayedStep(about["trajectory"], about.get("instance_id", ""), about["step"], command, start)


async def replayed_pairs(
    count: int, folders: Sequence[Path], provider: Provider, store: ImageStore, options: ExecutedOptions
) -> list[ActionPair]:
    """Draw pairs, some of each step."""
    draw = random.Random(11)
    steps = [step for folder in folders for step in replayed_steps(folder, store)]
    draw.shuffle(steps)
    used = steps[: max(1, count // _PAIRS_PER_STEP)]
    by_family: dict[str, list[list[ActionPair]]] = {}
    for step in used:
        family, acts = await _forms(step, steps, provider, options)
        drawn = draw.sample(acts, min(len(acts), _FORMS_PER_STEP))
        expected = shell("expert", step.command)
        pairs = [ActionPair(family, expected, act, step.start) for act in drawn if act.arguments != expected.arguments]
        by_family.setdefault(family, []).append(pairs + _others(step, steps, draw))
    return _in_turn(by_family, count)


def _in_turn(by_family: dict[str, list[list[ActionPair]]], count: int) -> list[ActionPair]:
    """Take a step of each family in turn."""
    pairs: list[ActionPair] = []
    queues = [list(steps) for _, steps in sorted(by_family.items())]
    while any(queues) and len(pairs) < count:
        for queue in queues:
            if queue:
                pairs += queue.pop()
    return pairs[:count]


def _others(step: ReplayedStep, steps: Sequence[ReplayedStep], draw: random.Random) -> list[ActionPair]:
    own = [one for one in steps if one.trajectory == step.trajectory and one.number != step.number]
    beside = [
        one
        for one in steps
        if one.instance == step.instance
        and one.trajectory != step.trajectory
        and abs(one.number - step.number) <= _NEAR_STEPS
    ]
    expected = shell("expert", step.command)
    return [
        ActionPair(family, expected, miss(family, other.command), step.start)
        for family, pool in (("other steps", own), ("other trajectories", beside))
        for other in draw.sample(pool, min(len(pool), _OTHERS_PER_STEP))
        if other.command != step.command
    ]


async def _forms(
    step: ReplayedStep, steps: Sequence[ReplayedStep], provider: Provider, options: ExecutedOptions
) -> tuple[str, list[Act]]:
    texts = [one.command for one in steps if one.trajectory == step.trajectory and one.number != step.number]
    paths = sorted({path for text in texts for path in _FILE.findall(text)})
    patterns = sorted({pattern for text in texts for pattern in _PATTERN.findall(text)})
    random.Random(step.number).shuffle(paths)
    family, acts = forms_of(step.command, Neighbours(paths, patterns, step.start.workdir))
    if family != OTHER:
        return family, acts
    if effects(step.command).reads_only:
        return "other looks", acts
    change = await _change(step, provider, options)
    if change is None:
        return family, acts
    forms = forms_of_change(change, step.start.workdir)
    if change.shows:
        rest = _WRITE_AND_REST.fullmatch(step.command)
        forms = [*misses(forms), *(with_rest(forms, rest["rest"]) if rest else [])]
    forms += any_forms(step.command, step.start.workdir)
    return ("new files" if change.is_new else "edits"), forms


async def _change(step: ReplayedStep, provider: Provider, options: ExecutedOptions) -> ReplayedChange | None:
    """Return what the step's command changes; None: not one text below the step's directory."""
    spec = SandboxSpec(image=step.start.image, workdir=step.start.workdir, env=ACTION_ENV, purpose="grading")
    handle = await provider.create(spec, request_id=uuid.uuid4().hex)
    try:
        runner = ActionRunner(provider, handle.sandbox_id, step.start.workdir, options)
        shown = await runner.show(ShellCommand(step.command))
        changes = await provider.changes(handle.sandbox_id)
        ignored = options.ignored_paths
        files = [
            one
            for one in changes
            if one.type == "file" and not any(fnmatchcase(one.path, pattern) for pattern in ignored)
        ]
        if len(files) != _MAX_CHANGED_FILES or files[0].kind == "removed":
            return None
        path = files[0].path
        after = (await provider.read(handle.sandbox_id, path)).decode()
        before = await _text_before(step, path, provider)
        inside = path.removeprefix(f"{step.start.workdir}/")
        shows = bool(shown.strip()) and not command_texts([ShellCommand(step.command)], step.start.workdir).only_changes
        return None if inside == path else ReplayedChange(inside, before or "", after, before is None, shows)
    except (CallRefusedError, SandboxError, UnicodeDecodeError):
        return None
    finally:
        await provider.destroy(handle.sandbox_id)


async def _text_before(step: ReplayedStep, path: str, provider: Provider) -> str | None:
    spec = SandboxSpec(image=step.start.image, workdir=step.start.workdir, purpose="grading")
    handle = await provider.create(spec, request_id=uuid.uuid4().hex)
    try:
        return (await provider.read(handle.sandbox_id, path)).decode()
    except FileNotFoundError:
        return None
    finally:
        await provider.destroy(handle.sandbox_id)
