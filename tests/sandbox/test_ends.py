"""Claims about whose doing an end is: only what nothing but the machine can do is the machine's for certain."""

import signal

import pytest

from paddock.sandbox.ends import End, How

SENT = ("SIGHUP", "SIGINT", "SIGQUIT", "SIGKILL", "SIGTERM")
FAULTS = ("SIGSEGV", "SIGBUS", "SIGABRT", "SIGSYS", "SIGILL", "SIGFPE", "SIGXCPU", "SIGXFSZ")


@pytest.mark.parametrize("how", ["died", "lost"])
@pytest.mark.parametrize("name", [*SENT, *FAULTS])
def test_a_signal_that_is_sent_is_the_machines_and_a_fault_is_in_doubt(how: How, name: str) -> None:
    number = signal.Signals[name]
    for status in (-number, 128 + number):  # as wait tells it, and as a runtime does of what it ran
        end = End(how, "it ended", status)
        assert (end.signal, end.doubtful) == (number, name in FAULTS)
        assert str(signal.strsignal(number)) in str(end)


@pytest.mark.parametrize("how", ["died", "lost"])
@pytest.mark.parametrize("status", [0, 1, 70, 71, 127, 128, 255, None])
def test_an_end_of_its_own_or_one_that_nobody_saw_is_in_doubt(how: How, status: int | None) -> None:
    end = End(how, "it ended", status)
    assert (end.signal, end.doubtful) == (None, True)


@pytest.mark.parametrize(
    ("how", "doubtful"),
    [
        ("closed", False),
        ("stopped", False),
        ("unreachable", False),
        ("failed", True),
        ("hangs", True),
        ("untrusted", True),
    ],
)
def test_a_keeper_that_can_not_be_used_is_in_doubt_unless_it_could_not_be(how: How, doubtful: bool) -> None:
    end = End(how, "why")
    assert (end.doubtful, str(end)) == (doubtful, "why")
