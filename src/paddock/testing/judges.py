"""A judge that prefers by a stated property and fails on cue; in a config `paddock.testing.judges:ScriptedJudge`.

Calls   `POST /v1/responses`. With `response_1` and `response_2` in `metadata` it compares them: JSON with `score_1`,
        `score_2` (1 to 5) and `ranking` (1 to 6; below 3.5 the first is better). Otherwise it votes on the last text
        that is enclosed in the prompt (`paddock.quote`), or on the whole of a prompt without such: `\\boxed{1}` or
        `\\boxed{-1}`.
Law     an opinion is a function of the config and the request alone, so equal requests get equal opinions; without bias
        and noise, swapped texts get swapped ones: scores change places and a ranking r becomes 7 - r. Which request an
        order or a clock makes fail (`fail_first`, `unusable_first`, `down_for_s`) is no part of that.
Counts  `requests`, `in_flight`, `most_in_flight`, `failed`, and in `seen` the last bodies.
Errors  InfraError `judge_down` (503), which may pass.
"""

import asyncio
import hashlib
import json
import time
from collections import deque
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from paddock.errors import InfraError
from paddock.http import PLAIN_RESPONSES, RESPONSES, Call, Peer, Route
from paddock.server import Handler, ModelServer, ServerConfig
from paddock.types import JsonObject, Usage
from paddock.types.responses import content_text, make_response, message_item, output_items

Key = Literal["score_1", "score_2", "ranking"]
ENCLOSED = "\n[begin "
TINY, CLEARLY, MUCH = 1e-9, 1.0, 2.5
"""Points between two texts from which a ranking says `a little better`, `better` and `much better`."""


class ScriptedJudgeConfig(ServerConfig):
    """What it likes, when it answers, and what goes wrong."""

    prefers: Literal["longer", "shorter", "contains", "hash"] = "longer"
    """`contains`: more occurrences of `needle`; `hash`: anything, but of the same texts always the same."""
    needle: str = ""
    """What `contains` counts; a vote is 1 where the judged text has it. A vote without needle is by hash."""
    noise: float = Field(default=0.0, ge=0)
    """Points by which judges (`metadata.judge_idx`) may differ from the rule on a text, up or down."""
    position_bias: float = 0.0
    """Points for whichever stands first."""
    fenced: bool = False
    """The JSON stands in a fenced block, after words."""
    omit: list[Key] = []
    """Keys that are left out."""
    unusable_share: float = Field(default=0.0, ge=0, le=1)
    """Share of requests that are answered with prose; which ones is a matter of their hash."""
    unusable_first: int = Field(default=0, ge=0)
    """The first requests are answered with prose."""
    fail_first: int = Field(default=0, ge=0)
    """The first requests fail."""
    fail_needle: str | None = None
    """A judged text that has it makes the request fail."""
    hang_needle: str | None = None
    """A judged text that has it: no answer, ever."""
    down_for_s: float = Field(default=0.0, ge=0)
    """Seconds from its start on in which every request fails; more by `go_down`."""
    delay_s: float = Field(default=0.0, ge=0)
    """Seconds before each answer."""
    delay_spread_s: float = Field(default=0.0, ge=0)
    """Up to so many seconds more, by the request's hash."""
    keep_seen: int = Field(default=1000, ge=0)
    """Bodies that `seen` keeps."""

    @model_validator(mode="after")
    def _needle_when_contained(self) -> "ScriptedJudgeConfig":
        if self.prefers == "contains" and not self.needle:
            raise ValueError("`prefers: contains` needs a `needle`")
        return self


