"""Takes the answer out of a response's text, as NeMo-Gym's `reasoning_gym` does."""

from typing import Any

import regex

from paddock.types.responses import messages

OPEN, CLOSE = "<answer>", "</answer>"
_BOXED = regex.compile(r"\\boxed\{([^}]+)\}")


def answer_of(response: Any) -> str:
    """Return what stands in the last `<answer>`, else in the first box, else the whole text."""
    text = "".join(messages(response))
    end = len(text)
    while (end := text.rfind(CLOSE, 0, end)) >= 0:
        before = text.rfind(CLOSE, 0, end)
        start = text.find(OPEN, before + len(CLOSE) if before >= 0 else 0, end)
        if start >= 0:
            return text[start + len(OPEN) : end].strip()
    boxed = _BOXED.search(text)
    return (boxed[1] if boxed else text).strip()
