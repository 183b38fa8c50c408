"""Tests what this machine offers to sandboxes, with real sandboxes."""

from paddock.sandbox.doctor.doctor import DoctorReport, examine
from paddock.sandbox.doctor.image import probe_image, probe_settings
from paddock.sandbox.doctor.machine import MachineFact
from paddock.sandbox.doctor.probe import ProbeCheck, probe
from paddock.sandbox.doctor.trial import Trial, try_runtime

__all__ = [
    "DoctorReport",
    "MachineFact",
    "ProbeCheck",
    "Trial",
    "examine",
    "probe",
    "probe_image",
    "probe_settings",
    "try_runtime",
]
