"""Fidelity over an engine function whose answers are aborted again and again: samples are what they are without."""

from collections.abc import AsyncGenerator, Sequence
from typing import Any, Literal

from paddock.http import Call
from paddock.lab.fidelity import find_scenarios, find_subjects, language, report
from paddock.lab.fidelity.bench import LoggedEngine
from paddock.rollouts import Completion
from paddock.server.exact.engine import Chunk
from paddock.server.exact.functions import FunctionEngine
from paddock.testing.engines import EngineCall, SampledAnswer, log_prob
from paddock.types import JsonObject


class AbortingFunction:
    """A trainer's function: each call of it samples a few ids of what the policy says, under the next weights."""

    def __init__(self, policy: Any, ids_per_call: int) -> None:
        self.versions = 0
        self._policy = policy
        self._ids_per_call = ids_per_call
        self._prompt: list[int] = []
        self._answer = SampledAnswer([])

    async def __call__(self, ids: list[int], sampling: JsonObject, *, rollout: str | None) -> Completion:
        done = len(ids) - len(self._prompt)
        if not (0 < done < len(self._answer.ids) and ids == [*self._prompt, *self._answer.ids[:done]]):
            self._prompt, done = ids, 0
            self._answer = self._policy(ids)
        end = done + self._ids_per_call
        part = self._answer.ids[done:end]
        self.versions += 1
        log_probs = [log_prob(done + nth, token) for nth, token in enumerate(part)]
        whole: Literal["stop", "length"] = "length" if self._answer.finish_reason == "length" else "stop"
        return Completion(part, log_probs, whole if end >= len(self._answer.ids) else "abort", self.versions)


class LoggedFunctionEngine(FunctionEngine):
    def __init__(self, function: AbortingFunction) -> None:
        super().__init__(function, first_retry_s=0.0)
        self.calls: list[EngineCall] = []

    async def generate(
        self, prompt_ids: Sequence[int], params: JsonObject, call: Call, *, rollout: str | None, stream: bool = True
    ) -> AsyncGenerator[Chunk, None]:
        chunks = [chunk async for chunk in super().generate(prompt_ids, params, call, rollout=rollout, stream=stream)]
        ids = [one for chunk in chunks for one in chunk.ids]
        log_probs = [one for chunk in chunks for one in chunk.log_probs]
        self.calls.append(EngineCall(list(prompt_ids), ids, params, log_probs))
        for chunk in chunks:
            yield chunk


async def test_fidelity_is_what_it_is_over_a_scripted_engine() -> None:
    functions: list[AbortingFunction] = []

    def aborting(_language: Any, policy: Any) -> LoggedEngine:
        functions.append(AbortingFunction(policy, 7))
        return LoggedFunctionEngine(functions[-1])

    subjects = find_subjects(["codex", "codeact", "opencode", "client:claude_code"])
    over, scenarios = [language("thinking")], find_scenarios()
    found = await report(subjects, over, scenarios, make_engine=aborting)
    expected = await report(subjects, over, scenarios)
    assert functions[0].versions > 2 * sum(len(one.runs) for one in found.combinations)
    for one, other in zip(found.combinations, expected.combinations, strict=True):
        assert [run.problem for run in one.runs] == [None] * len(one.runs)
        assert (one.subject, one.verdict, one.runs) == (other.subject, other.verdict, other.runs)
