"""Images built from a Dockerfile by a container engine of this machine, and moved into the store.

Engine  the first of podman, buildah and docker that works, or the named one; the build's own commands run in it, with
        the network that it is told, and not in a sandbox of ours. Its image is removed once the store has it; its cache
        of layers is its own.
Errors  ConfigError `no_builder`: none works, with what each says; InfraError `image_build_failed`, with the last lines.
"""

import shutil
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Literal

from paddock.errors import ConfigError, InfraError
from paddock.processes.command import CommandResult, run
from paddock.sandbox.images.build.stage import new_stage
from paddock.sandbox.images.convert import to_store
from paddock.sandbox.images.pull import Puller
from paddock.sandbox.images.store import ImageStore, LocalImage

Builder = Literal["podman", "buildah", "docker"]
BuildNetwork = Literal["default", "host", "none"]
PROBES: dict[Builder, tuple[str, ...]] = {
    "podman": ("podman", "info"),
    "buildah": ("buildah", "info"),
    "docker": ("docker", "version"),
}
"""What ends with 0 where an engine works."""
PROBE_TIMEOUT_S = 60.0


async def find_builder(wanted: Builder | None) -> Builder:
    """Return an engine that works here."""
    complaints = []
    for builder, probe in PROBES.items():
        if wanted not in (None, builder):
            continue
        if not shutil.which(builder):
            complaints.append(f"{builder} is not installed")
            continue
        done = await run(probe, timeout_s=PROBE_TIMEOUT_S)
        if done.code == 0:
            return builder
        complaints.append(f"{builder}: {done.tail.splitlines()[-1] if done.tail else done.code}")
    raise ConfigError(
        f"a Dockerfile needs podman, buildah or docker to build it: {'; '.join(complaints)}", kind="no_builder"
    )


async def build_dockerfile(
    store: ImageStore,
    name: str,
    context: Path,
    *,
    builder: Builder | None = None,
    network: BuildNetwork = "default",
    timeout_s: float = 600.0,
) -> LocalImage:
    """Build `context`/Dockerfile as the store's image `name`. `timeout_s`: for the build alone."""
    engine = await find_builder(builder)
    tag = f"paddock-build:{uuid.uuid4().hex[:12]}"
    build = ("bud", "--layers") if engine == "buildah" else ("build",)
    options = () if network == "default" else ("--network", network)
    try:
        built = await run([engine, *build, *options, "-t", tag, "."], cwd=context, timeout_s=timeout_s)
        _check(built, name, engine)
        with new_stage(store) as stage:
            archive = stage.root / "image.tar"
            _check(await run(_save(engine, tag, archive), timeout_s=timeout_s), name, engine)
            async with Puller(store) as puller:
                return await to_store(puller, str(archive), name)
    finally:
        keeping = () if engine == "buildah" else ("--no-prune",)  # what the next build starts from
        with suppress(InfraError):  # on a busy machine it may take long; the image is in the store by now
            await run([engine, "rmi", *keeping, tag], timeout_s=timeout_s)


def _save(engine: Builder, tag: str, archive: Path) -> list[str]:
    if engine == "docker":
        return ["docker", "save", "-o", str(archive), tag]
    if engine == "buildah":
        return ["buildah", "push", tag, f"docker-archive:{archive}:{tag}"]  # layers of the other format are compressed
    return ["podman", "save", "--format", "docker-archive", "-o", str(archive), tag]


def _check(done: CommandResult, name: str, engine: Builder) -> None:
    if done.code != 0:
        raise InfraError(
            f"image {name}: {engine} ended with {done.code}: {done.tail}",
            kind="image_build_failed",
            stage="seed",
            retryable=False,
        )
