"""Takes the answer out of a response's text, as NeMo-Gym's `reasoning_gym` does."""

from typing import Any

from paddock.types.responses import messages

OPEN, CLOSE = "<answer>", "</answer>"
_BOX = "\\boxed{"


def answer_of(response: Any) -> str:
    """Return what stands in the last `<answer>`, else in the first box, else the whole text."""
    text = "".join(messages(response))
    end = len(text)
    while (end := text.rfind(CLOSE, 0, end)) >= 0:
        before = text.rfind(CLOSE, 0, end)
        start = text.find(OPEN, before + len(CLOSE) if before >= 0 else 0, end)
        if start >= 0:
            return text[start + len(OPEN) : end].strip()
    return (_boxed(text) or text).strip()


def _boxed(text: str) -> str:
    """Return what is in the first box that is closed and not empty; empty: there is none."""
    at = 0
    while (start := text.find(_BOX, at)) >= 0 and (end := text.find("}", start)) >= 0:
        at = start + len(_BOX)
        if end > at:
            return text[at:end]
    return ""
