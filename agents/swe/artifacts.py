"""What a rollout leaves on disk, in `<artifacts_dir>/<run>/<group>-<member>-<attempt>-<the row's name>/`: `traj.json`,
`patch.diff`, `meta.json`, and what its harness leaves (`paddock.harness.contract.ArtifactProducer`).

While it runs `steps.jsonl` grows by a line per step: what a killed server leaves. At the end, early or not, the three
        files take its place, each whole or not there; `patch.diff` is missing where no patch was taken.
Law     no secret is written; what goes wrong with the disk is logged and costs no rollout.
Names   a rollout that nobody collects has the run `single` and a name of its own; a row without a name adds none.
"""

import logging
import re
import shutil
import uuid
from pathlib import Path
from typing import Any

import orjson

from paddock.agents.swe.state import RolloutState
from paddock.harness import Step
from paddock.types import JsonObject, Rollout, Row
from paddock.whole_file import write_whole

STEPS = "steps.jsonl"
MAX_NAME = 120
"""Characters of a row's name in its folder's."""
_log = logging.getLogger("paddock.agents.swe")


class Artifacts:
    """The folder of one rollout's files; without a root nothing is written."""

    def __init__(self, root: Path | None, row: Row, *, hidden: str, canary: str) -> None:
        """`hidden` is blotted out of all that is written; `canary` is put into `meta.json`."""
        self.folder = None if root is None else root / _run(row) / _name(row)
        self._hidden = hidden.encode()
        self._canary = canary
        self._logging_errors(self._open)

    def step(self, step: Step) -> None:
        """Append a step to `steps.jsonl`."""
        self._logging_errors(lambda folder: self._append(folder, step))

    def close(self, state: RolloutState, rollout: Rollout | None) -> None:
        """Write the final files. `rollout` None: it was cancelled."""
        self._logging_errors(lambda folder: self._save(folder, state, rollout))

    def _logging_errors(self, write: Any) -> None:
        if self.folder is None:
            return
        try:
            write(self.folder)
        except OSError as error:
            _log.warning("artifacts of %s: %s", self.folder, error)

    def _open(self, folder: Path) -> None:
        if folder.exists():
            shutil.rmtree(folder)  # of an attempt that a resumed run makes again
        folder.mkdir(parents=True)

    def _append(self, folder: Path, step: Step) -> None:
        with (folder / STEPS).open("ab") as file:
            file.write(self._clean(orjson.dumps(step.model_dump()) + b"\n"))

    def _save(self, folder: Path, state: RolloutState, rollout: Rollout | None) -> None:
        if state.patch is not None:
            write_whole(folder / "patch.diff", state.patch.data)
        for name, data in state.files.items():
            write_whole(folder / _safe(name), self._clean(data))
        task = state.task_spec.task if state.task_spec else None
        trajectory = {
            "task": task.model_dump() if task else None,
            "steps": [step.model_dump() for step in state.steps],
            "exit": state.exit.model_dump() if state.exit else None,
        }
        write_whole(folder / "traj.json", self._clean(_json(trajectory)))
        write_whole(folder / "meta.json", self._clean(_json(self._meta(state, rollout))))
        (folder / STEPS).unlink(missing_ok=True)

    def _meta(self, state: RolloutState, rollout: Rollout | None) -> JsonObject:
        task_spec, counts, patch = state.task_spec, state.counts, state.patch
        tunnel = state.model.tunnel if state.model else None
        return {
            "instance_id": task_spec.task.visible.get("instance_id") if task_spec else None,
            "image": task_spec.sandbox.image if task_spec else None,
            "outcome": rollout.outcome if rollout else "cancelled",
            "reward": rollout.reward if rollout else None,
            "verdict": rollout.verdict.model_dump(exclude_none=True) if rollout and rollout.verdict else None,
            "failure": rollout.failure.model_dump() if rollout and rollout.failure else None,
            "timing": rollout.timing.model_dump() if rollout else None,
            "stamp": rollout.row.stamp.to_wire() if rollout else None,
            "commands": counts.commands,
            "commands_refused": dict(counts.refused),
            "commands_not_refused": dict(counts.unrefused),
            "commands_timed_out": counts.timeouts,
            "memory_kills": counts.memory_kills,
            "harness": state.harness_report(),
            "model_calls": state.model.calls + (tunnel.calls if tunnel else 0) if state.model else 0,
            "model_calls_refused": tunnel.refusals if tunnel else 0,
            "patch_bytes": len(patch.data) if patch else None,
            "patch_omitted": [file.model_dump() for file in patch.left_out] if patch else [],
            "patch_omitted_more": patch.left_out_more if patch else 0,
            "patch_excluded_files": patch.litter_files if patch else None,
            "canary": self._canary,
        }

    def _clean(self, data: bytes) -> bytes:
        return data.replace(self._hidden, b"...")


def _run(row: Row) -> str:
    return _safe(row.stamp.run_id or "single")


def _name(row: Row) -> str:
    stamp = row.stamp
    if stamp.group_id is None:
        return f"{_safe(row.name or 'row')[:MAX_NAME]}-{uuid.uuid4().hex[:8]}"
    position = f"{stamp.group_id}-{stamp.member or 0}-{stamp.attempt or 0}"
    return f"{position}-{_safe(row.name)[:MAX_NAME]}" if row.name else position


def _safe(name: str) -> str:
    return re.sub(r"[^\w.-]+", "_", name).strip(".") or "_"


def _json(value: JsonObject) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS)
