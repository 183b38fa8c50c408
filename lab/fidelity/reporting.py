"""All combinations: subjects by name, each over each template, through each scenario.

Law     a program that is not installed is named, with why, and left out.
Errors  ConfigError: no such subject, nothing that could be tried.
"""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence

from paddock.config.problems import suggestion
from paddock.errors import ConfigError
from paddock.lab.fidelity.bench import Bench, BenchServer, Subject, bench
from paddock.lab.fidelity.clients import CLIENTS, ClientSubject
from paddock.lab.fidelity.languages import Language
from paddock.lab.fidelity.native import NativeSubject
from paddock.lab.fidelity.programs import ProgramSubject, programs
from paddock.lab.fidelity.records import Combination, Report, TemplateTraits
from paddock.lab.fidelity.scenarios import SCENARIOS, Scenario

NATIVE = ("codeact", "codex", "opencode")
_HARNESS, _CLIENT, _PROGRAM = "harness:", "client:", "program:"


def subjects(names: Sequence[str] = ()) -> list[Subject]:
    """Of `harness:NAME`, a harness's bare name, `program:NAME` or `client:NAME` (in all their dialects); of none all
    native ones and all clients, but no program: these take minutes."""
    if not names:
        return [*map(NativeSubject, NATIVE), *map(ClientSubject, CLIENTS)]
    found: list[Subject] = []
    for name in names:
        if name.startswith(_CLIENT):
            found += _clients(name.removeprefix(_CLIENT))
        elif name.startswith(_PROGRAM):
            found += programs([name.removeprefix(_PROGRAM)])
        else:
            found.append(NativeSubject(name.removeprefix(_HARNESS)))
    return found


def there(chosen: Sequence[Subject]) -> tuple[list[Subject], dict[str, str]]:
    """Those that can be tried here; the names of the others, and what is missing."""
    missing: dict[str, str] = {}
    for subject in chosen:
        if isinstance(subject, ProgramSubject):
            try:
                subject.installed()
            except ConfigError as error:
                missing[subject.name] = error.message
    return [one for one in chosen if one.name not in missing], missing


def scenarios(names: Sequence[str] = ()) -> list[Scenario]:
    """By name; all of none."""
    unknown = next((name for name in names if name not in SCENARIOS), None)
    if unknown is not None:
        raise ConfigError(
            f"scenario {unknown!r}: there is none{suggestion(unknown, SCENARIOS)}", kind="scenario_unknown"
        )
    return [SCENARIOS[name] for name in names] or list(SCENARIOS.values())


async def report(
    chosen: Sequence[Subject],
    languages: Sequence[Language],
    played: Sequence[Scenario],
    *,
    server_type: type[BenchServer] = BenchServer,
    missing: Mapping[str, str] | None = None,
    tell: Callable[[Combination], None] = lambda _one: None,
) -> Report:
    """`missing`: of `there`. `tell`: called with each combination when it is done."""
    started = time.perf_counter()
    combinations = []
    for language in languages:
        async with bench(language, server_type=server_type) as stand:
            for subject in chosen:
                one = await _combination(stand, subject, played)
                combinations.append(one)
                tell(one)
                await asyncio.sleep(0)
    traits = [TemplateTraits(template=one.name, traits=one.prompter.traits) for one in languages]
    wall_s = time.perf_counter() - started
    return Report(combinations=combinations, templates=traits, skipped=dict(missing or {}), wall_s=wall_s)


async def _combination(stand: Bench, subject: Subject, played: Sequence[Scenario]) -> Combination:
    runs = [run for scenario in played if (run := await stand.run(subject, scenario)) is not None]
    if not runs:
        raise ConfigError(f"{subject.name}: none of the scenarios can be tried with it", kind="subject_invalid")
    return Combination(subject=subject.name, dialect=subject.dialect, template=stand.language.name, runs=runs)


def _clients(name: str) -> list[Subject]:
    found = [ClientSubject(cls) for cls in CLIENTS if name == cls.NAME]
    if not found:
        known = list(dict.fromkeys(cls.NAME for cls in CLIENTS))
        raise ConfigError(f"client {name!r}: there is none{suggestion(name, known)}", kind="client_unknown")
    return list(found)
