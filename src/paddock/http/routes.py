"""The routes of the three server kinds, with the codecs of both directions.

Source  NeMo-Gym's contract: `/seed_session`, `/verify` (its reply echoes the request), `/aggregate_metrics`, `/run`,
        `/v1/responses`; OpenAI's `/v1/chat/completions`; Anthropic's `/v1/messages`. Ours: `/r/<secret>/turns`,
        `/r/<secret>/transcript`, `/r/<secret>/settings`, `/r/<secret>/script` and `/score_step`.
Wire    a verdict: its `reward` and `extras` flat beside the echoed request, the whole record under `verdict`.
        a rollout: its row flat, `response`, with a verdict `reward` and `extras` flat too; the rest under `rollout`.
Errors  decoding raises RowError (rows), RequestError (other requests) or VerifierError / BugError (replies).
"""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from pydantic import BaseModel, Field, ValidationError

from paddock.errors import BugError, PaddockError, RequestError, RowError, VerifierError, describe
from paddock.http.step_scores import StepRequest, StepScore
from paddock.http.tool_sessions import SessionCall, SessionCallResult, SessionStep, SessionStepResult
from paddock.types import (
    JsonObject,
    Record,
    Rollout,
    RolloutSettings,
    Row,
    Session,
    TurnRecord,
    TurnSummaries,
    TurnSummaryQuery,
    Verdict,
)
from paddock.types.formats import DIGEST_KEY, FORMAT_KEY
from paddock.types.responses import response_problem, user_message

Request = TypeVar("Request")
Reply = TypeVar("Reply")

ROW_RESERVED = (
    *("response", "reward", "reward_components", "verdict", "rollout", "step_rewards"),
    *(FORMAT_KEY, DIGEST_KEY, "sandbox_loan"),
)
"""Wire keys of rollouts and verdicts, and of stored lines: a row that has one of them is refused."""


@dataclass(frozen=True, eq=False)
class Route(Generic[Request, Reply]):
    """One route. Compared by identity: these constants are the only ones."""

    method: Literal["GET", "POST", "PUT", "DELETE"]
    path: str
    summary: str
    to_wire: Callable[[Request], JsonObject] | None = None
    """Of the body, as `from_wire`; None: a body is the JSON object that it is on the wire."""
    from_wire: Callable[[JsonObject], Request] | None = None
    reply_to_wire: Callable[[Request, Reply], JsonObject] | None = None
    """Of the reply, as `reply_from_wire`; None: a reply is the JSON object that it is on the wire."""
    reply_from_wire: Callable[[Request, JsonObject], Reply] | None = None
    replayable: bool = True
    """May be sent again with the same request id when the connection broke."""
    long: bool = False
    """May take minutes: the callee stops working when its caller has gone."""
    request_type: type[BaseModel] | None = None
    """The type of the body on the OpenAPI page; None: the server's kind gives it."""
    reply_type: type[BaseModel] | None = None
    """The type of the reply there."""


class VerifyRequest(Record):
    """A response to judge, and its row."""

    row: Row
    response: JsonObject
    sandbox_loan: str | None = Field(default=None, repr=False)
    """Secret by which the rollout's sandbox can be had (`paddock.sandbox.loans`); it stands in no reply and is stored
    nowhere. None: there is no sandbox."""


class AggregateRequest(Record):
    verify_responses: list[JsonObject]
    """Verify replies or rollout lines; only their stamps, `reward` and numbers are read, so bodies may be left out."""


class AggregateMetrics(Record):
    group_level_metrics: list[JsonObject]
    agent_metrics: dict[str, float]
    key_metrics: dict[str, float]


class ReplayScript(Record):
    """What a replay server answers in one rollout: one list of output items per turn."""

    turns: list[list[JsonObject]]


class EventStream:
    """A reply that is sent as server-sent events while it is made."""

    def __init__(self, events: AsyncIterator[bytes]) -> None:
        self.events = events


ModelReply = JsonObject | EventStream


def read_row(wire: JsonObject) -> Row:
    """A row of one wire object; RowError names the key at fault."""
    reserved = [key for key in ROW_RESERVED if key in wire]
    if reserved:
        raise RowError(f"key `{reserved[0]}` belongs to rollouts, not to rows: remove it", kind="reserved_key")
    if "responses_create_params" not in wire:
        raise RowError("responses_create_params: missing; needs a Responses API request", kind="row_invalid")
    try:
        row = Row.from_wire(wire)
    except ValidationError as error:
        raise RowError(describe(error), kind="row_invalid") from error
    _check_input(row.responses_create_params)
    return row


def _check_input(params: JsonObject) -> None:
    if "input" not in params:
        raise RowError("responses_create_params.input: missing; needs a string or a list of items", kind="row_invalid")
    items = params["input"]
    if isinstance(items, str):
        return
    if not isinstance(items, list):
        raise RowError(
            f"responses_create_params.input: needs a string or a list of items, got {type(items).__name__}",
            kind="row_invalid",
        )
    for index, item in enumerate(items):
        if not isinstance(item, dict) or not ("role" in item or "type" in item):
            raise RowError(
                f"responses_create_params.input.{index}: needs an object with `role` or `type`", kind="row_invalid"
            )


