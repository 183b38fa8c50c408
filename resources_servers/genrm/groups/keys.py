"""Which group a row's response belongs to, and as which member.

Stamped rows (a collector's: run, group, size, epoch, cohort) name their group; rows with NeMo-Gym's fields alone have
        `_ng_task_index` or `prompt_id`, or nothing, and come in rounds of `num_rollouts_per_prompt`.
Key     of all that and of what is judged and how: the conversation, the principle, the config's `JUDGING`: members that
        differ in any of it are never compared, and a changed config begins new groups.
        A row without a member number comes in rounds too, and is the same again only as the same HTTP request is
        (`X-Request-Id`): callers may well have equal answers.
Errors  RowError for a group size out of bounds, and for a member number that its group does not have.
"""

import hashlib
import json
from typing import Any

import orjson

from paddock.errors import RowError
from paddock.resources_servers.genrm.config import GenrmConfig
from paddock.resources_servers.genrm.groups.records import GroupSlot, Submission
from paddock.resources_servers.genrm.judging.conversation import response_text
from paddock.resources_servers.genrm.judging.judges import GroupPrompt
from paddock.resources_servers.genrm.records import Candidate
from paddock.resources_servers.genrm.scoring.traits import traits_of
from paddock.types import JsonObject, Stamp

JUDGING = frozenset(
    {
        "genrm_model_server",
        "genrm_responses_create_params",
        "comparison_strategy",
        "comparison_budget",
        "num_judges_per_comparison",
        "position_swap",
        "default_score",
        "default_ranking",
    }
)
"""Fields of the config that decide what is asked and how an answer is read."""

DIGEST_CHARS = 32
"""Of SHA-256 in hex; 128 bits."""


def judging_of(config: GenrmConfig) -> str:
    """Return a digest of how groups are judged."""
    return digest_of(config.model_dump(mode="json", include=set(JUDGING)))


def slot_of(
    config: GenrmConfig, stamp: Stamp, prompt_id: str | int | None, prompt: GroupPrompt, *, judging: str
) -> GroupSlot:
    """Find a row's group and number; RowError where they are out of bounds. `judging` is what `judging_of` returns."""
    size = config.num_rollouts_per_prompt if stamp.group_size is None else stamp.group_size
    if not 1 <= size <= config.max_group_size:
        raise RowError(
            f"_paddock_group_size: {size}; a group has 1 to {config.max_group_size} members with `comparison_strategy: "
            f"{config.comparison_strategy}` and `aggregator_method: {config.aggregator_method}`",
            kind="group_size_invalid",
        )
    if stamp.member is not None and not 0 <= stamp.member < size:
        raise RowError(
            f"_ng_rollout_index: {stamp.member}, but its group has {size} members: needs 0 to {size - 1} (the size is "
            "the row's `_paddock_group_size`, else the config's `num_rollouts_per_prompt`)",
            kind="member_invalid",
        )
    named = [stamp.run_id, stamp.group_id, stamp.group_size, stamp.epoch, stamp.cohort]
    whole = [*named, prompt_id, size, prompt.history, prompt.principle, judging]
    return GroupSlot(digest_of(whole), size, stamp.member, rounds=stamp.group_size is None or stamp.member is None)


def submission_of(stamp: Stamp, response: JsonObject, request_id: str) -> Submission:
    """Make a submission of a response. `request_id` is that of its call, which a call that is sent again keeps."""
    candidate = candidate_of(response)
    digest = digest_of([request_id, response] if stamp.member is None else response)
    return Submission(stamp.attempt or 0, digest, candidate, digest_of(candidate.text))


def candidate_of(response: JsonObject) -> Candidate:
    return Candidate(text=response_text(response), traits=traits_of(response))


def digest_of(value: Any) -> str:
    """Return a digest of any JSON, whatever the order of its keys."""
    try:
        data = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except TypeError:  # numbers or characters that orjson does not write
        data = json.dumps(value, sort_keys=True).encode()
    return hashlib.sha256(data).hexdigest()[:DIGEST_CHARS]
