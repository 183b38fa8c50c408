"""Patches as JSON carries them: bytes in, text out, and back without loss.

Text    a patch whose bytes are UTF-8 is that text, line ends untouched; another is `base64:` and standard base64 (JSON
        codecs refuse lone surrogates). No git patch starts with that word.
Read    text of other programs is read too: lone surrogates are the bytes that Python's `surrogateescape` made them
        from.
Errors  `patch_from_text` raises ValueError when base64 does not decode.
"""

import base64

PREFIX = "base64:"


def patch_to_text(patch: bytes) -> str:
    """The text of a patch for a JSON field."""
    try:
        text = patch.decode()
    except UnicodeDecodeError:
        return PREFIX + base64.b64encode(patch).decode()
    return PREFIX + base64.b64encode(patch).decode() if text.startswith(PREFIX) else text


def patch_from_text(text: str) -> bytes:
    """The patch of a text that `patch_to_text` or another program wrote."""
    if text.startswith(PREFIX):
        return base64.b64decode(text.removeprefix(PREFIX).strip(), validate=True)
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")
