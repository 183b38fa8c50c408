"""The examination of this machine: every runtime tried at once, and what of the machine they depend on."""

import asyncio

from paddock.sandbox.cgroups import find_cgroups
from paddock.sandbox.doctor.image import probe_image, probe_settings
from paddock.sandbox.doctor.machine import MachineFact, facts
from paddock.sandbox.doctor.trial import Trial, try_runtime
from paddock.sandbox.runtimes import RUNTIMES
from paddock.sandbox.settings import SandboxSettings
from paddock.types import Record


class DoctorReport(Record):
    """What works here."""

    trials: list[Trial]
    """In the order that `auto` has."""
    facts: list[MachineFact]

    @property
    def works(self) -> bool:
        return any(trial.works for trial in self.trials)


async def examine(settings: SandboxSettings) -> DoctorReport:
    """Takes as long as the slowest runtime; see `trial.TRIAL_TIMEOUT_S`. OSError: the home can't be written."""
    cgroups = await asyncio.to_thread(find_cgroups)
    await asyncio.to_thread(probe_image, probe_settings(settings))
    trials = await asyncio.gather(
        *(try_runtime(make(), settings, cgroups, memory=cgroups is not None) for make in RUNTIMES)
    )
    return DoctorReport(trials=trials, facts=await asyncio.to_thread(facts, settings, cgroups))