def _verify_from_wire(wire: JsonObject) -> VerifyRequest:
    body = dict(wire)
    response = body.pop("response", None)
    if not isinstance(response, dict):
        raise RequestError("response: missing; needs a Responses API response object", kind="verify_request_invalid")
    require_response(response, "response")
    loan = body.pop("sandbox_loan", None)
    if loan is not None and not isinstance(loan, str):
        raise RequestError("sandbox_loan: needs a string", kind="verify_request_invalid")
    return VerifyRequest(row=read_row(body), response=response, sandbox_loan=loan)


def _verify_to_wire(request: VerifyRequest) -> JsonObject:
    loan = {"sandbox_loan": request.sandbox_loan} if request.sandbox_loan else {}
    return {**request.row.to_wire(), "response": request.response, **loan}


def require_response(response: JsonObject, field: str) -> None:
    """RequestError, with the field's name, for a response that can't be judged: it has another shape, or is an engine's
    failure."""
    problem = response_problem(response, field)
    if problem is not None:
        raise RequestError(str(problem), kind="verify_request_invalid")
    if response.get("error") is not None or response.get("status") == "failed":
        raise RequestError(
            f"{field}.error: its engine failed ({str(response.get('error'))[:200]}); only an answer can be judged",
            kind="verify_request_invalid",
        )


def _verdict_to_wire(request: VerifyRequest, verdict: Verdict) -> JsonObject:
    return {
        **request.row.to_wire(),
        "response": request.response,
        **verdict.to_wire(),
        "verdict": verdict.record(),
    }


def _verdict_from_wire(request: VerifyRequest, wire: JsonObject) -> Verdict:
    if wire.get("_ng_failure_class"):
        detail = wire.get("_ng_failure_judge_error") or wire["_ng_failure_class"]
        raise VerifierError(f"verifier: {detail}", kind=str(wire["_ng_failure_class"]))
    verdict = wire.get("verdict")
    row = request.row.to_wire()
    extras = {key: value for key, value in wire.items() if key not in row and key not in ROW_RESERVED}
    # A server that is not ours states a reward, perhaps its parts, and nothing else.
    record = (
        dict(verdict)
        if isinstance(verdict, dict)
        else {
            "reward": wire.get("reward"),
            "reward_components": wire.get("reward_components") or {},
            "reason": "unstated",
        }
    )
    return _reply(Verdict, {**record, "extras": extras}, VerifierError)


def rollout_from_wire(wire: JsonObject) -> Rollout:
    """The rollout of one line; BugError when the line holds none."""
    own = wire.get("rollout")
    if not isinstance(own, dict):
        raise BugError("not a rollout: key `rollout` is missing", kind="rollout_invalid")
    own = dict(own)
    extras = {key: wire[key] for key in own.pop("extras", ()) if key in wire}
    if isinstance(own.get("verdict"), dict):
        own["verdict"] = {**own["verdict"], "extras": extras}
    row = {key: value for key, value in wire.items() if key not in ROW_RESERVED and key not in extras}
    return _reply(Rollout, {**own, "row": Row.from_wire(row), "response": wire.get("response")}, BugError)


RecordT = TypeVar("RecordT", bound=Record)


def _reply(model: type[RecordT], wire: Any, owner: type[PaddockError]) -> RecordT:
    try:
        return model.model_validate(wire)
    except ValidationError as error:
        raise owner(f"reply is no {model.__name__}: {describe(error)}", kind="reply_invalid") from error


def _request(model: type[RecordT]) -> Callable[[JsonObject], RecordT]:
    def read(wire: JsonObject) -> RecordT:
        try:
            return model.model_validate(wire)
        except ValidationError as error:
            raise RequestError(describe(error), kind="request_invalid") from error

    return read


def _dump(record: Record) -> JsonObject:
    return record.model_dump()


def _reader(model: type[RecordT]) -> Callable[[Any, JsonObject], RecordT]:
    return lambda _request, wire: _reply(model, wire, BugError)


def _seed_reply(_row: Row, wire: JsonObject) -> Session:
    # NeMo-Gym's servers answer `{}` or fields of their own: those are what the agent may see.
    fields = {key: value for key, value in wire.items() if key in Session.model_fields}
    visible = {key: value for key, value in wire.items() if key not in Session.model_fields}
    return _reply(Session, {**fields, "visible": {**visible, **fields.get("visible", {})}}, BugError)


def _reset_reply(row: Row, wire: JsonObject) -> Session:
    # NeMo-Gym's servers answer with the first observation, which is a message of the user.
    observation = wire.get("observation")
    opening = [user_message(observation)] if isinstance(observation, str) and observation else []
    fields = {key: value for key, value in wire.items() if key not in ("observation", "info")}
    return _seed_reply(row, {"opening": opening, **fields})


def _model_route(path: str, summary: str) -> Route[JsonObject, ModelReply]:
    # Never replayed: sampling again would give one request a second answer. The model server itself retries its
    # engine, as long as nothing of an answer has been recorded.
    return Route("POST", path, summary, replayable=False, long=True)


