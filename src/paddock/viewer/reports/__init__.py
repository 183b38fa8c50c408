"""Reports beside runs, as blocks: what `paddock fidelity`, `swe check`, `swe grade` and `judge check` write to files.

Law     a verdict in one line first, then what is wrong, then all cases. Nothing is judged again: figures are the
        file's. A file that is damaged, or has another form than this version's, is described as such.
"""

from paddock.viewer.reports.files import REPORT_KINDS, REPORT_SUFFIXES, ReportKind, report_kind
from paddock.viewer.reports.read import ReportView, read_report

__all__ = ["REPORT_KINDS", "REPORT_SUFFIXES", "ReportKind", "ReportView", "read_report", "report_kind"]
