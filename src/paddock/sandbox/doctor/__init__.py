"""Trying what this machine offers to sandboxes, for real."""

from paddock.sandbox.doctor.doctor import Report, examine
from paddock.sandbox.doctor.image import probe_image, probe_settings
from paddock.sandbox.doctor.machine import Fact
from paddock.sandbox.doctor.probe import Check, probe
from paddock.sandbox.doctor.trial import Trial, try_runtime

__all__ = [
    "Check",
    "Fact",
    "Report",
    "Trial",
    "examine",
    "probe",
    "probe_image",
    "probe_settings",
    "try_runtime",
]