SEED: Route[Row, Session] = Route(
    "POST", "/seed_session", "Open a session for one row", Row.to_wire, read_row, lambda _r, s: _dump(s), _seed_reply
)
VERIFY: Route[VerifyRequest, Verdict] = Route(
    "POST",
    "/verify",
    "Judge a response to a row",
    _verify_to_wire,
    _verify_from_wire,
    _verdict_to_wire,
    _verdict_from_wire,
)
CALL_TOOL: Route[SessionCall, SessionCallResult] = Route(
    "POST",
    "/sessions/{session}/call",
    "Run a tool of the environment within one session",
    _dump,
    _request(SessionCall),
    lambda _r, result: _dump(result),
    _reader(SessionCallResult),
    long=True,
    request_type=SessionCall,
    reply_type=SessionCallResult,
)
RESET: Route[Row, Session] = Route(
    "POST",
    "/reset",
    "Open a session for one row in an environment that is stepped by whole answers",
    Row.to_wire,
    read_row,
    lambda _r, s: _dump(s),
    _reset_reply,
)
STEP: Route[SessionStep, SessionStepResult] = Route(
    "POST",
    "/sessions/{session}/step",
    "Take an answer of the model as the next action within one session",
    _dump,
    _request(SessionStep),
    lambda _r, result: _dump(result),
    _reader(SessionStepResult),
    long=True,
    request_type=SessionStep,
    reply_type=SessionStepResult,
)
VERIFY_SESSION: Route[VerifyRequest, Verdict] = Route(
    "POST",
    "/sessions/{session}/verify",
    "Judge a response to a row by the state that its session has come to",
    VERIFY.to_wire,
    _verify_from_wire,
    _verdict_to_wire,
    _verdict_from_wire,
)
END_SESSION: Route[JsonObject, JsonObject] = Route(
    "DELETE", "/sessions/{session}", "End a session; one that has ended already is no error"
)
WITHDRAW: Route[Row, JsonObject] = Route(
    "POST",
    "/withdraw",
    "A member of a group has ended without a response: others need not wait for it",
    Row.to_wire,
    read_row,
)
SCORE_STEP: Route[StepRequest, StepScore] = Route(
    "POST",
    "/score_step",
    "Judge one step of a rollout",
    _dump,
    _request(StepRequest),
    lambda _r, score: _dump(score),
    _reader(StepScore),
    long=True,
    request_type=StepRequest,
    reply_type=StepScore,
)
AGGREGATE: Route[AggregateRequest, AggregateMetrics] = Route(
    "POST",
    "/aggregate_metrics",
    "Metrics over many verdicts",
    _dump,
    _request(AggregateRequest),
    lambda _r, metrics: _dump(metrics),
    _reader(AggregateMetrics),
)
RUN: Route[Row, Rollout] = Route(
    "POST",
    "/run",
    "Run one rollout of a row",
    Row.to_wire,
    read_row,
    lambda _r, rollout: rollout.to_wire(),
    lambda _r, wire: rollout_from_wire(wire),
    replayable=False,
    long=True,
)
RESPONSES = _model_route("/r/{secret}/v1/responses", "OpenAI Responses API, within one rollout")
CHAT = _model_route("/r/{secret}/v1/chat/completions", "OpenAI Chat Completions API, within one rollout")
MESSAGES = _model_route("/r/{secret}/v1/messages", "Anthropic Messages API, within one rollout")
PLAIN_RESPONSES = _model_route("/v1/responses", "OpenAI Responses API; the rollout is named by the API key, if at all")
PLAIN_CHAT = _model_route("/v1/chat/completions", "OpenAI Chat Completions API; the rollout is named by the API key")
PLAIN_MESSAGES = _model_route("/v1/messages", "Anthropic Messages API; the rollout is named by the API key")
TURNS: Route[JsonObject, TurnRecord] = Route(
    "GET",
    "/r/{secret}/turns",
    "Freeze a rollout's turns and return them",
    reply_to_wire=lambda _r, record: _dump(record),
    reply_from_wire=_reader(TurnRecord),
)
TRANSCRIPT: Route[TurnSummaryQuery, TurnSummaries] = Route(
    "POST",
    "/r/{secret}/transcript",
    "A rollout's turns so far, without their tokens",
    _dump,
    _request(TurnSummaryQuery),
    lambda _r, transcript: _dump(transcript),
    _reader(TurnSummaries),
    request_type=TurnSummaryQuery,
    reply_type=TurnSummaries,
)
FORGET: Route[JsonObject, JsonObject] = Route("DELETE", "/r/{secret}", "Forget a rollout's turns")
SETTINGS: Route[RolloutSettings, JsonObject] = Route(
    "PUT",
    "/r/{secret}/settings",
    "Set a rollout's sampling parameters and its number of turns",
    _dump,
    _request(RolloutSettings),
)
SCRIPT: Route[ReplayScript, JsonObject] = Route(
    "PUT",
    "/r/{secret}/script",
    "Set what a replay server answers in one rollout",
    _dump,
    _request(ReplayScript),
)
