"""`python -m tests.e2e.learning.driver CONFIG --out FOLDER [--control NAME] [--record FILE] [--resume] OVERRIDE...`

Trains as `paddock train` does, with something between the loop and its roles that takes away what it could learn from:
`turned`, the sign of each advantage; `shuffled`, rewards drawn anew among the members of a group. Runs under an
interpreter with torch and vLLM. `--record FILE`: each batch is written down. `--make-rooms FOLDER`: rows and a model
of `rooms`, with `--pause-s` those of several wordings, some of which pause; `--make-mender FOLDER`: those of
`mender_task`; `--make-teacher FOLDER`: a teacher for the demonstration that was made there.
"""

import argparse
import random
import sys
from pathlib import Path
from typing import Any

from tests.e2e.learning import mender_task, rooms, teacher_task
from tests.e2e.learning.batch_record import RecordingPolicy

from paddock.training.core.records import Batch, Group
from paddock.training.grpo.read_config import read_config
from paddock.training.grpo.roles import GroupJob, TrainResult
from paddock.training.grpo.train import Roles, train


class _NegatedAdvantages:
    def __init__(self, policy: Any) -> None:
        self._policy = policy

    def __getattr__(self, name: str) -> Any:
        return getattr(self._policy, name)

    async def train(self, batch: Batch) -> TrainResult:
        rows = [row._replace(advantages=-row.advantages) for row in batch.rows]
        trained: TrainResult = await self._policy.train(batch._replace(rows=rows))
        return trained


class _ShuffledRewards:
    def __init__(self, rollouts: Any) -> None:
        self._rollouts = rollouts

    def __getattr__(self, name: str) -> Any:
        return getattr(self._rollouts, name)

    async def run_group(self, work: GroupJob, version: int) -> Group:
        group: Group = await self._rollouts.run_group(work, version)
        rewards = [member.reward for member in group.members]
        random.Random(work.id).shuffle(rewards)
        members = (member._replace(reward=reward) for member, reward in zip(group.members, rewards, strict=True))
        return group._replace(members=tuple(members))


def turned(roles: Roles) -> Roles:
    return roles._replace(policy=_NegatedAdvantages(roles.policy))


def shuffled(roles: Roles) -> Roles:
    return roles._replace(rollouts=_ShuffledRewards(roles.rollouts))


CONTROLS = {"none": lambda roles: roles, "turned": turned, "shuffled": shuffled}


def around(roles: Roles, args: argparse.Namespace) -> Roles:
    roles = CONTROLS[args.control](roles)
    return roles._replace(policy=RecordingPolicy(roles.policy, args.record)) if args.record else roles


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("config", nargs="*", help="a file, and overrides")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--control", choices=list(CONTROLS), default="none")
    parser.add_argument("--record", type=Path)
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--make-rooms", type=Path)
    parser.add_argument("--make-mender", type=Path)
    parser.add_argument("--make-teacher", type=Path)
    parser.add_argument("--pause-s", type=float)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    if args.make_rooms:
        rooms.make(args.make_rooms, seed=args.seed, pause_s=args.pause_s)
        return 0
    if args.make_mender:
        mender_task.make(args.make_mender, seed=args.seed)
        return 0
    if args.make_teacher:
        teacher_task.make(args.make_teacher, seed=args.seed)
        return 0
    read = read_config(args.config[:1], args.config[1:])
    return train(read, args.out, resume=args.resume, wrap_roles=lambda roles: around(roles, args))


if __name__ == "__main__":
    sys.exit(main())
