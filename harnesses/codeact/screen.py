"""Truncation of long output. Pure.

Cut     a text that is too long loses its middle, as in OpenHands: half of the limit on either side of a notice.
"""

CUT_NOTICE = "\n[... Observation truncated due to length ...]\n"


def cut_middle(text: str, max_chars: int) -> str:
    """Cut the middle of a text that is too long."""
    if len(text) <= max_chars:
        return text
    half = max_chars // 2
    return text[:half] + CUT_NOTICE + text[len(text) - half :]
