"""The fixture of a harness's checks: a scripted model server, and a new real sandbox for each run.

Image    a small repository of ours, at `/testbed`, made of this machine's own programs.
Target   a harness class and its settings; `ready` says whether sandboxes work here.
"""

import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, NamedTuple, cast

import orjson

from paddock.conformance.behaviours import NotApplicable, expect
from paddock.conformance.harnesses.scripted_model import ConversationServer, Items, ScriptedConversation, ScriptedReply
from paddock.conformance.harnesses.tools import ShownTools
from paddock.conformance.sandboxes.fixture import SandboxFixture
from paddock.harness import Exit, Harness, Program, RunLimits, SandboxWorkspace, Step, Task, needs_of
from paddock.harness.contract import Needs
from paddock.harness.factory import check_settings
from paddock.harness.programs.store import ProgramStore
from paddock.http import Call, Peer, new_secret
from paddock.sandbox import Provider, SandboxHandle, SandboxSettings, SandboxSpec, open_provider
from paddock.sandbox.blocklist import Blocklist
from paddock.sandbox.socket_listener import loopback_listener
from paddock.sandbox.tunnel import Tunnel, TunnelSettings
from paddock.server.rollout_model import RolloutModel, TunnelOptions
from paddock.server.upstream import PeerUpstream
from paddock.testing.sandboxes import WORKDIR
from paddock.testing.transports import over
from paddock.types import Fix, JsonObject, RolloutSettings
from paddock.types.responses import item_type, output_items

PROMPT = "add(1, 2) gives -1.\n\nPlease fix `calc.py`.\n"
SYSTEM = "You are careful."
FILES = {
    "calc.py": "def add(a, b):\n    return a - b\n# Twice the same.\ndef double(a):\n    return add(a, a)\n",
    "docs/notes.txt": "A calculator.\n",
    "test_calc.py": "import calc\n\nassert calc.add(1, 2) == 3\n",
}
FIXED = {
    "calc.py": "def add(a, b):\n    return a + b\n# Twice the same.\ndef double(a):\n    return add(a, a)\n",
    "docs/changes.txt": "Adding adds.\n",
}
PATCH = b"""diff --git a/calc.py b/calc.py
--- a/calc.py
+++ b/calc.py
@@ -1,3 +1,3 @@
 def add(a, b):
-    return a - b
+    return a + b
 # Twice the same.
diff --git a/docs/changes.txt b/docs/changes.txt
new file mode 100644
--- /dev/null
+++ b/docs/changes.txt
@@ -0,0 +1 @@
+Adding adds.
"""
FIX = Fix(patch=PATCH, workdir=WORKDIR, files={"calc.py": FILES["calc.py"]}, test_command="python3 test_calc.py")
QUICK = RunLimits(max_turns=30, time_s=30.0, tool_s=20.0)
"""Limits of a run that is not about them: nothing is stopped by them but what hangs."""
INSIDE_START_S, OUTSIDE_START_S = 4.0, 20.0
"""Programs may load for seconds, on a busy machine for more."""
TUNNEL_PORT = 4141
_NEEDED: dict[Needs, str] = {"model": "a model", "gold": "the known fix, and no model", "nothing": "no model"}


