"""Holding a judge against known preferences: `paddock judge check`."""

from paddock.resources_servers.genrm.calibration.preferences import Preference, read_preferences
from paddock.resources_servers.genrm.calibration.report import Calibration, Checked, calibrate
from paddock.resources_servers.genrm.calibration.running import check

__all__ = ["Calibration", "Checked", "Preference", "calibrate", "check", "read_preferences"]
