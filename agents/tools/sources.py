"""Where an agent's tools come from, what the model calls them, and what becomes of a call.

Names   as each source has them. A name of more than one source is the environment's, where it has it; every other tool
        of that name is shown as `<source>__<name>`, the source being an MCP server's name, or `functions`.
Row     its `tools`, where it has any, are those that the model is shown, as the row describes them.
Size    a result that is longer than the limit is cut in its middle, with a line that counts what was left out.
Errors  what the model did wrong is a text with its kind; what a source did wrong is raised.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from paddock.errors import ConfigError, RowError
from paddock.harness.contract import MalformedCall
from paddock.harness.native.toolbox import RawToolCall
from paddock.http import CALL_TOOL, STEP, Call, Peer, SessionCall, SessionStep, SessionStepResult
from paddock.types import JsonObject, Row, Session
from paddock.types.responses import new_id

ENVIRONMENT = "environment"
"""Name of the source whose tools keep their names."""
SEPARATOR = "__"


class ToolReply(NamedTuple):
    """What a call came to."""

    text: str
    problem: MalformedCall | None = None
    """What was wrong with a call that no tool could take."""
    done: bool = False
    """Whether the tool ends the rollout."""
    images: Sequence[str] = ()
    """Images of the result, as URLs with their data."""


class ToolSource(Protocol):
    """A source of tools, open for one rollout."""

    name: str
    """Its name before a tool's, where several sources have that tool."""
    tools: Sequence[JsonObject]
    """Its tools by the Responses API, under its own names."""

    async def call(self, name: str, arguments: str, context: Call) -> ToolReply:
        """Run a call of the tool `name` of this source; `arguments` as the model wrote them."""
        ...


class EnvironmentSource:
    """The tools of the session that the resources server has opened."""

    name = ENVIRONMENT

    def __init__(self, peer: Peer, session: Session) -> None:
        self.tools: Sequence[JsonObject] = session.tools if session.session_id is not None else ()
        self._peer = peer
        self._session = session.session_id or ""

    async def call(self, name: str, arguments: str, context: Call) -> ToolReply:
        # Not the model's own id: some models give each call the same, and the environment runs an id once.
        request = SessionCall(name=name, arguments=arguments, call_id=new_id("call"))
        result = await self._peer.call(CALL_TOOL, request, context, session=self._session)
        return ToolReply(result.text, result.problem, result.done)


class EnvironmentSteps:
    """The session that the resources server has opened, where it is stepped by whole answers."""

    def __init__(self, peer: Peer, session: Session) -> None:
        self.opening = session.opening
        self._peer = peer
        self._session = session.session_id or ""

    async def take(self, response: JsonObject, context: Call) -> SessionStepResult:
        request = SessionStep(response=response, call_id=new_id("step"))
        return await self._peer.call(STEP, request, context, session=self._session)


class _ShownTool(NamedTuple):
    source: ToolSource
    name: str
    """The source's own."""
    definition: JsonObject
    """As the model is shown it."""


class RolloutTools:
    """The tools of one rollout, by the names that the model is shown."""

    def __init__(self, sources: Sequence[ToolSource], row: Row, *, max_chars: int | None) -> None:
        """Raises RowError for a tool of the row that no source serves."""
        self._served = {str(tool.definition["name"]): tool for tool in _named(sources)}
        self._max_chars = max_chars
        shown = row_tools(row)
        if shown is not None:
            refuse_unserved(shown, self._served)
        self.definitions = {name: tool.definition for name, tool in self._served.items()} if shown is None else shown

    async def call(self, call: RawToolCall, context: Call) -> ToolReply:
        if call.shown not in self.definitions:
            there = ", ".join(self.definitions) or "none"
            return ToolReply(f"There is no tool {call.shown!r}; there are: {there}.", "unknown_tool")
        tool = self._served[call.shown]
        reply = await tool.source.call(tool.name, call.raw, context)
        return reply._replace(text=cut_text(reply.text, self._max_chars))


def _named(sources: Sequence[ToolSource]) -> Iterator[_ShownTool]:
    names = shown_names([(source.name, [str(tool.get("name")) for tool in source.tools]) for source in sources])
    for source, own in zip(sources, names, strict=True):
        for tool, shown in zip(source.tools, own, strict=True):
            yield _ShownTool(source, str(tool.get("name")), {**tool, "name": shown})


def shown_names(sources: Sequence[tuple[str, Sequence[str]]]) -> list[list[str]]:
    """Return the names by which the model is shown the tools of sources, each of which has a name and its tools' names.
    Raises ConfigError where two are the same all the same."""
    counts = Counter(name for _, names in sources for name in names)
    shown = [
        [name if counts[name] == 1 or source == ENVIRONMENT else f"{source}{SEPARATOR}{name}" for name in names]
        for source, names in sources
    ]
    twice = next((name for name, count in Counter(name for own in shown for name in own).items() if count > 1), None)
    if twice is not None:
        raise ConfigError(
            f"two tools would be shown as {twice!r}: rename a function or an MCP server", kind="tool_names"
        )
    return shown


def row_tools(row: Row) -> Mapping[str, JsonObject] | None:
    """Return the tools that a row shows, by name; None: it names none. Raises RowError where they are no tools."""
    given = row.responses_create_params.get("tools")
    if not given:
        return None
    if not isinstance(given, list) or not all(isinstance(tool, dict) for tool in given):
        raise RowError("responses_create_params.tools: needs a list of tools", kind="row_invalid")
    return {str(tool.get("name")): tool for tool in given}


def refuse_unserved(shown: Mapping[str, JsonObject], served: Mapping[str, object] | frozenset[str]) -> None:
    """Raise RowError for a tool that is shown and not served."""
    unknown = [name for name in shown if name not in served]
    if unknown:
        raise RowError(
            f"responses_create_params.tools: nobody serves {unknown[0]!r}; served are: "
            f"{', '.join(sorted(served)) or 'none'}",
            kind="tools_unserved",
        )


def cut_text(text: str, max_chars: int | None) -> str:
    """Return a text of at most `max_chars` characters of the given one, and a line about the rest."""
    if max_chars is None or len(text) <= max_chars:
        return text
    head = (max_chars + 1) // 2
    tail = max_chars - head
    note = f"\n[... {len(text) - max_chars} characters left out ...]\n"
    return text[:head] + note + (text[-tail:] if tail else "")