class HarnessTarget(NamedTuple):
    """A harness under test."""

    spec: str
    cls: type[Any]
    block: JsonObject
    settings: SandboxSettings
    image: str

    @property
    def kind(self) -> str:
        return "harnesses"

    @property
    def needs(self) -> Needs:
        return needs_of(self.cls)

    def make(self, **changes: Any) -> Harness:
        """Make a harness, with `changes` to keys of its block. Raises ConfigError."""
        settings = check_settings(self.cls, {**self.block, **changes}, f"harness {self.spec}")
        arguments = () if settings is None else (settings,)
        gold: dict[str, bytes] = {"gold": PATCH} if self.needs == "gold" else {}
        harness: Any = self.cls(*arguments, **gold)
        program: Program | None = getattr(harness, "program", None)
        if program and program.where == "outside":
            harness = self.cls(*arguments, program=ProgramStore(self.settings.programs_home).find(program))
        return cast("Harness", harness)

    @property
    def own_tools(self) -> list[str]:
        """The real names of its tools; empty where the class does not say."""
        return list(getattr(self.make(), "own_tools", ()))

    @property
    def programs(self) -> list[str]:
        """The folders of programs that its sandboxes mount."""
        program: Program | None = getattr(self.make(), "program", None)
        return [program.folder] if program and program.where == "inside" else []

    @property
    def runs_program(self) -> bool:
        """Whether a program that is not ours speaks to the model."""
        return getattr(self.make(), "program", None) is not None

    @property
    def start_s(self) -> float:
        """Seconds that it may need before its first model call, beyond what a run takes."""
        if not self.runs_program:
            return 0.0
        return INSIDE_START_S if self.runs_commands_itself else OUTSIDE_START_S

    @property
    def runs_commands_itself(self) -> bool:
        """Whether its commands run without the blocklist, so that none can be refused."""
        program: Program | None = getattr(self.make(), "program", None)
        return program is not None and program.where == "inside"

    async def ready(self) -> None:
        """Raise RuntimeMissing where no sandbox can be started here."""
        await (await open_provider(self.settings)).close()


class HarnessRun(NamedTuple):
    """A run that has ended."""

    exit_or_none: Exit | None
    """None: the run raised `error`."""
    error: Exception | None
    steps: list[Step]
    bodies: list[bytes]
    """Bodies of the model requests, byte for byte."""
    answers: list[list[JsonObject]]
    """The model's answers."""
    workspace: SandboxWorkspace
    tunnel: Tunnel | None
    """None: the harness runs no program."""

    @property
    def requests(self) -> list[JsonObject]:
        return [orjson.loads(body) for body in self.bodies]

    @property
    def exit(self) -> Exit:
        expect(self.exit_or_none is not None, f"it raised {self.error!r}")
        assert self.exit_or_none is not None
        return self.exit_or_none

    @property
    def results(self) -> list[JsonObject]:
        """The results of its calls, as the last request holds them."""
        return results(self.requests[-1]["input"]) if self.bodies else []

    @property
    def texts(self) -> list[str]:
        return [text_of(result) for result in self.results]

    def expect_exit(self, *ways: str) -> Exit:
        expect(self.exit.ended in ways, f"it ended as {self.exit.ended} ({self.exit.detail}), not {' or '.join(ways)}")
        return self.exit


