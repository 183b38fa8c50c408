"""Claims about log lines that say the same."""

import logging

import pytest

from paddock.server.repeats import RepeatFilter, log_warnings, warnings_once


def record(text: str, *arguments: object) -> logging.LogRecord:
    return logging.LogRecord("x", logging.WARNING, "", 0, text, arguments, None)


def test_a_text_passes_once_and_the_next_time_says_how_many_were_left_out() -> None:
    repeats = RepeatFilter(every_s=1000.0)
    passed = [repeats.filter(record("%s is gone", name)) for name in ("a", "b", "a", "a")]
    assert passed == [True, True, False, False]
    assert list(repeats.unreported()) == ["a is gone (2 more times)"]
    always = RepeatFilter(every_s=0.0)
    assert all(always.filter(record("same")) for _ in range(3))


def test_the_number_left_out_stands_in_the_next_that_passes() -> None:
    repeats = RepeatFilter(every_s=1000.0)
    assert [repeats.filter(record("same")) for _ in range(4)] == [True, False, False, False]
    repeats._every_s = 0.0
    again = record("same")
    assert repeats.filter(again)
    assert again.getMessage() == "same (3 more times before)"


def test_warnings_of_a_command_are_one_line_per_text(capsys: pytest.CaptureFixture[str]) -> None:
    log = logging.getLogger("paddock.test_repeats")
    with warnings_once():
        for _ in range(16):
            log.warning("an answer was given up")
        log.warning("another")
        log.info("quiet")
    assert capsys.readouterr().err.splitlines() == [
        "an answer was given up",
        "another",
        "an answer was given up (15 more times)",
    ]


def test_a_process_that_logs_already_goes_on_as_it_does(caplog: pytest.LogCaptureFixture) -> None:
    log_warnings()
    for _ in range(2):
        logging.getLogger("paddock.test_repeats").warning("same")
    assert caplog.messages == ["same", "same"]
