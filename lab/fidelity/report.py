"""All combinations: subjects by name, each over each template, through each scenario.

Law     a program that is not installed is named, with why, and left out.
Errors  ConfigError: no such subject, nothing that could be tried.
"""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence

from paddock.config.problems import suggestion
from paddock.errors import ConfigError
from paddock.lab.fidelity.bench import Bench, BenchServer, EngineFactory, FidelitySubject, bench, scripted_engine
from paddock.lab.fidelity.clients import CLIENTS, ClientSubject
from paddock.lab.fidelity.languages import Language
from paddock.lab.fidelity.native import NativeSubject
from paddock.lab.fidelity.programs import ProgramSubject, program_subjects
from paddock.lab.fidelity.records import Combination, FidelityReport, TemplateTraits
from paddock.lab.fidelity.scenarios import SCENARIOS, Scenario

NATIVE = ("codeact", "codex", "opencode")
_HARNESS, _CLIENT, _PROGRAM = "harness:", "client:", "program:"


def find_subjects(names: Sequence[str] = ()) -> list[FidelitySubject]:
    """The subjects of names: `harness:NAME`, a harness's bare name, `program:NAME` or `client:NAME` (in all their
    dialects). Without names all native harnesses and all clients, but no program: these take minutes."""
    if not names:
        return [*map(NativeSubject, NATIVE), *map(ClientSubject, CLIENTS)]
    subjects: list[FidelitySubject] = []
    for name in names:
        if name.startswith(_CLIENT):
            subjects += _clients(name.removeprefix(_CLIENT))
        elif name.startswith(_PROGRAM):
            subjects += program_subjects([name.removeprefix(_PROGRAM)])
        else:
            subjects.append(NativeSubject(name.removeprefix(_HARNESS)))
    return subjects


def available_subjects(subjects: Sequence[FidelitySubject]) -> tuple[list[FidelitySubject], dict[str, str]]:
    """The subjects that can be tried here; the names of the others, each with what is missing."""
    missing: dict[str, str] = {}
    for subject in subjects:
        if isinstance(subject, ProgramSubject):
            try:
                subject.installed()
            except ConfigError as error:
                missing[subject.name] = error.message
    return [subject for subject in subjects if subject.name not in missing], missing


def find_scenarios(names: Sequence[str] = ()) -> list[Scenario]:
    """The scenarios of those names; all of them without names."""
    unknown = next((name for name in names if name not in SCENARIOS), None)
    if unknown is not None:
        raise ConfigError(
            f"scenario {unknown!r}: there is none{suggestion(unknown, SCENARIOS)}", kind="scenario_unknown"
        )
    return [SCENARIOS[name] for name in names] or list(SCENARIOS.values())


async def report(
    subjects: Sequence[FidelitySubject],
    languages: Sequence[Language],
    scenarios: Sequence[Scenario],
    *,
    server_type: type[BenchServer] = BenchServer,
    make_engine: EngineFactory = scripted_engine,
    missing: Mapping[str, str] | None = None,
    on_combination: Callable[[Combination], None] = lambda _done: None,
) -> FidelityReport:
    """`missing`: of `available_subjects`. `on_combination`: called with each combination when it is done."""
    started = time.perf_counter()
    combinations = []
    for language in languages:
        async with bench(language, server_type=server_type, make_engine=make_engine) as runner:
            for subject in subjects:
                combination = await _combination(runner, subject, scenarios)
                combinations.append(combination)
                on_combination(combination)
                await asyncio.sleep(0)
    traits = [TemplateTraits(template=template.name, traits=template.prompter.traits) for template in languages]
    wall_s = time.perf_counter() - started
    return FidelityReport(combinations=combinations, templates=traits, skipped=dict(missing or {}), wall_s=wall_s)


async def _combination(runner: Bench, subject: FidelitySubject, scenarios: Sequence[Scenario]) -> Combination:
    runs = [run for scenario in scenarios if (run := await runner.run(subject, scenario)) is not None]
    if not runs:
        raise ConfigError(f"{subject.name}: none of the scenarios can be tried with it", kind="subject_invalid")
    return Combination(subject=subject.name, dialect=subject.dialect, template=runner.language.name, runs=runs)


def _clients(name: str) -> list[FidelitySubject]:
    subjects = [ClientSubject(cls) for cls in CLIENTS if name == cls.NAME]
    if not subjects:
        names = list(dict.fromkeys(cls.NAME for cls in CLIENTS))
        raise ConfigError(f"client {name!r}: there is none{suggestion(name, names)}", kind="client_unknown")
    return list(subjects)
