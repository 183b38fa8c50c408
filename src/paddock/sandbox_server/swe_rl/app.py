"""The routes of the recipe's exec server and of its pool, on one app: a container is a lease, by either name.

Answers `{"ok": true, ...}`. The client repeats whatever is no 2xx, so what a repeat may mend is 503, what none can mend
        is 200 with `{"ok": false, "error"}`, which it raises at once. A body that can't be read is 400.
Repeats a request carries no id. Where its client has gone before the answer, an allocation is undone; other work goes
        on, and the same request, if it is the lease's next, gets its answer: no command runs twice.
"""

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, ValidationError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from paddock.errors import PaddockError, RequestError, describe
from paddock.sandbox import BudgetExceeded, ExecRequest, ExecResult, Output, Provider, SandboxError
from paddock.sandbox.local import LocalProvider
from paddock.sandbox.remote.wire import METRICS
from paddock.sandbox_server.swe_rl.evaluation import Evaluation, Evaluator
from paddock.sandbox_server.swe_rl.leases import SweLease, SweLeases
from paddock.sandbox_server.swe_rl.settings import SweRlSettings
from paddock.sandbox_server.telemetry import MEDIA_TYPE, NodeTelemetry
from paddock.types import JsonObject

TIMED_OUT = -1
"""The return code of a command whose time was over."""
OVER_BUDGET = 137
"""The return code of a command whose sandbox was killed for its budget, as of one that was killed."""
CLIENT_GONE = 499
B = TypeVar("B", bound="_Body")
Endpoint = Callable[[Request], Awaitable[Response]]


class _Body(BaseModel):
    model_config = ConfigDict(extra="ignore")


class AllocateBody(_Body):
    image: str = Field(min_length=1)
    instance_id: str = ""
    cwd: str | None = None


class LeaseBody(_Body):
    lease_id: str = Field(min_length=1, validation_alias=AliasChoices("lease_id", "container_id"))
    cwd: str | None = None


class CommandBody(LeaseBody):
    command: str = Field(min_length=1)
    timeout: float = Field(default=180, gt=0, allow_inf_nan=False)
    env: dict[str, str] | None = None


class EvaluateBody(LeaseBody):
    patch: str = ""
    eval_script: str = ""
    timeout: float = Field(default=3600, gt=0, allow_inf_nan=False)


