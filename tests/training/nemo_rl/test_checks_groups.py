"""Claims about groups: what is accepted is compared by NeMo-RL, which goes by first prompts, as its indices say.

Its way is worked out here by itself: results with one first prompt are a group, whatever failed among them too.
"""

from collections import defaultdict
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from paddock.training.nemo_rl.checks import check_results
from paddock.types import JsonObject

FAILED = 99


class IndexedResults(NamedTuple):
    task: int
    prompt: tuple[int, ...]
    failed: bool


@st.composite
def batches(draw: st.DrawFn) -> list[IndexedResults]:
    """Groups of two to four whose prompts may be alike; now and then a member with another's, or one that failed."""
    found = []
    prompts = st.lists(st.integers(1, 2), min_size=1, max_size=3).map(tuple)
    for task in range(draw(st.integers(1, 3))):
        prompt = draw(prompts)
        for _ in range(draw(st.integers(2, 4))):
            kind = draw(st.sampled_from(["like the others"] * 9 + ["other", "failed", "failed, and like the others"]))
            own = draw(prompts) if kind == "other" else (FAILED,) if kind == "failed" else prompt
            found.append(IndexedResults(task, own, kind.startswith("failed")))
    return draw(st.permutations(found))


def result(run: IndexedResults, member: int, size: int) -> JsonObject:
    tokens = {
        "prompt_token_ids": list(run.prompt),
        "generation_token_ids": [5],
        "generation_log_probs": [-0.5],
    }
    config = {"mask_sample": True, "mask_reason": "infra"} if run.failed else {"mask_sample": False}
    stamps = {"_ng_task_index": run.task, "_ng_rollout_index": member, "_paddock_group_size": size}
    rest = {"responses_create_params": {"input": []}, "reward": 0.0, "instance_config": config}
    return {**stamps, **rest, "response": {"output": [{"type": "message", **tokens}]}}


@settings(max_examples=60)
@given(batches())
def test_what_is_accepted_is_compared_as_it_is_meant_and_nothing_else_is_refused(batch: list[IndexedResults]) -> None:
    by_prompt = defaultdict(set)
    by_task = defaultdict(set)
    for nth, run in enumerate(batch):
        by_prompt[run.prompt].add(nth)
        if not run.failed:
            by_task[run.task].add(nth)
    groups = [by_prompt[run.prompt] for run in batch]
    as_meant = all(
        run.failed or (groups[nth] == by_task[run.task] and len(groups[nth]) > 1) for nth, run in enumerate(batch)
    )
    counts: dict[int, int] = defaultdict(int)
    results = []
    for run in batch:
        size = sum(other.task == run.task for other in batch)
        results.append(result(run, counts[run.task], size))
        counts[run.task] += 1
    assert (list(check_results(results)) == []) == as_meant
