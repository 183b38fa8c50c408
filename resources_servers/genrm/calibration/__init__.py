"""Measure how often a judge agrees with known preferences: `paddock judge check`."""

from paddock.resources_servers.genrm.calibration.preferences import Preference, read_preferences
from paddock.resources_servers.genrm.calibration.report import Calibration, PreferenceCheck, calibrate
from paddock.resources_servers.genrm.calibration.runner import check_judge

__all__ = ["Calibration", "Preference", "PreferenceCheck", "calibrate", "check_judge", "read_preferences"]
