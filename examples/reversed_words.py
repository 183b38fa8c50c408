"""A taskset of verifiers 0.4 as its users write one: reverse a word, in tags. It knows nothing of this package.

paddock eval configs/verifiers_demo.yaml --oracle
"""

import re
from difflib import SequenceMatcher

import verifiers.v1 as vf

WORDS = ("paddock", "harness", "gallop", "bridle", "stable", "trot", "meadow", "saddle")


class ReversedWordData(vf.TaskData):
    answer: str


class ReversedWordTask(vf.Task[ReversedWordData]):
    @vf.reward
    async def similarity(self, trace: vf.Trace) -> float:
        tagged = re.search(r"<reversed>(.*?)</reversed>", trace.last_reply, re.DOTALL)
        return SequenceMatcher(None, tagged.group(1).strip() if tagged else "", self.data.answer).ratio()

    @vf.metric
    async def characters(self, trace: vf.Trace) -> float:
        return float(len(trace.last_reply))


class ReversedWordTaskset(vf.Taskset[ReversedWordTask, vf.TasksetConfig]):
    def load(self) -> list[ReversedWordTask]:
        ask = "Reverse this word and put the result between <reversed> tags: {}"
        return [
            ReversedWordTask(ReversedWordData(prompt=ask.format(word), answer=word[::-1]), self.config.task)
            for word in WORDS
        ]


__all__ = ["ReversedWordTaskset"]
