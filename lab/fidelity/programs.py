"""A real program, run for real: installed, in a sandbox of its own (or beside one), over a real tunnel.

Law     the program is unmodified and decides what it sends; the policy says the scenario's turns through its own tools.
        Commands print what stands in the sandbox's files: those of a scenario, of its lengths.
Title, retry, forget: only a model of a client does these when a scenario says so: NotApplicable.
Ends    as a rollout does; a message ends most programs, so a scenario in which they only talk is short for them.
Errors  ConfigError: no program of that name, not installed, no sandboxes here. What a program fails of is its run's.
"""

import json
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, cast

from paddock.conformance.behaviours import NotApplicable
from paddock.conformance.harnesses.scripted_model import LAST_WORDS
from paddock.errors import ConfigError
from paddock.harness import Harness, Program, RunLimits, SandboxWorkspace, Task, harness_class
from paddock.harness.factory import check_settings
from paddock.harness.programs.catalogue import load_catalogue
from paddock.harness.programs.installation import InstalledProgram
from paddock.harness.programs.lab import LabTools
from paddock.harness.programs.store import ProgramStore
from paddock.http import Call, Peer
from paddock.lab.fidelity.bench import MODEL, ScenarioRun
from paddock.lab.fidelity.scenarios import PROMPT, SYSTEM, Scenario
from paddock.lab.fidelity.workspace import command_output
from paddock.sandbox import Provider, RuntimeMissing, SandboxSettings, SandboxSpec, open_provider
from paddock.sandbox.doctor import probe_settings
from paddock.sandbox.images import ImageStore
from paddock.sandbox.socket_listener import loopback_listener
from paddock.sandbox.tunnel import Tunnel
from paddock.server.dialects import Dialect
from paddock.server.rollout_model import RolloutModel, TunnelOptions
from paddock.server.upstream import PeerUpstream
from paddock.testing.sandboxes import WORKDIR, repository_image
from paddock.types import JsonObject, RolloutSettings
from paddock.types.responses import call_item, message_item, output_items

IMAGE = "paddock/fidelity-1"
FILES = {"calc.py": "def add(a, b):\n    return a - b\n"}
PORT = 4343
"""The port of the tunnel inside the sandbox."""
LIMITS = RunLimits(max_turns=40, time_s=300.0, tool_s=60.0)
"""Only what hangs, or never ends, meets them."""


class ProgramToolset(NamedTuple):
    """A program's tools, as a request shows them."""

    lab: LabTools
    tools: list[JsonObject]

    def shell(self, line: str) -> JsonObject:
        return call_item(self.lab.tool, json.dumps(self.lab.line(line), ensure_ascii=False))

    def closing(self) -> list[JsonObject]:
        return [self.lab.finish() if self.lab.finish is not None else message_item(LAST_WORDS)]


class ProgramSubject(NamedTuple):
    """A program, in one of its dialects."""

    spec: str
    dialect: Dialect
    settings: SandboxSettings | None = None
    """Settings of sandboxes; None: a home below this machine's, with its programs."""

    @property
    def name(self) -> str:
        return f"program:{self.spec}"

    @property
    def program(self) -> Program:
        return cast("Program", self._make_harness().program)

    def installed(self) -> InstalledProgram:
        """ConfigError, with the command that installs it."""
        return ProgramStore(self._settings.programs_home).find(self.program)

    async def play(self, run: ScenarioRun) -> None:
        if any(turn.beside or turn.retried for turn in run.scenario.turns):
            raise NotApplicable("programs do that when they like")
        installed = self.installed()
        harness = self._make_harness(installed if self.program.where == "outside" else None)
        async with (
            _sandbox(self._settings, self.program) as (provider, sandbox_id),
            _model(run, provider, sandbox_id, run.peer(self._toolset)) as model,
        ):
            workspace = SandboxWorkspace(provider, sandbox_id, workdir=WORKDIR)
            for path, text in _files(run.scenario).items():
                await workspace.write(f"{WORKDIR}/{path}", text.encode())
            task = Task(prompt=PROMPT, system=SYSTEM, visible={"instance_id": "calc-1", "problem_statement": PROMPT})
            exit_ = await model.watch(harness.run(task, workspace, model, LIMITS, lambda _step: None))
        if exit_.ended not in ("finished", "output_limit"):
            run.problem = f"it ended as {exit_.ended}" + (f": {exit_.detail}" if exit_.detail else "")

    @property
    def _settings(self) -> SandboxSettings:
        return self.settings or probe_settings(SandboxSettings())

    @property
    def _lab(self) -> LabTools:
        return lab_tools_of(self.spec)

    def _make_harness(self, installed: InstalledProgram | None = None) -> Any:
        """The harness. `installed`: of a program that runs on this machine."""
        cls: Any = harness_class(self.spec)
        settings = check_settings(cls, {**self._lab.dialects[self.dialect]}, self.name)
        located = {} if installed is None else {"program": installed}
        harness: Harness = cls(*(() if settings is None else (settings,)), **located)
        return harness

    def _toolset(self, dialect: Dialect, body: JsonObject) -> ProgramToolset:
        return ProgramToolset(self._lab, output_items(body.get("tools")) if dialect == "responses" else [])


def lab_tools_of(spec: str) -> LabTools:
    """How calls are written for a program; ConfigError where that is none."""
    lab = getattr(harness_class(spec), "lab", None)
    if not isinstance(lab, LabTools):
        raise ConfigError(f"program:{spec}: the harness has no `lab`: it is no program", kind="no_program")
    return lab


def program_subjects(names: Sequence[str] = ()) -> list[ProgramSubject]:
    """The programs of those names in all their dialects; without names, every harness that runs a program."""
    names = names or sorted(load_catalogue().programs)
    return [ProgramSubject(name, cast("Dialect", dialect)) for name in names for dialect in lab_tools_of(name).dialects]


def _files(scenario: Scenario) -> dict[str, str]:
    """Each with what its call has to print."""
    count = sum(len(turn.calls) for turn in scenario.turns)
    names = [f"notes-{number}.txt" for number in range(count)]
    return {name: command_output(scenario, name) for name in names}


@asynccontextmanager
async def _sandbox(settings: SandboxSettings, program: Program) -> AsyncIterator[tuple[Provider, str]]:
    try:
        image = repository_image(ImageStore(settings.home, payload_id=settings.payload_id), IMAGE, FILES)
        provider = await open_provider(settings)
    except (FileNotFoundError, RuntimeMissing) as error:
        raise ConfigError(f"programs need sandboxes: {error}", kind="no_sandbox") from error
    try:
        mounted = [program.folder] if program.where == "inside" else []
        spec = SandboxSpec(image=image, workdir=WORKDIR, programs=mounted)
        handle = await provider.create(spec, request_id=uuid.uuid4().hex)
        yield provider, handle.sandbox_id
    finally:
        await provider.close()


@asynccontextmanager
async def _model(run: ScenarioRun, provider: Provider, sandbox_id: str, peer: Peer) -> AsyncIterator[RolloutModel]:
    async def tunnel(options: TunnelOptions) -> Tunnel:
        listener = await provider.tunnel(sandbox_id, port=PORT) if options.api_key is None else loopback_listener()
        upstream = PeerUpstream(peer, Call(), secret=run.secret, model=MODEL)
        return Tunnel(listener, upstream, hidden=[run.secret], **options._asdict())

    settings = RolloutSettings(max_turns=LIMITS.max_turns)
    async with RolloutModel(
        peer, Call(), secret=run.secret, name=MODEL, open_tunnel=tunnel, settings=settings
    ) as model:
        yield model
