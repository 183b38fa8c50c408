"""The teachers of a run: servers that say how likely they hold what the policy sampled.

Law     what is scored are the sample's own ids, never its text; the ids are the teacher's too, because at the start
        both tokenise a probe alike: words of several scripts, every mark, a spread of the vocabulary. A sample whose
        scores do not come, or are not one log-prob for each of its ids, is without them, and is masked for that.
Scores  vLLM's `prompt_logprobs`, at temperature 1: of the whole distribution, whatever the policy's sampling.
Errors  ConfigError for a teacher with another vocabulary; InfraError `teacher_unreachable` for one that does not answer
        or score at the start, `teacher_failed` where no sample was scored for `max_silence_s`, or one after the other
        failed.
"""

import asyncio
import logging
import math
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import numpy as np

from paddock.errors import ConfigError, InfraError, PaddockError
from paddock.http.transport import make_session
from paddock.server.engine_client import EngineClient
from paddock.tokens.vocabulary import Vocabulary
from paddock.training.core.records import Member, MemberSample
from paddock.training.grpo.distillation_config import DistillationConfig, TeacherServer
from paddock.types import JsonObject

_log = logging.getLogger("paddock.training")
START_TIMEOUT_S = 60.0
FIRST_WAIT_S = 1.0
"""Pause before the second attempt; it doubles with each."""
ZERO = -9999.0
"""vLLM's log-prob of what has the probability 0: JSON has no infinity."""
LARGEST = 1e-3
"""The largest log-prob: 0, and what rounding may add."""
MAX_FAILURES_IN_A_ROW = 256
"""Samples in a row without scores of one teacher with which a run does not go on: it would train on none of them."""
PROBED_IDS = 512
SCORED_IDS = 32
"""Of the probe, at the start."""
WORDS = (
    "def f(x): return x['key'] != 3.14159  # 1234567890\n\n\tNaïve café — “quoted” 東京 Привет مرحبا 🙂 \r\n    }});"
)


class Teachers:
    """Scores samples. `start` is called first."""

    def __init__(self, config: DistillationConfig, vocabulary: Path) -> None:
        """`vocabulary`: the folder of the policy's tokenizer."""
        self._config = config
        self._vocabulary = vocabulary
        self._stack = AsyncExitStack()
        self._teachers: Mapping[str, _Teacher] = {}

    async def start(self) -> None:
        """Reach every teacher, hold its vocabulary against the policy's, and have it score a little."""
        session = await self._stack.enter_async_context(make_session())
        used = set(self._config.teacher_model_by_agent_name.values())
        self._teachers = {
            model: _Teacher(model, server, EngineClient(session, _root(server.base_url), server.api_key))
            for model, server in self._config.servers.items()
            if model in used
        }
        vocabulary = Vocabulary.load(self._vocabulary)
        probe = probe_text(vocabulary)
        ids = vocabulary.encode(probe)
        await asyncio.gather(*(teacher.require_scores(probe, ids) for teacher in self._teachers.values()))

    async def scored(self, members: Sequence[Member]) -> tuple[Member, ...]:
        """The members, their samples with the log-probs of their agent's teacher."""
        return tuple(await asyncio.gather(*map(self._member, members)))

    async def stop(self) -> None:
        await self._stack.aclose()

    async def _member(self, member: Member) -> Member:
        model = self._config.teacher_of(member.agent)
        if model is None or not member.samples:
            return member
        samples = await asyncio.gather(*(self._sample(self._teachers[model], sample) for sample in member.samples))
        return member._replace(samples=tuple(samples))

    async def _sample(self, teacher: "_Teacher", sample: MemberSample) -> MemberSample:
        try:
            log_probs = await teacher.log_probs(sample.ids.tolist())
        except PaddockError as error:
            teacher.failures_in_a_row += 1
            _log.warning(
                "teacher %s: a sample of %s tokens is masked: %s", teacher.name, len(sample.ids), error.message
            )
            if (given_up := teacher.given_up) is not None:
                text = f"no sample was scored, {given_up}: {error.message}"
                raise InfraError(f"teacher {teacher.name}: {text}", kind="teacher_failed") from error
            return sample
        teacher.failures_in_a_row = 0
        return sample._replace(teacher_log_probs=np.array(log_probs, np.float32))