class ScriptedJudge(ModelServer[ScriptedJudgeConfig]):
    COMPARES: ClassVar[bool] = True
    config_type = ScriptedJudgeConfig

    def __init__(self, config: ScriptedJudgeConfig, *, name: str, peers: Mapping[str, Peer]) -> None:
        super().__init__(config, name=name, peers=peers)
        self.requests = 0
        self.in_flight = 0
        self.most_in_flight = 0
        self.failed = 0
        """Requests that were answered with an error."""
        self.seen: deque[JsonObject] = deque(maxlen=config.keep_seen)
        self._up_at = time.monotonic() + config.down_for_s

    async def start(self) -> None:
        self.go_down(self.config.down_for_s)

    def go_down(self, seconds: float) -> None:
        """From now on every request fails, for so long; 0: it is up."""
        self._up_at = time.monotonic() + seconds

    def handlers(self) -> Mapping[Route[Any, Any], Handler]:
        return {PLAIN_RESPONSES: self.responses, RESPONSES: self.responses}

    async def responses(self, body: JsonObject, call: Call) -> JsonObject:
        nth = self.requests
        self.requests += 1
        self.seen.append(body)
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            return await self._answer(body, nth)
        except InfraError:
            self.failed += 1
            raise
        finally:
            self.in_flight -= 1

    async def _answer(self, body: JsonObject, nth: int) -> JsonObject:
        texts = _judged_texts(body)
        if self._has(self.config.hang_needle, texts):
            await asyncio.Event().wait()
        key = json.dumps([body.get("input"), body.get("metadata")], sort_keys=True)
        delay_s = self.config.delay_s + self.config.delay_spread_s * _share("delay", key)
        if delay_s:
            await asyncio.sleep(delay_s)
        if nth < self.config.fail_first or self._has(self.config.fail_needle, texts) or time.monotonic() < self._up_at:
            raise InfraError(f"{self.name}: down, as scripted", kind="judge_down", stage="model")
        unusable = nth < self.config.unusable_first or _share("unusable", key) < self.config.unusable_share
        text = "Both have their merits." if unusable else self._opinion(body, texts)
        usage = Usage(output_tokens=len(text.split()))
        return make_response([message_item(text)], body, model="scripted-judge", usage=usage)

    def _has(self, needle: str | None, texts: list[str]) -> bool:
        return bool(needle) and any(needle in text for text in texts if needle)

    def _opinion(self, body: JsonObject, texts: list[str]) -> str:
        if len(texts) == 1:
            return f"The step was looked at.\n\\boxed{{{self._vote(texts[0], body)}}}"
        judge = str((body.get("metadata") or {}).get("judge_idx", 0))
        judgement = self._compare(texts[0], texts[1], judge)
        judgement_text = json.dumps({key: value for key, value in judgement.items() if key not in self.config.omit})
        return f"Compared as asked.\n```json\n{judgement_text}\n```" if self.config.fenced else judgement_text

    def _vote(self, text: str, body: JsonObject) -> int:
        if self.config.needle:
            return 1 if self.config.needle in text else -1
        return 1 if _share("vote", text, json.dumps(body.get("metadata"), sort_keys=True)) < 0.5 else -1

    def _compare(self, first: str, second: str, judge: str) -> JsonObject:
        points_1, points_2 = self._points(first, second)
        points_1 += self.config.noise * (2 * _share("noise", judge, first) - 1) + self.config.position_bias
        points_2 += self.config.noise * (2 * _share("noise", judge, second) - 1)
        # A ranking has no middle: of equals the one that sorts first is a little better, wherever it stands.
        difference = points_1 - points_2 or (TINY if first <= second else -TINY)
        return {"score_1": _score(points_1), "score_2": _score(points_2), "ranking": _ranking(difference)}

    def _points(self, first: str, second: str) -> tuple[float, float]:
        """Points of each text, around 1 to 5."""
        if self.config.prefers == "hash":
            return 1 + 4 * _share("liked", first), 1 + 4 * _share("liked", second)
        sizes = [text.count(self.config.needle) for text in (first, second)]
        if self.config.prefers != "contains":
            sizes = [len(first), len(second)]
        preference = 2 * (sizes[0] - sizes[1]) / max(*sizes, 1)
        return (
            (3 - preference, 3 + preference) if self.config.prefers == "shorter" else (3 + preference, 3 - preference)
        )


def _judged_texts(body: JsonObject) -> list[str]:
    """Two texts to compare, or the one to vote on."""
    metadata = body.get("metadata")
    if isinstance(metadata, dict) and "response_1" in metadata and "response_2" in metadata:
        return [str(metadata["response_1"]), str(metadata["response_2"])]
    prompt = body.get("input")
    texts = (
        [prompt] if isinstance(prompt, str) else [content_text(item.get("content")) for item in output_items(prompt)]
    )
    return [("\n" + "\n".join(texts)).rpartition(ENCLOSED)[2]]


def _share(*parts: str) -> float:
    """From 0 to 1, by hash."""
    digest = hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:6]) / 2**48


def _score(points: float) -> int:
    return min(5, max(1, round(points)))


def _ranking(difference: float) -> int:
    """The ranking for a difference in points."""
    if difference < 0:
        return 7 - _ranking(-difference)
    return 1 if difference >= MUCH else 2 if difference >= CLEARLY else 3
