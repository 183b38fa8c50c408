"""A runtime is used when it has been seen to work, and what does not work is said."""

import shutil
from pathlib import Path
from typing import Any, ClassVar

import pytest

from paddock.sandbox import RuntimeMissing, SandboxSettings, SandboxSpec, open_provider
from paddock.sandbox.doctor import Trial, try_runtime
from paddock.sandbox.doctor.trial import has_passed, remember
from paddock.sandbox.records import RuntimeName
from paddock.sandbox.runtimes import QUICKEST, RUNTIMES, Bubblewrap, ContainerRuntime

pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="no bwrap on PATH: apt-get install bubblewrap"),
]


class ReadOnly(Bubblewrap):
    """Forgets that the payload may write."""

    def command(self, spec: SandboxSpec) -> list[str]:
        words = super().command(spec)
        words[words.index("--bind")] = "--ro-bind"
        return words


class Open(Bubblewrap):
    """Shows the keeper's own processes, and ends without having started."""

    def command(self, spec: SandboxSpec) -> list[str]:
        return ["bwrap", "--no-such-option"]


class OtherRuntime(Bubblewrap):
    name: ClassVar[RuntimeName] = "bubblewrap"
    program: ClassVar[str] = "no-such-program"


@pytest.fixture
def settings(home: Path) -> SandboxSettings:
    return SandboxSettings(home=home, runtime="bubblewrap")


def wrong(trial: Trial) -> dict[str, str]:
    return {check.name: check.wrong for check in trial.checks if check.wrong is not None}


async def test_a_runtime_that_isolates_passes_in_under_a_second_or_so(settings: SandboxSettings) -> None:
    took_s = []
    for _ in range(5):  # others may be at work on this machine too
        trial = await try_runtime(Bubblewrap(), settings, None)
        assert trial.works, trial.why_not
        assert [check.name for check in trial.checks] == ["start", "files", "isolation", "network", "kill"]
        took_s.append(trial.duration_s)
        if took_s[-1] < 3:
            break
    assert min(took_s) < 3


async def test_one_whose_payload_cannot_write_is_refused(settings: SandboxSettings) -> None:
    trial = await try_runtime(ReadOnly(), settings, None)
    assert not trial.works
    assert "rm -r" in wrong(trial)["files"] or "not writable" in wrong(trial)["files"]


async def test_one_that_does_not_start_is_refused_with_its_own_words(settings: SandboxSettings) -> None:
    trial = await try_runtime(Open(), settings, None)
    assert list(wrong(trial)) == ["start"]
    assert "no-such-option" in trial.why_not


async def test_one_that_is_not_installed_is_named_with_the_line_that_installs_it(settings: SandboxSettings) -> None:
    trial = await try_runtime(OtherRuntime(), settings, None)
    assert trial.why_not == "no no-such-program on PATH: apt-get install bubblewrap"
    assert not trial.works


@pytest.mark.parametrize(("runtime", "classes"), [("auto", RUNTIMES), ("quickest", QUICKEST)])
async def test_nothing_to_isolate_with_is_an_error_that_lists_every_runtime_in_its_order(
    home: Path, monkeypatch: pytest.MonkeyPatch, runtime: Any, classes: tuple[type[ContainerRuntime], ...]
) -> None:
    monkeypatch.setenv("PATH", str(home))
    with pytest.raises(RuntimeMissing) as caught:
        await open_provider(SandboxSettings(home=home, runtime=runtime))
    lines = str(caught.value).splitlines()[1:]
    assert [line.split(":")[0].strip() for line in lines] == [make.name for make in classes]
    assert all("install" in line for line in lines)


async def test_a_pass_is_remembered_until_the_runtime_the_user_or_the_boot_changes(home: Path) -> None:
    settings = SandboxSettings(home=home / "remembered", runtime="bubblewrap")
    settings.home.mkdir(mode=0o711)
    settings.home.chmod(0o711)
    assert not has_passed(Bubblewrap(), settings)
    provider = await open_provider(settings)
    await provider.close()
    assert has_passed(Bubblewrap(), settings)
    assert not has_passed(Bubblewrap(), settings.model_copy(update={"payload_id": 12345}))
    assert not has_passed(OtherRuntime(), settings)
    remember(OtherRuntime(), settings)
    assert not has_passed(Bubblewrap(), settings)
