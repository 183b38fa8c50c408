"""SWE: a repository with a bug, a patch, and the reference's hidden tests, run where no policy can reach the verdict.

Source  rows of many data sets (`rows.families`), Nemotron SWE2, an own plain format: `rows` reads each, by its fields.
Seed    the image as an agent may see it (`paddock.sandbox.images.prepare`), the tree's place, and what
        `SweInstance.visible` says: an allow-list.
Verify  the response's `model_patch`: the git patch as text, `base64:` where it is no UTF-8 (`paddock.types.patches`);
        null or blank is no patch. A response without that key (a single step, an answer by hand) is read for a last
        message that is a patch and nothing else.
Reward  1 for `resolved`, `forgery_reward` for `tests_forged`, else 0, with a reason of `grading.REASONS`; `tests` has
        the status of each listed test, `official` what the official procedure says where that differs.
Errors  a row that can't be used is RowError; a strange run is judged by a control (`grading.grader`), and where that is
        no better VerifierError; a sandbox that fails is InfraError. None is ever a reward.
"""

import asyncio
import contextlib
import time
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import ClassVar, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from paddock.config import RenamedKeys
from paddock.errors import RequestError, RowError
from paddock.resources_servers.swe import official
from paddock.resources_servers.swe.fix import known_fix
from paddock.resources_servers.swe.grading import Grade, Grader, GradingOptions, measure_of
from paddock.resources_servers.swe.images import Images, SweImages, resolve_image
from paddock.resources_servers.swe.installed_copies import InstalledCopies
from paddock.resources_servers.swe.instance import SweInstance
from paddock.resources_servers.swe.publishers import PublisherTools
from paddock.resources_servers.swe.rows import read
from paddock.sandbox import SandboxSettings
from paddock.sandbox.images import ImageStore
from paddock.sandbox.images.prepare import prepare_image
from paddock.sandbox.leases import Lease, shared_local_provider
from paddock.sandbox.local import LocalProvider
from paddock.sandbox.readiness import Readiness
from paddock.server import ResourcesServer, ServerConfig
from paddock.types import Fix, JsonObject, Row, Session, Verdict, patch_from_text, patch_to_text
from paddock.types.patches import PREFIX
from paddock.types.responses import message_item, messages

MODEL_PATCH = "model_patch"
SHOWN_DROPPED = 10
"""Files of a patch that were not applied and are named in a verdict's detail; `patch_dropped` has all."""
BENT_LOG_CHARS = 1 << 16
"""The last of an output that the verdict on forged results keeps, whatever `keep_log` says."""
PATCH_STARTS = ("diff --git ", PREFIX)


class SweServerConfig(RenamedKeys, ServerConfig):
    OLD_NAMES: ClassVar[Mapping[str, str]] = {
        "gradings_at_once": "max_concurrent_gradings",
        "bent_reward": "forgery_reward",
    }

    sandbox: SandboxSettings = SandboxSettings()
    """Where grading runs."""
    grading: GradingOptions = GradingOptions()
    """How patches are graded: limits of time and resources."""
    max_concurrent_gradings: int = Field(default=2, ge=1)
    """Patches that may be graded at the same time; tests want a core or two each, some are skipped on one. Waiting for
    this is told apart (`verify wait` in a summary's `time each`)."""
    images: SweImages = SweImages()
    """Where images come from."""
    publishers: PublisherTools = PublisherTools()
    """Where the code is by which some publishers grade their rows; rows that need what is not named are refused."""
    forgery_reward: float = Field(default=-1.0, le=0, allow_inf_nan=False)
    """Reward of a patch whose code forged results (`tests_forged`), on the scale on which `resolved` is 1 and any other
    verdict 0: below 0, so that a policy loses more by forging that is seen than by failing (`docs/security.md` has the
    arithmetic). 0: as a failure, for means that are to be the share of resolved rollouts."""
    keep_log: bool = False
    """Put the test command's output into the verdict, as `log`; the last 64 KiB of it are there in any case where
    results were forged."""


class SweTask(BaseModel):
    """A row of any form, read as an instance."""

    model_config = ConfigDict(frozen=True)

    instance: SweInstance


