"""How a program's run has ended, from what it did and what its model was asked.

Law     what the policy brought about is an `Exit`: a limit of its rollout, an answer that was cut, its sandbox's
        memory. A program that ends otherwise than by its own success, and that nobody told to, has failed: InfraError,
        which carries no reward. So has one that ended well and never asked its model. One that was sent a signal after
        it had asked its model may have been sent it by what the model had it run: that failure is doubtful.
Limits  the model server refuses a call beyond one; which it was is read from the record and the clock.
"""

import signal
import time

from paddock.errors import InfraError
from paddock.harness.contract import Exit, ExitReason, Model, RunLimits
from paddock.harness.programs.step_recorder import CUT, StepRecorder
from paddock.harness.results import ProgramOutput
from paddock.sandbox.ends import SENT

_SHOWN = 600
"""Characters of what a failed program said last."""
_KILLED = 128 + signal.SIGKILL


def exit_of(
    name: str,
    done: ProgramOutput,
    said: StepRecorder,
    model: Model,
    limits: RunLimits,
    started_s: float,
    *,
    inside: bool = False,
) -> Exit:
    """`name`: of the program, for errors. `started_s`: on the monotonic clock. `inside`: it ran where the policy's
    commands do."""
    if model.overflowed:
        return _limited(said, limits, started_s)
    if done.exit_code == _KILLED and done.killed:
        return exit_with("budget", said, f"memory: {done.killed[-1].command} and more were killed")
    if done.exit_code == 0 and said.turns:
        return exit_with("finished", said)
    if said.last is not None and said.last.finish_reason == CUT:
        return exit_with("output_limit", said)
    words = (done.stderr or done.stdout).decode(errors="replace").strip()[-_SHOWN:]
    how = f"exited with {done.exit_code} after {said.turns} calls of its model" if done.exit_code else "asked no model"
    doubtful = inside and said.turns > 0 and done.exit_code - 128 in SENT
    raise InfraError(f"{name} {how}: {words or 'it said nothing'}", kind="program_failed", doubtful=doubtful)


def _limited(said: StepRecorder, limits: RunLimits, started_s: float) -> Exit:
    if limits.max_turns is not None and said.turns >= limits.max_turns:
        return exit_with("turn_limit", said)
    if limits.max_tokens is not None and said.sampled_tokens >= limits.max_tokens:
        return exit_with("token_limit", said, f"{said.sampled_tokens} of {limits.max_tokens} tokens")
    if limits.time_s is not None and time.monotonic() - started_s >= limits.time_s:
        return exit_with("time_limit", said, f"{limits.time_s:g} s")
    return exit_with("context_limit", said)


def out_of_time(said: StepRecorder, limits: RunLimits) -> Exit:
    """Its time was over, and it was killed."""
    return exit_with("time_limit", said, f"{limits.time_s:g} s")


def exit_with(ended: ExitReason, said: StepRecorder, detail: str | None = None) -> Exit:
    return Exit(ended=ended, turns=said.turns, final=said.final, detail=detail, malformed=dict(said.malformed))
