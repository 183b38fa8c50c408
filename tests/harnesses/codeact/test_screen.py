"""Claims about what of a long output is shown."""

from paddock.harnesses.codeact.screen import CUT_NOTICE, shortened


def test_a_text_within_the_limit_is_whole_and_a_longer_one_keeps_both_ends() -> None:
    assert shortened("x" * 10, 10) == "x" * 10
    assert shortened("abcdefghijk", 10) == "abcde" + CUT_NOTICE + "ghijk"
