"""What a behaviour of harnesses acts in: a scripted model server, and a new real sandbox for each run.

Image    a small repository of ours, at `/testbed`, made of this machine's own programs.
Subject  a harness class and its settings; `ready` says whether sandboxes work here.
"""

import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, NamedTuple, cast

import orjson

from paddock.conformance.behaviours import NotApplicable, expect
from paddock.conformance.harnesses.face import Face
from paddock.conformance.harnesses.played import Conversation, Items, PlayedModel, Reply
from paddock.conformance.sandboxes.stage import Room
from paddock.harness import Exit, Harness, Program, RunLimits, SandboxWorkspace, Step, Task, needs_of
from paddock.harness.contract import Needs
from paddock.harness.factory import check_settings
from paddock.harness.programs.store import ProgramStore
from paddock.http import Call, Peer, new_secret
from paddock.sandbox import Provider, SandboxHandle, SandboxSettings, SandboxSpec, open_provider
from paddock.sandbox.blocklist import Blocklist
from paddock.sandbox.listening import loopback_listener
from paddock.sandbox.tunnel import Tunnel, TunnelSettings
from paddock.server.rollout_model import RolloutModel, TunnelWish
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


class HarnessSubject(NamedTuple):
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
        """A new one, with keys of its block changed."""
        settings = check_settings(self.cls, {**self.block, **changes}, f"harness {self.spec}")
        arguments = () if settings is None else (settings,)
        gold: dict[str, bytes] = {"gold_patch": PATCH} if self.needs == "gold" else {}
        harness: Any = self.cls(*arguments, **gold)
        program: Program | None = getattr(harness, "program", None)
        if program and program.where == "outside":
            harness = self.cls(*arguments, program=ProgramStore(self.settings.programs_home).find(program))
        return cast("Harness", harness)

    @property
    def own_tools(self) -> list[str]:
        """Real names; empty where the class does not say."""
        return list(getattr(self.make(), "own_tools", ()))

    @property
    def programs(self) -> list[str]:
        """Folders that its sandboxes see."""
        program: Program | None = getattr(self.make(), "program", None)
        return [program.folder] if program and program.where == "inside" else []

    @property
    def runs_program(self) -> bool:
        """It is not our code that speaks to the model."""
        return getattr(self.make(), "program", None) is not None

    @property
    def start_s(self) -> float:
        """What it may need before it asks for the first time, beyond what a run needs."""
        if not self.runs_program:
            return 0.0
        return INSIDE_START_S if self.runs_commands_itself else OUTSIDE_START_S

    @property
    def runs_commands_itself(self) -> bool:
        """Nobody could refuse one."""
        program: Program | None = getattr(self.make(), "program", None)
        return program is not None and program.where == "inside"

    async def ready(self) -> None:
        """RuntimeMissing where nothing can be checked here."""
        await (await open_provider(self.settings)).close()


class Played(NamedTuple):
    """A run that has ended."""

    left: Exit | None
    """None: it raised."""
    error: Exception | None
    steps: list[Step]
    raw: list[bytes]
    """Requests, as they came."""
    said: list[list[JsonObject]]
    """The model's answers."""
    workspace: SandboxWorkspace
    tunnel: Tunnel | None
    """Of a program."""

    @property
    def requests(self) -> list[JsonObject]:
        return [orjson.loads(body) for body in self.raw]

    @property
    def exit(self) -> Exit:
        expect(self.left is not None, f"it raised {self.error!r}")
        assert self.left is not None
        return self.left

    @property
    def results(self) -> list[JsonObject]:
        """Of its calls, as the model got them back."""
        return results(self.requests[-1]["input"]) if self.raw else []

    @property
    def texts(self) -> list[str]:
        return [text_of(result) for result in self.results]

    def ended(self, *ways: str) -> Exit:
        expect(self.exit.ended in ways, f"it ended as {self.exit.ended} ({self.exit.detail}), not {' or '.join(ways)}")
        return self.exit


