"""The wire lab: a program's harness on a small repository, against a scripted model, scenario by scenario.

Seam    `Harness.run` with a model whose `endpoint` opens a real tunnel onto the script: so programs in the sandbox and
        programs on this machine are the same to it.
Law     each scenario has a sandbox of its own. What is written down is what came, normalised; nothing is repaired.
Errors  ConfigError: a harness without `lab`, an unknown dialect or scenario, a program that is not installed; what
        keeps sandboxes from working here. An error of the harness is how that scenario ended.
"""

import asyncio
import inspect
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from paddock.errors import ConfigError, PaddockError
from paddock.harness import Harness, Program, RunLimits, SandboxWorkspace, Task, harness_class
from paddock.harness.factory import check_settings
from paddock.harness.programs.installation import InstalledProgram
from paddock.harness.programs.lab import LabTools
from paddock.harness.programs.store import ProgramStore
from paddock.http import Call, new_secret
from paddock.lab.wirelab.normal_form import Normaliser
from paddock.lab.wirelab.records import ScenarioRecord, WireRecord, merge_repeats
from paddock.lab.wirelab.scenarios import (
    FILES,
    PROMPT,
    SYSTEM,
    WireScenario,
    closing_turn,
    find_scenarios,
    numbered_turns,
    our_texts,
)
from paddock.lab.wirelab.script import MODEL, WireScript
from paddock.lab.wirelab.tap import Tap, TappedRequest
from paddock.sandbox import Provider, SandboxHandle, SandboxSettings, SandboxSpec, open_provider
from paddock.sandbox.doctor import probe_settings
from paddock.sandbox.images import ImageStore
from paddock.sandbox.socket_listener import loopback_listener
from paddock.sandbox.tunnel import Tunnel
from paddock.server.rollout_model import RolloutModel, TunnelOptions
from paddock.testing.sandboxes import WORKDIR, repository_image
from paddock.types import JsonObject

IMAGE = "paddock/wirelab-3"
PORT = 4242
"""The port of the tunnel inside the sandbox."""
TIME_S = 300.0
"""The limit of one scenario: only what hangs meets it."""


class WireSubject(NamedTuple):
    """A program in one version, one dialect and one set of settings."""

    spec: str
    cls: type[Any]
    tools: LabTools
    dialect: str
    block: JsonObject
    """The harness's settings, beside those that the lab plays it with."""

    def make(self, installed: InstalledProgram | None = None, **changes: Any) -> Any:
        """`installed`: for a program that runs on this machine."""
        block = {**self.tools.settings, **self.tools.dialects[self.dialect], **self.block, **changes}
        settings = check_settings(self.cls, block, f"harness {self.spec}")
        located = {} if installed is None else {"program": installed}
        return self.cls(*(() if settings is None else (settings,)), **located)

    @property
    def program(self) -> Program:
        program: Program = self.make().program
        return program

    @property
    def folder(self) -> Path:
        """The harness's folder, where its records are."""
        return Path(inspect.getfile(self.cls)).resolve().parent


def find_subject(
    spec: str, *, version: str | None = None, dialect: str | None = None, block: JsonObject | None = None
) -> WireSubject:
    """A program's harness. `version` None: the one it has by default; `dialect` None: its first."""
    cls = harness_class(spec)
    tools = getattr(cls, "lab", None)
    if not isinstance(tools, LabTools):
        raise ConfigError(f"harness {spec}: {cls.__name__} has no `lab`: it is no program", kind="no_program")
    dialect = dialect or next(iter(tools.dialects))
    if dialect not in tools.dialects:
        raise ConfigError(f"harness {spec}: speaks {', '.join(tools.dialects)}, not {dialect}", kind="dialect_unknown")
    named = {"version": version} if version else {}
    return WireSubject(spec, cls, tools, dialect, {**(block or {}), **named})


