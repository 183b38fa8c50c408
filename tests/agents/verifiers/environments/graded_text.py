"""A taskset with two weighted rewards, metrics, a stop condition of its own, and a system prompt."""

import verifiers.v1 as vf


class GradedTextData(vf.TaskData):
    answer: str
    stop_word: str


class GradedTextTask(vf.Task[GradedTextData]):
    @vf.stop
    async def stop_word_seen(self, trace: vf.Trace) -> bool:
        return self.data.stop_word in trace.last_reply

    @vf.reward
    async def holds_answer(self, trace: vf.Trace) -> float:
        return float(self.data.answer in "".join(message.content or "" for message in trace.assistant_messages))

    @vf.reward(weight=-0.125)
    async def length(self, trace: vf.Trace) -> float:
        return len(trace.last_reply) / 7

    @vf.metric
    async def counts(self, trace: vf.Trace) -> dict:
        return {"turns": trace.num_turns, "words": len(trace.last_reply.split())}


class GradedTextConfig(vf.TasksetConfig):
    tasks: int = 208


class GradedTextTaskset(vf.Taskset[GradedTextTask, GradedTextConfig]):
    def load(self) -> list[GradedTextTask]:
        return [
            GradedTextTask(
                GradedTextData(
                    prompt=f"Task {number}: say {number * 37}.",
                    system_prompt="Be brief.",
                    answer=str(number * 37),
                    stop_word="HALT",
                ),
                self.config.task,
            )
            for number in range(self.config.tasks)
        ]


__all__ = ["GradedTextTaskset"]