class Stage:
    """A model server and a provider; runs happen in it."""

    def __init__(self, subject: HarnessSubject, provider: Provider, server: PlayedModel, peer: Peer) -> None:
        self.subject = subject
        self.provider = provider
        self.server = server
        self._peer = peer
        self._face: Face | None = None

    async def room(self) -> Room:
        """A new sandbox."""
        handle: SandboxHandle = await self.provider.create(
            SandboxSpec(image=self.subject.image, workdir=WORKDIR, programs=self.subject.programs),
            request_id=uuid.uuid4().hex,
        )
        return Room(self.provider, handle)

    async def face(self, names: dict[str, str] | None = None) -> Face:
        """What it shows; NotApplicable for a harness that makes no request."""
        if names is None and self._face is not None:
            return self._face
        renamed: dict[str, Any] = {"tool_names": names} if names else {}
        played = await self.play(limits=RunLimits(max_turns=1, time_s=30.0), closing=None, **renamed)
        if not played.raw:
            raise NotApplicable("it makes no model request of its own")
        face = Face(
            output_items(played.requests[0].get("tools")), {shown: real for real, shown in (names or {}).items()}
        )
        if names is None:
            self._face = face
        return face

    def closing(self, face: Face) -> Items:
        """The answer that ends a run; that of a program may be what its oracle ends with."""
        own = face.closing()
        if not self.subject.runs_program or calls_in(own):
            return own
        harness: Any = self.subject.make()
        return [*own, *calls_in(harness.oracle(FIX)[-1])]

    async def play(
        self,
        *turns: Items | Reply,
        room: Room | None = None,
        limits: RunLimits = QUICK,
        harness: Harness | None = None,
        talk: Conversation | None = None,
        closing: Items | None = (),
        report: Callable[[Step], None] = lambda _step: None,
        **task: Any,
    ) -> Played:
        """Let it work: the model says `turns`, then `closing` (empty: what ends its runs; None: a message).

        `talk`, when given, is the conversation's record, for a look at it while it goes on.
        """
        if closing == ():
            closing = self.closing(await self.face())
        room = room or await self.room()
        talk = talk or Conversation([])
        talk.replies += [turn if isinstance(turn, Reply) else Reply(turn) for turn in turns]
        talk.closing = Reply(closing) if closing else talk.closing
        secret = new_secret()
        self.server.conversations[secret] = talk
        workspace = SandboxWorkspace(
            self.provider, room.id, workdir=WORKDIR, command_timeout_s=limits.tool_s, blocklist=Blocklist()
        )
        steps: list[Step] = []

        def reported(step: Step) -> None:
            steps.append(step.model_copy(deep=True))
            report(step)

        left, error = None, None
        async with AsyncExitStack() as stack:
            model = await stack.enter_async_context(self._model(secret, room, limits))
            try:
                subject = harness or self.subject.make()
                left = await subject.run(self.task(**task), workspace, model, limits, reported)
            except NotApplicable:
                raise
            except Exception as raised:  # noqa: BLE001 - what a harness raises is what is looked at
                error = raised
        said = [orjson.loads(items) for items in talk.said]
        return Played(left, error, steps, talk.asked, said, workspace, model.tunnel)

    def task(self, **changes: Any) -> Task:
        names = {name: name for name in self.subject.own_tools}
        visible = {"instance_id": "calc-1", "problem_statement": PROMPT}
        return Task(**{"prompt": PROMPT, "system": SYSTEM, "tool_names": names, "visible": visible, **changes})

    def _model(self, secret: str, room: Room, limits: RunLimits) -> RolloutModel:
        """Limits are the model server's for programs alone: a native harness ends by itself."""

        async def tunnel(wish: TunnelWish) -> Tunnel:
            inside = wish.api_key is None
            listener = await self.provider.tunnel(room.id, port=TUNNEL_PORT) if inside else loopback_listener()
            upstream = PeerUpstream(self._peer, Call(), secret=secret, model="policy")
            return Tunnel(listener, upstream, TunnelSettings(), hidden=[secret], **wish._asdict())

        settings = RolloutSettings(max_turns=limits.max_turns, max_tokens=limits.max_tokens)
        return RolloutModel(self._peer, Call(), secret=secret, name="policy", open_tunnel=tunnel, settings=settings)


@asynccontextmanager
async def staged(subject: HarnessSubject, *needs: Needs) -> AsyncIterator[Stage]:
    """A stage, for harnesses that need one of `needs`; none given: a model."""
    if subject.needs not in (needs or ("model",)):
        raise NotApplicable(f"it needs {_NEEDED[subject.needs]}")
    subject.make()
    provider = await open_provider(subject.settings)
    try:
        server = PlayedModel()
        async with over("direct", server) as peers:
            yield Stage(subject, provider, server, peers["policy"])
    finally:
        await provider.close()


def native(subject: HarnessSubject, why: str) -> None:
    """NotApplicable for a harness that runs a program, with the reason."""
    if subject.runs_program:
        raise NotApplicable(why)


def results(items: object) -> list[JsonObject]:
    """The results of calls among items."""
    return [item for item in output_items(items) if item_type(item).endswith("_call_output")]


def text_of(result: JsonObject) -> str:
    """Of a result: a text, or the text parts of a list."""
    output = result.get("output")
    if isinstance(output, str):
        return output
    expect(isinstance(output, list), f"a result's output is a {type(output).__name__}")
    return "".join(part.get("text", "") for part in output_items(output))


def calls_in(items: Sequence[JsonObject]) -> list[JsonObject]:
    """The calls among a model's items."""
    return [item for item in items if item_type(item) in ("function_call", "custom_tool_call")]