async def record(
    subject: WireSubject,
    names: Sequence[str] = (),
    *,
    settings: SandboxSettings | None = None,
    on_scenario: Callable[[str], None] = lambda _name: None,
) -> WireRecord:
    """What the program sends in the scenarios of those names, or in all. `settings` are those of sandboxes; None: a
    home below this machine's, with its programs. `on_scenario` is called with the name of each before it runs."""
    scenarios = find_scenarios(names, subject.tools)
    program = subject.program
    settings = settings or probe_settings(SandboxSettings())
    installed = ProgramStore(settings.programs_home).find(program)
    try:
        image = repository_image(ImageStore(settings.home, payload_id=settings.payload_id), IMAGE, FILES)
    except FileNotFoundError as error:
        raise ConfigError(str(error), kind="image_missing") from error
    runs = {}
    provider = await open_provider(settings)
    try:
        for scenario in scenarios:
            on_scenario(scenario.name)
            runs[scenario.name] = await _play(subject, installed, scenario, provider, image)
    finally:
        await provider.close()
    block = {key: value for key, value in subject.block.items() if key != "version"}
    return WireRecord(program=program.name, version=program.version, dialect=subject.dialect, settings=block, runs=runs)


async def _play(
    subject: WireSubject, installed: InstalledProgram, scenario: WireScenario, provider: Provider, image: str
) -> ScenarioRecord:
    tools, program = subject.tools, subject.program
    changes = (tools.compact or {}) if scenario.needs == "compact" else {}
    located = installed if program.where == "outside" else None
    script = WireScript(numbered_turns(scenario, tools), partial(closing_turn, tools))
    sent: list[TappedRequest] = []
    async with (
        _sandbox(provider, program, image) as sandbox_id,
        _model(provider, sandbox_id, script, sent) as model,
    ):
        workspace = SandboxWorkspace(provider, sandbox_id, workdir=WORKDIR)
        ended = await _run_exit(subject.make(located, **changes), workspace, model, script)
    replacements = {
        str(installed.folder): "<program>",
        f"{program.mount_path}": "<program>",
        f"{program.mount_path.parent / 'home'}": "<home>",
        program.version: "<version>",
    }
    normaliser = Normaliser(
        our_texts=our_texts(scenario, tools), volatile=tools.volatile, late=tools.late, replacements=replacements
    )
    return ScenarioRecord(ended=ended, requests=merge_repeats([normaliser.request(request) for request in sent]))


async def _run_exit(
    harness: Harness, workspace: SandboxWorkspace, model: RolloutModel, script: WireScript
) -> JsonObject:
    """How the harness's run ended. One whose model hangs is cancelled."""
    task = Task(prompt=PROMPT, system=SYSTEM, visible={"instance_id": "lab-1", "problem_statement": PROMPT})
    running = asyncio.ensure_future(harness.run(task, workspace, model, RunLimits(time_s=TIME_S), lambda _step: None))
    hanging = asyncio.ensure_future(script.hangs.wait())
    try:
        await asyncio.wait({running, hanging}, return_when=asyncio.FIRST_COMPLETED)
        if not running.done():
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            return {"cancelled": True}
        exit_ = running.result()
        return {"ended": exit_.ended, "turns": exit_.turns, "malformed": dict(sorted(exit_.malformed.items()))}
    except PaddockError as error:
        return {"failed": error.kind}
    finally:
        for future in (running, hanging):
            future.cancel()
        await asyncio.gather(running, hanging, return_exceptions=True)


@asynccontextmanager
async def _sandbox(provider: Provider, program: Program, image: str) -> AsyncIterator[str]:
    mounted = [program.folder] if program.where == "inside" else []
    spec = SandboxSpec(image=image, workdir=WORKDIR, programs=mounted)
    handle: SandboxHandle = await provider.create(spec, request_id=uuid.uuid4().hex)
    try:
        yield handle.sandbox_id
    finally:
        await provider.destroy(handle.sandbox_id)


@asynccontextmanager
async def _model(
    provider: Provider, sandbox_id: str, script: WireScript, sent: list[TappedRequest]
) -> AsyncIterator[RolloutModel]:
    async def tunnel(options: TunnelOptions) -> Tunnel:
        listener = await provider.tunnel(sandbox_id, port=PORT) if options.api_key is None else loopback_listener()
        return Tunnel(Tap(listener, sent), script, **options._asdict())

    async with RolloutModel(script.peer, Call(), secret=new_secret(), name=MODEL, open_tunnel=tunnel) as model:
        yield model
