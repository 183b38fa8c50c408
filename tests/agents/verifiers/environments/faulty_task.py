"""A taskset whose tasks fail on cue; `mark` is in the command line of what they leave running."""

import asyncio
import os
import subprocess

import verifiers.v1 as vf


class FaultyData(vf.TaskData):
    cue: str
    mark: str = "31557600"


class FaultyTask(vf.Task[FaultyData]):
    async def setup(self, trace: vf.Trace, runtime: vf.Runtime) -> None:
        if self.data.cue == "setup_raises":
            raise KeyError("no such table")
        if self.data.cue == "leaves_program":
            subprocess.Popen(["sleep", self.data.mark], start_new_session=True)  # noqa: ASYNC220 - it is small
        if self.data.cue == "setup_hangs":
            subprocess.Popen(["sleep", self.data.mark], start_new_session=True)  # noqa: ASYNC220 - it is small
            await asyncio.Event().wait()
        if self.data.cue == "setup_exits":
            os._exit(9)

    @vf.stop
    async def stops(self, trace: vf.Trace) -> bool:
        if self.data.cue == "stop_raises":
            raise ValueError("stop")
        return False

    @vf.reward
    async def judged(self, trace: vf.Trace) -> float:
        match self.data.cue:
            case "reward_raises":
                raise ZeroDivisionError("reward")
            case "reward_nan":
                return float("nan")
            case "reward_text":
                return "nonsense"
            case "reward_hangs":
                await asyncio.Event().wait()
            case "reward_blocks":
                while True:
                    pass
            case "reward_exits":
                os._exit(3)
        return 1.0


class FaultyTaskset(vf.Taskset[FaultyTask, vf.TasksetConfig]):
    def load(self) -> list[FaultyTask]:
        return [FaultyTask(FaultyData(prompt="Do it.", cue="none"), self.config.task)]


__all__ = ["FaultyTaskset"]
