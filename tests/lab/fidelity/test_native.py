"""Claims about native harnesses in the report: each is exact in every scenario that it does not branch in by design."""

from typing import Any

import pytest

from paddock.errors import ConfigError
from paddock.lab.fidelity import SCENARIOS
from paddock.lab.fidelity.native import NativeSubject
from paddock.lab.fidelity.report import NATIVE


@pytest.mark.slow
@pytest.mark.parametrize("spec", NATIVE)
async def test_native_harnesses_are_exact(spec: str, run_subject: Any) -> None:
    found = await run_subject(NativeSubject(spec))
    assert [run.scenario for run in found.runs] == list(SCENARIOS)
    assert (found.verdict, found.worse, found.total.forks, found.total.append_only) == ("exact", [], 0, 1.0)
    assert found.total.dropped_tokens == found.total.unproven_tokens == 0
    assert found.total.tokenising < 1.0
    runs = {run.scenario: run for run in found.runs}
    assert (runs["loop"].requests, runs["loop"].figures.calls) == (13, 13)
    assert runs["retry"].requests == runs["retry"].figures.calls + 2, "a retry was sampled again"
    for branched in ("title", "forget"):
        assert (runs[branched].verdict, runs[branched].verdict_in_combination, runs[branched].figures.forks) == (
            "split",
            "exact",
            1,
        )
    assert runs["forget"].figures.prefix_factor > 1.1, "nothing was left out"


@pytest.mark.parametrize("template", ["stripped_reasoning", "merged_results", "sorted_arguments", "plain_marks"])
async def test_templates_that_rewrite_the_past_change_nothing(
    template: str, run_subject: Any, template_language: Any
) -> None:
    found = await run_subject(
        NativeSubject("codex"), ("parallel", "talk", "spelling", "uncommon_ids"), over=template_language(template)
    )
    assert (found.verdict, found.total.append_only) == ("exact", 1.0)


@pytest.mark.parametrize("spec", ["gold", "null"])
async def test_a_harness_that_asks_no_model_is_refused(spec: str, run_subject: Any) -> None:
    with pytest.raises(ConfigError, match="asks no model"):
        await run_subject(NativeSubject(spec))