class SweServer(ResourcesServer[SweServerConfig, SweTask]):
    OWN_PROMPT = True
    config_type = SweServerConfig
    task_type = SweTask
    example: ClassVar[JsonObject] = {
        "responses_create_params": {"input": []},
        "instance_id": "shapes__area-1",
        "problem_statement": "area(2, 3) gives 5.",
        "image": "shapes",
        "patch": "diff --git a/shapes.py b/shapes.py\n...",
        "test_files": {"test_shapes.py": "def test_area(): ..."},
        "test_command": "pytest -rA test_shapes.py",
        "FAIL_TO_PASS": ["test_shapes.py::test_area"],
        "PASS_TO_PASS": [],
        "response": {"output": [], MODEL_PATCH: "diff --git a/shapes.py b/shapes.py\n..."},
    }
    _services: "_Services | None" = None

    async def start(self) -> None:
        official.require()
        lease = await shared_local_provider(self.config.sandbox)
        provider = lease.value
        self._services = _Services(
            lease=lease,
            readiness=Readiness(provider),
            grader=Grader(provider, self.config.grading, resolve_image, measure_of(self.config.sandbox.home)),
            images=self._images,
            installed=InstalledCopies(provider, self.config.grading.limits),
            turns=asyncio.Semaphore(self.config.max_concurrent_gradings),
        )

    async def stop(self) -> None:
        services, self._services = self._services, None
        if services is not None:
            try:
                await services.grader.close()
            finally:
                await services.lease.release()

    async def why_not_ready(self) -> str | None:
        return await self._started_services().readiness.why_not()

    def read_task(self, row: Row) -> SweTask:
        return SweTask.model_construct(instance=read(row, self.config.publishers))

    async def seed_session(self, task: SweTask, row: Row) -> Session:
        instance = task.instance
        visible = {**instance.visible(), "network": instance.network}
        services = self._started_services()
        image = await services.images.ensure(instance)
        shown = await prepare_image(
            services.lease.value, image, instance.workdir, instance.hidden_paths, instance.image_patch
        )
        await services.installed.refuse(instance, shown)
        return Session(image=shown, workdir=instance.workdir, visible=visible)

    async def verify(self, task: SweTask, row: Row, response: JsonObject) -> Verdict:
        patch = read_patch(response)
        services = self._started_services()
        await services.images.ensure(task.instance)
        queued_at = time.monotonic()
        async with services.turns:
            waited_s = time.monotonic() - queued_at
            grade = await services.grader.grade(task.instance, patch)
        result = verdict(grade, patch, self.config, repo=task.instance.repo)
        return result.model_copy(update={"waited_s": waited_s})

    def _started_services(self) -> "_Services":
        assert self._services is not None  # a server that has not started serves nothing
        return self._services

    def oracle(self, task: SweTask, row: Row) -> Sequence[Sequence[JsonObject]]:
        """Return the reference fix, as the text of one message; RowError where the row has none."""
        if not task.instance.gold_patch:
            raise RowError(f"{task.instance.instance_id}: has no reference fix", kind="fix_missing")
        return [[message_item(patch_to_text(task.instance.gold_patch))]]

    async def fix(self, task: SweTask, row: Row) -> Fix:
        return await known_fix(task.instance, self._images, self._store)

    @cached_property
    def _store(self) -> ImageStore:
        sandbox = self.config.sandbox
        return ImageStore(sandbox.home, payload_id=sandbox.payload_id, limits=self.config.images.limits)

    @cached_property
    def _images(self) -> Images:
        return Images(self._store, self.config.images)


class _Services(NamedTuple):
    """What a server has between its start and its stop."""

    lease: Lease[LocalProvider]
    readiness: Readiness
    grader: Grader
    images: Images
    installed: InstalledCopies
    turns: asyncio.Semaphore


def read_patch(response: JsonObject) -> bytes:
    """Read a response's patch: its `model_patch`, else its last message; RequestError where it is no text."""
    if MODEL_PATCH not in response:
        return _last_patch(response)
    given = response[MODEL_PATCH]
    if given is None:
        return b""
    if not isinstance(given, str):
        raise RequestError(f"{MODEL_PATCH}: needs a string, got {type(given).__name__}", kind="model_patch_invalid")
    try:
        return patch_from_text(given)
    except ValueError as error:
        raise RequestError(
            f"{MODEL_PATCH}: `base64:` that does not decode: {error}", kind="model_patch_invalid"
        ) from error


def _last_patch(response: JsonObject) -> bytes:
    last = next(reversed(messages(response)), "")
    with contextlib.suppress(ValueError):
        return patch_from_text(last) if last.startswith(PATCH_STARTS) else b""
    return b""


def _detail(grade: Grade) -> str:
    """Say what grading found, and what of the patch was left out."""
    paths = [f"{drop.path} ({drop.reason})" for drop in grade.dropped]
    more = f" and {len(paths) - SHOWN_DROPPED} more" if len(paths) > SHOWN_DROPPED else ""
    left_out = f"not applied, the reference's or a test: {', '.join(paths[:SHOWN_DROPPED])}{more}" if paths else ""
    return "; ".join(part for part in (grade.detail, left_out) if part)


def verdict(grade: Grade, patch: bytes, config: SweServerConfig, *, repo: str = "") -> Verdict:
    """Turn a grade into a verdict; `repo` becomes a label, by which summaries have a table."""
    resolved, bent = grade.reason == "resolved", grade.reason == "tests_forged"
    metrics = {
        "resolved": float(resolved),
        "no_patch": float(grade.reason == "no_patch"),
        "patch_not_applied": float(grade.reason == "patch_does_not_apply"),
        "tests_forged": float(bent),
        "patch_bytes": float(len(patch)),
        "patch_dropped_files": float(len(grade.dropped)),
    }
    extras: JsonObject = {}
    if grade.results is not None:
        extras["tests"] = {
            "FAIL_TO_PASS": dict(grade.results.fail_to_pass),
            "PASS_TO_PASS": dict(grade.results.pass_to_pass),
        }
    if grade.run is not None and (config.keep_log or bent):
        extras["log"] = grade.run.output if config.keep_log else grade.run.output[-BENT_LOG_CHARS:]
    if grade.dropped:
        extras["patch_dropped"] = [{"path": part.path, "reason": part.reason} for part in grade.dropped]
    if grade.official is not None:
        extras["official"] = {"resolved": grade.official == "RESOLVED_FULL", "status": grade.official}
    return Verdict(
        reward=config.forgery_reward if bent else float(resolved),
        reason=grade.reason,
        detail=_detail(grade) or None,
        metrics=metrics,
        labels={"repo": repo} if repo else {},
        extras=extras,
    )
