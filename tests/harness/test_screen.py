"""Claims about what stands on a screen after a program has written to it."""

import pytest

from paddock.harness.screen import render_screen


@pytest.mark.parametrize(
    ("written", "seen"),
    [
        ("a\nb\n\n\n", "a\nb"),
        ("  indented \t\n", "  indented"),
        ("a\r\nb\r\r\n", "a\nb"),
        ("10%\r50%\r100%\ndone", "100%\ndone"),
        ("longer\rab", "abnger"),
        ("\x1b[1;31mred\x1b[0m and \x1b]0;title\x07plain\x1b[K", "red and plain"),
        ("\x1b[?2004lhi\x1b[?2004h", "hi"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("abc\x08\x08X", "aXc"),
        ("\x08x\x07y\x00", "xy"),
        ("tab\tstays é 😀", "tab\tstays é 😀"),
    ],
)
def test_a_reader_sees_what_is_left(written: str, seen: str) -> None:
    assert render_screen(written) == seen


def test_a_program_that_goes_back_without_end_takes_no_longer_than_another() -> None:
    written = "x" * 200_000 + "\x08" * 200_000 + "\ry" * 200_000
    assert render_screen(written) == "y" + "x" * 199_999