class _Teacher:
    def __init__(self, name: str, server: TeacherServer, client: EngineClient) -> None:
        self.name = name
        self.failures_in_a_row = 0
        self._server = server
        self._client = client
        self._room = asyncio.Semaphore(server.concurrency)
        self._silent_since: float | None = None
        """The loop's time at which the first call after the last answer was made; None: there was none."""

    @property
    def given_up(self) -> str | None:
        """Why it is taken for dead, in words; None: it is not."""
        if self.failures_in_a_row >= MAX_FAILURES_IN_A_ROW:
            return f"{self.failures_in_a_row} times in a row"
        silent_s = 0.0 if self._silent_since is None else asyncio.get_running_loop().time() - self._silent_since
        return f"for {silent_s:.0f} s (max_silence_s)" if silent_s >= self._server.max_silence_s else None

    async def require_scores(self, probe: str, ids: Sequence[int]) -> None:
        """Raise an error where it tokenises the probe otherwise, or does not score its beginning."""
        body: JsonObject = {"model": self._model, "prompt": probe, "add_special_tokens": False}
        try:
            self._require_same_ids(await self._client.post("/tokenize", body, START_TIMEOUT_S), ids)
            await self._scores(ids[:SCORED_IDS], START_TIMEOUT_S)
        except ConfigError:
            raise
        except PaddockError as error:
            text = f"on_policy_distillation.servers.{self.name}: {error.message}"
            raise InfraError(text, kind="teacher_unreachable", retryable=False) from error

    def _require_same_ids(self, reply: Any, ids: Sequence[int]) -> None:
        theirs = reply.get("tokens") if isinstance(reply, dict) else None
        if not isinstance(theirs, list):
            what = "has no /tokenize, by which its vocabulary is held against the policy's"
        elif theirs == ids:
            return
        else:
            at = next((nth for nth, pair in enumerate(zip(theirs, ids, strict=False)) if pair[0] != pair[1]), len(ids))
            what = (
                "has another vocabulary than the policy, so that ids mean other texts there: of a probe, token "
                f"{at} is {_at(theirs, at)} there and {_at(ids, at)} here"
            )
        raise ConfigError(f"on_policy_distillation.servers.{self.name}: {self._client.host} {what}", kind="teacher")

    async def log_probs(self, ids: Sequence[int]) -> list[float]:
        """One for each id; that of the first, which nothing predicts, is 0."""
        async with self._room:
            for attempts_left in reversed(range(self._server.max_attempts)):
                if self._silent_since is None:
                    self._silent_since = asyncio.get_running_loop().time()
                try:
                    found = await self._scores(ids, self._server.timeout_s)
                except PaddockError as error:
                    if not error.retryable:
                        self._silent_since = None  # it answered, though without scores
                    if not attempts_left or not error.retryable or self.given_up is not None:
                        raise
                else:
                    self._silent_since = None
                    return found
                await asyncio.sleep(FIRST_WAIT_S * 2 ** (self._server.max_attempts - 1 - attempts_left))
        raise AssertionError("unreachable")

    @property
    def _model(self) -> str:
        return self._server.model or self.name

    async def _scores(self, ids: Sequence[int], timeout_s: float) -> list[float]:
        body = {"model": self._model, "prompt": list(ids), "max_tokens": 1, "temperature": 1.0, "prompt_logprobs": 0}
        return read_log_probs(await self._client.post("/v1/completions", body, timeout_s), ids)


def probe_text(vocabulary: Vocabulary) -> str:
    """A text that another vocabulary tokenises otherwise: words of several scripts, every mark, a spread of the ids."""
    step = max(1, len(vocabulary) // PROBED_IDS)
    spread = (vocabulary.decode([one]) for one in range(0, len(vocabulary), step))
    return "".join([WORDS, *vocabulary.mark_ids, *(text for text in spread if "\ufffd" not in text)])


def read_log_probs(reply: Any, ids: Sequence[int]) -> list[float]:
    """The log-probs in an answer of vLLM's. InfraError where it has not one finite number for each id but the first."""
    try:
        given = reply["choices"][0]["prompt_logprobs"]
        values = [float(entry[str(one)]["logprob"]) for entry, one in zip(given[1:], ids[1:], strict=True)]
    except (KeyError, IndexError, TypeError, ValueError) as error:
        text = f"gave no log-prob of each of {len(ids)} ids (`prompt_logprobs`): {type(error).__name__} {error}"
        raise InfraError(f"the teacher's server {text}", kind="teacher_answer", retryable=False) from error
    if not all(math.isfinite(value) and ZERO < value <= LARGEST for value in values):
        text = "the teacher's server gave a token the probability 0, one above 1, or none"
        raise InfraError(text, kind="teacher_answer", retryable=False)
    return [0.0, *values]


def _root(url: str) -> str:
    return url.rstrip("/").removesuffix("/v1")


def _at(ids: Sequence[int], at: int) -> str:
    return str(ids[at]) if at < len(ids) else "none"