class SweRlApp:
    """The routes around one provider."""

    def __init__(
        self,
        provider: Provider,
        leases: SweLeases,
        evaluator: Evaluator,
        settings: SweRlSettings,
        why_not_ready: Callable[[], Awaitable[str | None]],
    ) -> None:
        """`why_not_ready`: None where a sandbox can be started."""
        self._provider = provider
        self._leases = leases
        self._evaluator = evaluator
        self._settings = settings
        self._why_not_ready = why_not_ready
        self._telemetry = NodeTelemetry()

    def build(self) -> Starlette:
        posts: dict[str, Endpoint] = {
            "/allocate": lambda request: self._open(request, claimed=False),
            # Whoever pools containers sends no heartbeats: its first command comes after a model's first answer.
            "/container/create": lambda request: self._open(request, claimed=True),
            "/heartbeat": self._heartbeat,
            "/close": self._close,
            "/container/destroy": self._close,
        }
        for prefix in ("", "/container"):
            posts[f"{prefix}/exec"] = self._on_lease(CommandBody, self._exec)
            posts[f"{prefix}/diff"] = self._on_lease(LeaseBody, self._diff)
            posts[f"{prefix}/evaluate"] = self._on_lease(EvaluateBody, self._evaluate)
        gets: dict[str, Endpoint] = {
            "/healthz": self._health,
            "/images": self._images,
            "/status": self._status,
            METRICS: self._metrics,
        }
        routes = [
            Route(path, _answering(self._counted(f"POST {path}", endpoint)), methods=["POST"])
            for path, endpoint in posts.items()
        ]
        return Starlette(routes=routes + [Route(path, endpoint, methods=["GET"]) for path, endpoint in gets.items()])

    async def _open(self, request: Request, *, claimed: bool) -> Response:
        body = await _read(AllocateBody, request)
        workdir = body.cwd or self._settings.workdir
        task = asyncio.ensure_future(self._leases.open(body.image, workdir, body.instance_id, claimed=claimed))
        if not await _wait_for(task, request):
            await self._undo(task)
            return Response(status_code=CLIENT_GONE)
        lease = task.result()
        where = str(request.base_url).rstrip("/")
        return JSONResponse(
            {"ok": True, "lease_id": lease.id, "container_id": lease.id, "name": lease.id, "node_url": where}
        )

    async def _undo(self, opening: "asyncio.Task[SweLease]") -> None:
        opening.cancel()
        await asyncio.wait([opening])
        if not opening.cancelled() and opening.exception() is None:
            await self._leases.close(opening.result().id)

    def _on_lease(self, cls: type[B], act: Callable[[SweLease, B], Awaitable[JsonObject]]) -> Endpoint:
        """A request about a lease that exists; `act` is joined by a repeat of a request whose client has gone."""

        async def answer(request: Request) -> Response:
            body = await _read(cls, request)
            assert isinstance(body, LeaseBody)
            with self._leases.using(body.lease_id) as lease:
                key = request.url.path.encode() + b"\0" + await request.body()
                task = lease.unanswered.pop(key, None) or asyncio.ensure_future(act(lease, body))
                for given_up in lease.unanswered.values():
                    given_up.cancel()
                lease.unanswered.clear()
                if not await _wait_for(task, request):
                    lease.unanswered[key] = task
                    task.add_done_callback(_retrieve)
                    return Response(status_code=CLIENT_GONE)
                return JSONResponse(task.result())

        return answer

    async def _heartbeat(self, request: Request) -> Response:
        """Of a sandbox that the machine has lost it fails: the client gives such a rollout up, and trains on none."""
        body = await _read(LeaseBody, request)
        with self._leases.using(body.lease_id) as lease:
            lease.check()
        return JSONResponse({"ok": True})

    async def _exec(self, lease: SweLease, body: CommandBody) -> JsonObject:
        half = self._settings.max_output_kib << 9
        command = ExecRequest(
            argv=["bash", "-lc", body.command],
            workdir=body.cwd or lease.workdir,
            env=body.env or {},
            timeout_s=body.timeout,
            head_bytes=half,
            tail_bytes=half,
        )
        sandbox_id = lease.check()
        try:
            done = await self._provider.exec(sandbox_id, command, request_id=uuid.uuid4().hex)
        except BudgetExceeded as over:
            return {"ok": True, "returncode": OVER_BUDGET, "output": f"The container was killed: {over.message}"}
        except SandboxError as error:
            lease.lost = error.message
            lease.check()
        return {"ok": True, **_command_end(done, body.timeout)}

    async def _diff(self, lease: SweLease, body: LeaseBody) -> JsonObject:
        """Made by the host from what has changed, whatever the sandbox's own git says, and after its budget's end."""
        made = await self._provider.patch(lease.check(), body.cwd or lease.workdir)
        left_out = [f"{one.path} ({one.reason})" for one in made.left_out]
        patch = made.data.decode(errors="replace")
        return {"ok": True, "patch": patch, "returncode": 0, "error": "", "left_out": left_out}

    async def _evaluate(self, lease: SweLease, body: EvaluateBody) -> JsonObject:
        request = Evaluation(body.patch, body.eval_script, body.cwd or lease.workdir, body.timeout)
        return await self._evaluator.evaluate(lease, request)

    async def _close(self, request: Request) -> Response:
        body = await _read(LeaseBody, request)
        await self._leases.close(body.lease_id)
        return JSONResponse({"ok": True})

    async def _health(self, _: Request) -> Response:
        if (why_not := await self._why_not_ready()) is not None:
            return JSONResponse({"ok": False, "error": why_not}, 503)
        return JSONResponse({"ok": True, "running_containers": str(len(self._leases.live()))})

    async def _images(self, _: Request) -> Response:
        if not isinstance(self._provider, LocalProvider):
            return JSONResponse({"ok": False, "error": "the images are on nodes: ask these", "images": [], "count": 0})
        names = await asyncio.to_thread(self._provider.store.names)
        images = [name for name in names if "#" not in name]  # what is made of them for agents is ours
        return JSONResponse({"ok": True, "images": images, "count": len(images)})

    def _counted(self, route: str, endpoint: Endpoint) -> Endpoint:
        async def counted(request: Request) -> Response:
            async def act() -> Response:
                return await endpoint(request)

            return await self._telemetry.counted(route, act)

        return counted

    async def _metrics(self, _: Request) -> Response:
        leases, waiting = len(self._leases.live()), self._leases.waiting
        text = self._telemetry.exposition(sandboxes=len(self._provider.live()), clients=leases, waiting=waiting)
        return Response(text, media_type=MEDIA_TYPE)

    async def _status(self, request: Request) -> Response:
        leases = self._leases.live()
        containers = {
            lease.id: {"name": lease.id, "image": lease.image, "created_at": lease.created_at} for lease in leases
        }
        node = {
            "url": str(request.base_url).rstrip("/"),
            "active_containers": len(leases),
            "max_containers": self._settings.max_sandboxes,
            "healthy": await self._why_not_ready() is None,
        }
        pool = {"total_leases": len(leases), "waiting": self._leases.waiting, "nodes": [node]}
        return JSONResponse({"ok": True, "active_containers": len(leases), "containers": containers, "pool": pool})


def _command_end(done: ExecResult, timeout_s: float) -> JsonObject:
    output = _text(done.stdout) + _text(done.stderr)
    if done.killed_by == "timeout":
        return {"returncode": TIMED_OUT, "output": f"{output}\nCommand timed out after {timeout_s:g}s".lstrip("\n")}
    return {"returncode": done.exit_code, "output": output}


def _text(output: Output) -> str:
    return bytes(output).decode(errors="replace")


async def _read(cls: type[B], request: Request) -> B:
    try:
        return cls.model_validate_json(await request.body())
    except ValidationError as error:
        raise RequestError(f"body: {describe(error)}", kind="body_invalid") from error


async def _wait_for(task: "asyncio.Future[Any]", request: Request) -> bool:
    """Wait for the end of a task; False: its client has gone before."""
    gone = asyncio.ensure_future(_disconnect(request))
    try:
        await asyncio.wait([task, gone], return_when=asyncio.FIRST_COMPLETED)
    except asyncio.CancelledError:
        task.cancel()
        await asyncio.wait([task])  # what it has begun is undone before the provider is closed
        raise
    finally:
        gone.cancel()
    return task.done()


async def _disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _retrieve(task: "asyncio.Task[Any]") -> None:
    """Take note of its error: a repeat of its request gets it."""
    if not task.cancelled():
        task.exception()


def _answering(endpoint: Endpoint) -> Endpoint:
    """An endpoint whose errors are answers."""

    async def answer(request: Request) -> Response:
        try:
            return await endpoint(request)
        except PaddockError as error:
            status = 400 if error.kind == "body_invalid" else 503 if error.retryable else 200
            return JSONResponse({"ok": False, "error": error.message, "kind": error.kind}, status)

    return answer
