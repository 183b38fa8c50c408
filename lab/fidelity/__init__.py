"""How exact the tokens of a harness are, in a dialect, over a chat template: tried, and proven id by id.

Law     `exact` and `split` are said only of samples that were found, id by id and log-prob by log-prob, in the engine's
        own log. Harnesses and programs run for real (`harness:NAME`, `program:NAME`); programs are modelled too
        (`client:NAME`), which needs no sandbox and takes no minutes.
Parts   `scenarios` (what happens), `bench` (an exact server whose engine is scripted and logs), `native`,
        `programs` and `clients` (who asks), `measuring` (record beside log), `reporting` (all combinations).
"""

from paddock.lab.fidelity.bench import Bench, BenchServer, Stage, Subject, bench
from paddock.lab.fidelity.languages import OURS, Language, language, language_names
from paddock.lab.fidelity.measuring import Logged, measure
from paddock.lab.fidelity.naive import NaiveServer
from paddock.lab.fidelity.programs import ProgramSubject, programs
from paddock.lab.fidelity.records import VERDICTS, Combination, Figures, Report, Run, TemplateTraits, Verdict, worst
from paddock.lab.fidelity.reporting import report, scenarios, subjects, there
from paddock.lab.fidelity.scenarios import SCENARIOS, Do, Scenario, Turn

__all__ = [
    "OURS",
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
    "ProgramSubject",
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
    "programs",
    "report",
    "scenarios",
    "subjects",
    "there",
    "worst",
]
