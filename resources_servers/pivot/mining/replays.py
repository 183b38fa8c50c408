"""Replays of all trajectories of a mining: `replays.jsonl`, a line per trajectory that came to its end.

Images  of a trajectory: what the file of `--images` has for its instance, repository, image or name; else the image
        that the trajectory names, if this machine's store has it, as the swe server would give it to an agent.
Law     one after the other; a trajectory that is in the file is not played again. Snapshots of this mining that no
        line names are what a killed command left, and are removed at start. Snapshots that no pivot uses are removed
        once the mining is complete (`drop_snapshots`).
Errors  ConfigError for a file of images that can't be read, and where sandboxes are elsewhere. A trajectory whose
        image or sandbox fails has its reason in place of snapshots; sandboxes that failed are tried again by
        `--resume`.
"""

import hashlib
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

import orjson
from pydantic import TypeAdapter, ValidationError

from paddock.errors import ConfigError, RowError, describe
from paddock.resources_servers.pivot.executed.options import ExecutedOptions
from paddock.resources_servers.pivot.executed.step import StepSnapshot
from paddock.resources_servers.pivot.mining.candidates import PivotCandidate
from paddock.resources_servers.pivot.mining.replay import Replay, TrajectoryReplay, remove_images
from paddock.resources_servers.pivot.mining.replay_options import ReplayOptions
from paddock.resources_servers.pivot.mining.trajectory import Trajectory
from paddock.sandbox import SandboxError, open_local_provider
from paddock.sandbox.images import ImageStore
from paddock.sandbox.images.prepare import StoreProvider, prepare_image
from paddock.types import JsonObject
from paddock.whole_file import write_whole

REPLAYS = "replays.jsonl"
_IMAGES: TypeAdapter[dict[str, StepSnapshot]] = TypeAdapter(dict[str, StepSnapshot])


def read_images(path: Path) -> dict[str, StepSnapshot]:
    """Read a JSON object: instance, repository, image or trajectory to `{"image": NAME, "workdir": "/testbed"}`."""
    try:
        return _IMAGES.validate_json(path.read_bytes())
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}", kind="images_invalid") from error
    except ValidationError as error:
        raise ConfigError(f"{path}: {describe(error)}", kind="images_invalid") from error


def read_replays(root: Path) -> dict[str, TrajectoryReplay]:
    """Return the replays of a mining's folder so far, by the trajectory's name."""
    path = root / REPLAYS
    lines = path.read_bytes().splitlines() if path.exists() else []
    return {replay.trajectory: replay for replay in map(TrajectoryReplay.model_validate_json, lines)}


async def replay_candidates(
    root: Path,
    candidates: Sequence[PivotCandidate],
    images: Mapping[str, StepSnapshot],
    executed: ExecutedOptions,
    options: ReplayOptions,
) -> dict[str, TrajectoryReplay]:
    """Play the trajectories of candidates again, and return by name what came of each."""
    done = {name: replay for name, replay in read_replays(root).items() if replay.end != "sandbox_failed"}
    wanted: dict[str, set[int]] = {}
    for candidate in candidates:
        wanted.setdefault(candidate.trajectory.name, set()).add(candidate.step)
    trajectories = {candidate.trajectory.name: candidate.trajectory for candidate in candidates}
    provider = await open_local_provider(executed.sandbox)
    try:
        _remove_leftovers(provider.store, root, done.values())
        for name, steps in wanted.items():
            if name in done:
                continue
            room_mib = options.max_snapshots_mib - sum(replay.disk_mib for replay in done.values())
            prefix = f"{_prefix(root)}{_digest(name)}/"
            try:
                start = await _start(provider, trajectories[name], images)
                replay = await Replay(
                    provider,
                    trajectories[name],
                    start,
                    prefix=prefix,
                    room_mib=room_mib,
                    executed=executed,
                    options=options,
                ).run(steps)
            except RowError as error:
                replay = TrajectoryReplay(trajectory=name, end="no_image", step=0, detail=error.message[:300])
            except SandboxError as error:
                replay = TrajectoryReplay(trajectory=name, end="sandbox_failed", step=0, detail=error.message[:300])
            done[name] = replay
            _write(root, done.values())
    finally:
        await provider.close()
    return done


def drop_snapshots(root: Path, executed: ExecutedOptions, used: Collection[str]) -> None:
    """Remove the snapshots of a mining that no row of `used` images starts from."""
    store = ImageStore(executed.sandbox.home, payload_id=executed.sandbox.payload_id)
    remove_images(store, {name for name in store.names() if name.startswith(_prefix(root))} - set(used))


def replay_report(replays: Mapping[str, TrajectoryReplay]) -> JsonObject:
    """Return how far the replays came, and where and why each that is not whole ended."""
    return {
        "ends": dict(Counter(replay.end for replay in replays.values())),
        "steps_with_snapshot": sum(len(replay.snapshots) for replay in replays.values()),
        "snapshots": sum(len(replay.names) for replay in replays.values()),
        "disk_mib": round(sum(replay.disk_mib for replay in replays.values()), 1),
        "ended_early": [
            {"trajectory": name, "step": replay.step, "why": replay.end, "detail": replay.detail}
            for name, replay in replays.items()
            if replay.end != "whole"
        ],
    }


async def _start(provider: StoreProvider, trajectory: Trajectory, images: Mapping[str, StepSnapshot]) -> StepSnapshot:
    for key in (trajectory.instance_id, trajectory.repository, trajectory.image, trajectory.name):
        if key is not None and key in images:
            return images[key]
    if trajectory.image is None:
        raise RowError("it names no image, and the file of images has none for it", kind="image_missing")
    workdir = trajectory.cwd or provider.store.get(trajectory.image).record.workdir
    image = await prepare_image(provider, trajectory.image, workdir, trajectory.hidden_paths)
    return StepSnapshot(image=image, workdir=workdir)


def _remove_leftovers(store: ImageStore, root: Path, replays: Iterable[TrajectoryReplay]) -> None:
    known = {name for replay in replays for name in replay.names}
    remove_images(store, {name for name in store.names() if name.startswith(_prefix(root))} - known)


def _prefix(root: Path) -> str:
    return f"pivot/{_digest(str(root.resolve()))}/"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _write(root: Path, replays: Iterable[TrajectoryReplay]) -> None:
    root.mkdir(parents=True, exist_ok=True)
    write_whole(
        root / REPLAYS,
        b"".join(orjson.dumps(one.model_dump(mode="json"), option=orjson.OPT_NON_STR_KEYS) + b"\n" for one in replays),
    )