class HarnessFixture:
    """A model server and a sandbox provider, in which the harness is run."""

    def __init__(self, target: HarnessTarget, provider: Provider, server: ConversationServer, peer: Peer) -> None:
        self.target = target
        self.provider = provider
        self.server = server
        self._peer = peer
        self._tools: ShownTools | None = None

    async def sandbox(self) -> SandboxFixture:
        """Create a sandbox."""
        handle: SandboxHandle = await self.provider.create(
            SandboxSpec(image=self.target.image, workdir=WORKDIR, programs=self.target.programs),
            request_id=uuid.uuid4().hex,
        )
        return SandboxFixture(self.provider, handle)

    async def tools(self, names: dict[str, str] | None = None) -> ShownTools:
        """Return the tools of its first request. NotApplicable: the harness makes no request."""
        if names is None and self._tools is not None:
            return self._tools
        renamed: dict[str, Any] = {"tool_names": names} if names else {}
        run = await self.run(limits=RunLimits(max_turns=1, time_s=30.0), closing=None, **renamed)
        if not run.bodies:
            raise NotApplicable("it makes no model request of its own")
        tools = ShownTools(
            output_items(run.requests[0].get("tools")), {shown: real for real, shown in (names or {}).items()}
        )
        if names is None:
            self._tools = tools
        return tools

    def closing(self, tools: ShownTools) -> Items:
        """Return the answer that ends a run; a program may need the calls that its oracle ends with."""
        own = tools.closing()
        if not self.target.runs_program or calls_in(own):
            return own
        harness: Any = self.target.make()
        return [*own, *calls_in(harness.oracle(FIX)[-1])]

    async def run(
        self,
        *turns: Items | ScriptedReply,
        sandbox: SandboxFixture | None = None,
        limits: RunLimits = QUICK,
        harness: Harness | None = None,
        conversation: ScriptedConversation | None = None,
        closing: Items | None = (),
        report: Callable[[Step], None] = lambda _step: None,
        **task: Any,
    ) -> HarnessRun:
        """Run the harness; the model answers `turns`, then `closing` (empty: what ends its runs; None: a message).

        `conversation`, when given, records the requests and answers while the run goes on.
        """
        if closing == ():
            closing = self.closing(await self.tools())
        sandbox = sandbox or await self.sandbox()
        conversation = conversation or ScriptedConversation([])
        conversation.replies += [turn if isinstance(turn, ScriptedReply) else ScriptedReply(turn) for turn in turns]
        conversation.closing = ScriptedReply(closing) if closing else conversation.closing
        secret = new_secret()
        self.server.conversations[secret] = conversation
        workspace = SandboxWorkspace(
            self.provider, sandbox.id, workdir=WORKDIR, command_timeout_s=limits.tool_s, blocklist=Blocklist()
        )
        steps: list[Step] = []

        def record(step: Step) -> None:
            steps.append(step.model_copy(deep=True))
            report(step)

        exit_, error = None, None
        async with AsyncExitStack() as stack:
            model = await stack.enter_async_context(self._model(secret, sandbox, limits))
            try:
                target = harness or self.target.make()
                exit_ = await target.run(self.task(**task), workspace, model, limits, record)
            except NotApplicable:
                raise
            except Exception as failure:  # noqa: BLE001 - what a harness raises is what is looked at
                error = failure
        answers = [orjson.loads(items) for items in conversation.answers]
        return HarnessRun(exit_, error, steps, conversation.bodies, answers, workspace, model.tunnel)

    def task(self, **changes: Any) -> Task:
        names = {name: name for name in self.target.own_tools}
        visible = {"instance_id": "calc-1", "problem_statement": PROMPT}
        return Task(**{"prompt": PROMPT, "system": SYSTEM, "tool_names": names, "visible": visible, **changes})

    def _model(self, secret: str, sandbox: SandboxFixture, limits: RunLimits) -> RolloutModel:
        """Limits are the model server's for programs alone: a native harness ends by itself."""

        async def tunnel(options: TunnelOptions) -> Tunnel:
            inside = options.api_key is None
            listener = await self.provider.tunnel(sandbox.id, port=TUNNEL_PORT) if inside else loopback_listener()
            upstream = PeerUpstream(self._peer, Call(), secret=secret, model="policy")
            return Tunnel(listener, upstream, TunnelSettings(), hidden=[secret], **options._asdict())

        settings = RolloutSettings(max_turns=limits.max_turns, max_tokens=limits.max_tokens)
        return RolloutModel(self._peer, Call(), secret=secret, name="policy", open_tunnel=tunnel, settings=settings)


@asynccontextmanager
async def harness_fixture(target: HarnessTarget, *needs: Needs) -> AsyncIterator[HarnessFixture]:
    """Open a fixture for a harness that needs one of `needs` (default: a model). Raises NotApplicable for others."""
    if target.needs not in (needs or ("model",)):
        raise NotApplicable(f"it needs {_NEEDED[target.needs]}")
    target.make()
    provider = await open_provider(target.settings)
    try:
        server = ConversationServer()
        async with over("direct", server) as peers:
            yield HarnessFixture(target, provider, server, peers["policy"])
    finally:
        await provider.close()


def require_native(target: HarnessTarget, why: str) -> None:
    """Raise NotApplicable with the reason `why` for a harness that runs a program."""
    if target.runs_program:
        raise NotApplicable(why)


def results(items: object) -> list[JsonObject]:
    """Return the results of calls among items."""
    return [item for item in output_items(items) if item_type(item).endswith("_call_output")]


def text_of(result: JsonObject) -> str:
    """Return the text of a result: its output, or the text parts of a list."""
    output = result.get("output")
    if isinstance(output, str):
        return output
    expect(isinstance(output, list), f"a result's output is a {type(output).__name__}")
    return "".join(part.get("text", "") for part in output_items(output))


def calls_in(items: Sequence[JsonObject]) -> list[JsonObject]:
    """Return the calls among a model's items."""
    return [item for item in items if item_type(item) in ("function_call", "custom_tool_call")]
