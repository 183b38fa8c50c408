"""What programs that are not ours send to their model, written down scenario by scenario, and how versions differ.

    subject = find_subject("codex_cli", version="0.63.0")
    after = await record(subject)
    print(report(read(file_of(subject.folder, "0.169.0", subject.dialect)), after))

Parts   `scenarios` (what the model says), `script` (it says so, in each dialect, with faults), `tapping` (what came),
        `lab` (a run of each), `normalising` (what is kept of it), `records` (files), `drifting` (differences).
"""

from paddock.lab.wirelab.drifting import Difference, differences, report
from paddock.lab.wirelab.lab import Subject, find_subject, record
from paddock.lab.wirelab.normalising import Normaliser, is_told
from paddock.lab.wirelab.records import Asked, Run, Transcripts, dumped, file_of, read, write
from paddock.lab.wirelab.scenarios import SCENARIOS, Scenario, ours

__all__ = [
    "SCENARIOS",
    "Asked",
    "Difference",
    "Normaliser",
    "Run",
    "Scenario",
    "Subject",
    "Transcripts",
    "differences",
    "dumped",
    "file_of",
    "find_subject",
    "is_told",
    "ours",
    "read",
    "record",
    "report",
    "write",
]
