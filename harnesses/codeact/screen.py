"""What of a long output is shown. Pure.

Cut     a text that is too long loses its middle, as in OpenHands: half of the limit on either side of a notice.
"""

CUT_NOTICE = "\n[... Observation truncated due to length ...]\n"


def shortened(text: str, max_chars: int) -> str:
    """Without its middle where it is too long."""
    if len(text) <= max_chars:
        return text
    half = max_chars // 2
    return text[:half] + CUT_NOTICE + text[len(text) - half :]
