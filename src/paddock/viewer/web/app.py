"""The view's app: the page and its assets, and JSON about runs for it.

Law     every route but `POST /api/notes` only reads. Files are read in threads. `/` and `/assets` say nothing of a run.
Policy  the page runs scripts of this server alone, loads nothing from elsewhere, sends no forms and stands in no frame.
Errors  RequestError (400), kind `no_run`, `no_report`, `no_rollout`, `no_part`, `line_damaged`, `notes_unwritable`.
"""

from collections.abc import Callable
from importlib.resources import files
from typing import Any

import orjson
from fastapi import Body, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware

from paddock import __version__
from paddock.collect.lines import Fault, StoredLine, check
from paddock.collect.recovery import read_rollout
from paddock.collect.results import MemberKey
from paddock.errors import PaddockError, RequestError
from paddock.server.endpoints import refusal
from paddock.types import Rollout
from paddock.viewer.web.catalog import Catalog, RunRef, last_written
from paddock.viewer.web.notes import RolloutNote, add_note, read_notes
from paddock.viewer.web.report_page import report_page
from paddock.viewer.web.rollout_page import call_page, failure_page, rollout_page, text_piece
from paddock.viewer.web.run_log import COLUMNS, STAGES
from paddock.viewer.web.search import search_rollouts
from paddock.viewer.web.training import metrics_after

ASSETS = "/assets"
PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
GZIP_LEVEL = 1
"""A run's table shrinks to a quarter in 10 ms; higher levels take longer than they save on loopback."""
HEADERS = {
    "content-security-policy": PAGE_POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}


def build_view(catalog: Catalog) -> FastAPI:
    """The app over the runs of `catalog`."""
    app = FastAPI(title="paddock view", version=__version__, docs_url=None, redoc_url=None)
    view = _View(catalog)
    assets = files("paddock.viewer.web") / "assets"
    page = (assets / "index.html").read_bytes()

    def index() -> Response:
        return Response(page, media_type="text/html; charset=utf-8")

    app.add_api_route("/", index, methods=["GET"], include_in_schema=False)
    app.mount(ASSETS, StaticFiles(directory=str(assets)))
    routes: list[tuple[str, Callable[..., Response]]] = [
        ("runs", view.runs),
        ("counts", view.counts),
        ("rows", view.rows),
        ("report", view.report),
        ("rollout", view.rollout),
        ("text", view.text),
        ("tokens", view.tokens),
        ("search", view.search),
        ("metrics", view.metrics),
        ("notes", view.notes),
    ]
    for name, answer in routes:
        app.add_api_route(f"/api/{name}", answer, methods=["GET"], response_class=Response, summary=answer.__doc__)
    app.add_api_route("/api/notes", view.add_note, methods=["POST"], response_class=Response)
    app.add_api_route("/metrics", view.exposition, methods=["GET"], response_class=Response, summary="For Prometheus.")
    app.add_exception_handler(PaddockError, _refuse)
    app.add_exception_handler(HTTPException, _refuse)
    app.add_exception_handler(RequestValidationError, _refuse)
    app.add_middleware(GZipMiddleware, compresslevel=GZIP_LEVEL)
    app.middleware("http")(_with_headers)
    return app


