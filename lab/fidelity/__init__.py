"""How exact the tokens of a harness are, in a dialect, over a chat template: measured, and proven id by id.

Law     `exact` and `split` are said only of samples that were found, id by id and log-prob by log-prob, in the engine's
        own log. Harnesses and programs run for real (`harness:NAME`, `program:NAME`); programs are modelled too
        (`client:NAME`), which needs no sandbox and takes no minutes.
Parts   `scenarios` (what happens), `bench` (an exact server whose engine is scripted and logs), `native`,
        `programs` and `clients` (who asks), `figures` (record beside log), `report` (all combinations).
"""

from paddock.lab.fidelity.bench import Bench, BenchServer, FidelitySubject, ScenarioRun, bench
from paddock.lab.fidelity.figures import LoggedCall, measure
from paddock.lab.fidelity.languages import OURS, Language, language, language_names
from paddock.lab.fidelity.naive import NaiveServer
from paddock.lab.fidelity.programs import ProgramSubject, program_subjects
from paddock.lab.fidelity.records import (
    VERDICTS,
    Combination,
    FidelityReport,
    Figures,
    ScenarioResult,
    TemplateTraits,
    Verdict,
    worst,
)
from paddock.lab.fidelity.report import available_subjects, find_scenarios, find_subjects, report
from paddock.lab.fidelity.scenarios import SCENARIOS, PolicyCall, PolicyTurn, Scenario

__all__ = [
    "OURS",
    "SCENARIOS",
    "VERDICTS",
    "Bench",
    "BenchServer",
    "Combination",
    "FidelityReport",
    "FidelitySubject",
    "Figures",
    "Language",
    "LoggedCall",
    "NaiveServer",
    "PolicyCall",
    "PolicyTurn",
    "ProgramSubject",
    "Scenario",
    "ScenarioResult",
    "ScenarioRun",
    "TemplateTraits",
    "Verdict",
    "available_subjects",
    "bench",
    "find_scenarios",
    "find_subjects",
    "language",
    "language_names",
    "measure",
    "program_subjects",
    "report",
    "worst",
]
