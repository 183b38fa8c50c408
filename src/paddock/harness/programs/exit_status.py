"""How a program's run has ended, decided by its exit code and the calls of its model.

Law     what the policy brought about is an `Exit`: a limit of its rollout, an answer that was cut, its sandbox's
        memory. A program that ends otherwise than by its own success, without being stopped, has failed: InfraError,
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
"""Characters of a failed program's last output that its error shows."""
_KILLED = 128 + signal.SIGKILL


def exit_of(
    name: str,
    done: ProgramOutput,
    recorder: StepRecorder,
    model: Model,
    limits: RunLimits,
    started_s: float,
    *,
    inside: bool = False,
) -> Exit:
    """Return the exit of a run. Raises InfraError for a program that failed.

    `name`: of the program, for errors. `started_s`: on the monotonic clock. `inside`: the program ran where the
    policy's commands run."""
    if model.overflowed:
        return _limited(recorder, limits, started_s)
    if done.exit_code == _KILLED and done.killed:
        return exit_with("budget", recorder, f"memory: {done.killed[-1].command} and more were killed")
    if done.exit_code == 0 and recorder.turns:
        return exit_with("finished", recorder)
    if recorder.last_turn is not None and recorder.last_turn.finish_reason == CUT:
        return exit_with("output_limit", recorder)
    words = (done.stderr or done.stdout).decode(errors="replace").strip()[-_SHOWN:]
    how = (
        f"exited with {done.exit_code} after {recorder.turns} calls of its model"
        if done.exit_code
        else "asked no model"
    )
    doubtful = inside and recorder.turns > 0 and done.exit_code - 128 in SENT
    raise InfraError(f"{name} {how}: {words or 'it recorder nothing'}", kind="program_failed", doubtful=doubtful)


def _limited(recorder: StepRecorder, limits: RunLimits, started_s: float) -> Exit:
    if limits.max_turns is not None and recorder.turns >= limits.max_turns:
        return exit_with("turn_limit", recorder)
    if limits.max_tokens is not None and recorder.sampled_tokens >= limits.max_tokens:
        return exit_with("token_limit", recorder, f"{recorder.sampled_tokens} of {limits.max_tokens} tokens")
    if limits.time_s is not None and time.monotonic() - started_s >= limits.time_s:
        return exit_with("time_limit", recorder, f"{limits.time_s:g} s")
    return exit_with("context_limit", recorder)


def time_limit_exit(recorder: StepRecorder, limits: RunLimits) -> Exit:
    """Return the exit of a program that was killed when its time was over."""
    return exit_with("time_limit", recorder, f"{limits.time_s:g} s")


def exit_with(ended: ExitReason, recorder: StepRecorder, detail: str | None = None) -> Exit:
    return Exit(
        ended=ended, turns=recorder.turns, final=recorder.final, detail=detail, malformed=dict(recorder.malformed)
    )