class _View:
    """Answers to the page's requests."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def runs(self) -> Response:
        """Each run and report: id, kind, its page, when it was last written, in seconds since 1970."""
        runs = [
            {
                "id": run.id,
                "kind": run.kind,
                "page": "report" if run.report else "run",
                "changed_at": run.changed_at,
            }
            for run in self._catalog.runs()
        ]
        return _json({"runs": runs, "version": __version__})

    def counts(self, run: str) -> Response:
        """How many rollouts of a run have ended, by outcome, and their mean reward; of a report, its verdict."""
        return _json(self._catalog.counts(self._find(run)))

    def report(self, run: str, seen: float = -1.0) -> Response:
        """A report: its verdict, and blocks; nothing but `changed_at` where it was `seen` as it is."""
        found = self._find(run)
        if found.report is None:
            raise RequestError(f"{run} is a run, and no report", kind="no_report")
        changed_at = last_written(found.path)
        if changed_at == seen:
            return _json({"changed_at": seen})
        return _json({"changed_at": changed_at, "kind": found.kind, **report_page(found.path, found.report)})

    def rows(self, run: str, cursor: str = "") -> Response:
        """The rows of a run after a cursor."""
        page = self._catalog.log(self._run(run)).page(cursor)
        damaged = (
            page.first_damaged and f"{page.first_damaged.file}:{page.first_damaged.number}: {page.first_damaged.why}"
        )
        head = {
            "columns": COLUMNS,
            "stages": STAGES,
            "cursor": page.cursor,
            "restarted": page.restarted,
            "damaged": page.damaged,
            "first_damaged": damaged,
        }
        return Response(orjson.dumps(head)[:-1] + b',"rows":' + page.rows + b"}", media_type="application/json")

    def rollout(self, run: str, group: int, member: int) -> Response:
        """One rollout, its texts cut."""
        found, key = self._run(run), MemberKey(group, member)
        rollout = self._load(found, key)
        if rollout is not None:
            return _json(rollout_page(rollout))
        failed = self._catalog.log(found).failed(key)
        if failed is None:
            raise RequestError(f"{run}: there is no rollout {group}-{member}", kind="no_rollout")
        return _json(failure_page(failed))

    def text(self, run: str, group: int, member: int, part: str, offset: int = 0) -> Response:
        """A piece of one text of a rollout."""
        try:
            return _json(text_piece(self._stored(run, group, member), part, max(0, offset)))
        except KeyError:
            raise RequestError(f"rollout {group}-{member} has no part {part!r}", kind="no_part") from None

    def tokens(self, run: str, group: int, member: int, call: int) -> Response:
        """The tokens of one call of a rollout."""
        try:
            return _json(call_page(self._stored(run, group, member), call))
        except KeyError:
            raise RequestError(f"rollout {group}-{member} has no call {call}", kind="no_part") from None

    def search(self, run: str, text: str) -> Response:
        """Rollouts whose line has a text in it."""
        return _json(search_rollouts(self._catalog.log(self._run(run)), text))

    def metrics(self, run: str, after: int = 0) -> Response:
        """Lines of a training run's metrics from the `after`th on."""
        return _json(metrics_after(self._run(run).path, after))

    def notes(self, run: str) -> Response:
        """What was noted on a run's rollouts."""
        return _json([note.model_dump() for note in read_notes(self._run(run).path)])

    def add_note(self, run: str, note: RolloutNote = Body()) -> Response:  # noqa: B008 - FastAPI's way to name the body
        """Note something on a rollout."""
        return _json(add_note(self._run(run).path, note).model_dump())

    def exposition(self) -> Response:
        """What recent runs have come to."""
        from paddock.viewer.web.exposition import MEDIA_TYPE, exposition  # with its library: few views are asked

        return Response(exposition(self._catalog), media_type=MEDIA_TYPE)

    def _find(self, run_id: str) -> RunRef:
        run = self._catalog.get(run_id)
        if run is None:
            raise RequestError(f"there is no run {run_id!r}", kind="no_run")
        return run

    def _run(self, run_id: str) -> RunRef:
        run = self._find(run_id)
        if run.report is not None:
            raise RequestError(f"{run_id} is a report: it has no rollouts", kind="no_run")
        return run

    def _stored(self, run_id: str, group: int, member: int) -> Rollout:
        rollout = self._load(self._run(run_id), MemberKey(group, member))
        if rollout is None:
            raise RequestError(f"{run_id}: rollout {group}-{member} was not stored", kind="no_rollout")
        return rollout

    def _load(self, run: RunRef, key: MemberKey) -> Rollout | None:
        log = self._catalog.log(run)
        span = log.span(key)
        if span is None:
            return None
        try:
            with log.rollouts.open("rb") as file:
                file.seek(span.start)
                data = file.read(span.end - span.start)
            return read_rollout(StoredLine(span, data, check(data, older=True), None))
        except (Fault, OSError) as error:
            why = error.why if isinstance(error, Fault) else str(error)
            raise RequestError(f"{log.rollouts}:{span.number}: {why}", kind="line_damaged") from error


def _json(value: Any) -> Response:
    # Texts of a policy may hold half of a surrogate pair, which is no UTF-8.
    try:
        data = orjson.dumps(value)
    except TypeError:
        data = orjson.dumps(_printable(value))
    return Response(data, media_type="application/json")


def _printable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_printable(key): _printable(part) for key, part in value.items()}
    return [_printable(part) for part in value] if isinstance(value, list | tuple) else value


async def _with_headers(request: Request, call_next: Callable[[Request], Any]) -> Response:
    response: Response = await call_next(request)
    for name, value in HEADERS.items():
        response.headers[name] = value
    return response


def _refuse(request: Request, error: Exception) -> Response:
    if isinstance(error, PaddockError):
        return refusal(request.url.path, error)
    if isinstance(error, HTTPException):
        return refusal(request.url.path, RequestError(str(error.detail), kind="no_route"), error.status_code)
    assert isinstance(error, RequestValidationError)  # what it is registered for
    first = error.errors()[0]
    where = ".".join(map(str, first["loc"][1:]))
    return refusal(request.url.path, RequestError(f"{where}: {first['msg']}", kind="request_invalid"), 422)
