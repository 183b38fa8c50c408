"""Claims about what of a long output is shown."""

from paddock.harnesses.codeact.screen import CUT_NOTICE, cut_middle


def test_a_text_within_the_limit_is_whole_and_a_longer_one_keeps_both_ends() -> None:
    assert cut_middle("x" * 10, 10) == "x" * 10
    assert cut_middle("abcdefghijk", 10) == "abcde" + CUT_NOTICE + "ghijk"
