"""What programs that are not ours send to their model, written down scenario by scenario, and how versions differ.

    subject = find_subject("codex_cli", version="0.63.0")
    after = await record(subject)
    print(report(read_record(record_file(subject.folder, "0.169.0", subject.dialect)), after))

Parts   `scenarios` (what the model says), `script` (it says so, in each dialect, with faults), `tap` (what came),
        `recorder` (a run of each), `normal_form` (what is kept of it), `records` (files), `drift` (differences).
"""

from paddock.lab.wirelab.drift import Difference, differences, report
from paddock.lab.wirelab.normal_form import Normaliser, is_recordable
from paddock.lab.wirelab.recorder import WireSubject, find_subject, record
from paddock.lab.wirelab.records import (
    RecordedRequest,
    ScenarioRecord,
    WireRecord,
    dump_record,
    read_record,
    record_file,
    write_record,
)
from paddock.lab.wirelab.scenarios import SCENARIOS, WireScenario, our_texts

__all__ = [
    "SCENARIOS",
    "Difference",
    "Normaliser",
    "RecordedRequest",
    "ScenarioRecord",
    "WireRecord",
    "WireScenario",
    "WireSubject",
    "differences",
    "dump_record",
    "find_subject",
    "is_recordable",
    "our_texts",
    "read_record",
    "record",
    "record_file",
    "report",
    "write_record",
]
