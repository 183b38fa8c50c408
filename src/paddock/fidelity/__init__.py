"""How exact the tokens of a harness are, in a dialect, over a chat template: tried, and proven id by id.

Law     `exact` and `split` are said only of samples that were found, id by id and log-prob by log-prob, in the engine's
        own log. Harnesses run for real (`harness:NAME`), programs are modelled (`client:NAME`).
Parts   `scenarios` (what happens), `bench` (an exact server whose engine is scripted and logs), `native` and `clients`
        (who asks), `measuring` (record beside log), `reporting` (all combinations).
"""

from paddock.fidelity.bench import Bench, BenchServer, Stage, Subject, bench
from paddock.fidelity.languages import Language, language, language_names
from paddock.fidelity.measuring import Logged, measure
from paddock.fidelity.naive import NaiveServer
from paddock.fidelity.records import VERDICTS, Combination, Figures, Report, Run, TemplateTraits, Verdict, worst
from paddock.fidelity.reporting import report, scenarios, subjects
from paddock.fidelity.scenarios import SCENARIOS, Do, Scenario, Turn

__all__ = [
    "SCENARIOS",
    "VERDICTS",
    "Bench",
    "BenchServer",
    "Combination",
    "Do",
    "Figures",
    "Language",
    "Logged",
    "NaiveServer",
    "Report",
    "Run",
    "Scenario",
    "Stage",
    "Subject",
    "TemplateTraits",
    "Turn",
    "Verdict",
    "bench",
    "language",
    "language_names",
    "measure",
    "report",
    "scenarios",
    "subjects",
    "worst",
]
