"""opencode's `edit` on a file's text: the first matcher that finds one place decides.

Line ends  a text that has a CRLF somewhere gets old and new text with CRLF throughout, any other text with LF.
Refused    a place that is much larger than the old text, whichever matcher finds it first.
All        `replace_all` replaces each occurrence of the first text found; `$$`, `$&`, `` $` `` and `$'` in the new text
           then mean what they mean in ECMAScript.
Errors     ToolError, in the program's words.
"""

import re

from paddock.harnesses.opencode.errors import ToolError
from paddock.harnesses.opencode.matchers import MATCHERS, WHITE

BOM = "\ufeff"
SAME = "No changes to apply: oldString and newString are identical."
EMPTY = (
    "oldString cannot be empty when editing an existing file. "
    "Provide the exact text to replace, or use write for an intentional full-file replacement."
)
NOT_FOUND = (
    "Could not find oldString in the file. It must match exactly, including whitespace, indentation, and line endings."
)
AMBIGUOUS = "Found multiple matches for oldString. Provide more surrounding context to make the match unique."
TOO_LARGE = (
    "Refusing replacement because the matched span is much larger than oldString. "
    "Re-read the file and provide the full exact oldString for the intended replacement."
)
MOST_CHARS = 1 << 28
"""Characters that `replace_all` may insert: the text is the policy's, the memory is ours."""
_PATTERN = re.compile(r"\$([$&`'])")


def edited_text(before: str, old: str, new: str, *, replace_all: bool = False) -> str:
    """Return a file's whole text after an edit, with its byte order mark. Raises ToolError."""
    text = before.removeprefix(BOM)
    newline = "\r\n" if "\r\n" in text else "\n"
    old, new = (given.replace("\r\n", "\n").replace("\n", newline) for given in (old, new))
    after = _edited(text, old, new, replace_all=replace_all)
    marked = before.startswith(BOM) or after.startswith(BOM)
    return (BOM if marked else "") + after.removeprefix(BOM)


def _edited(text: str, old: str, new: str, *, replace_all: bool) -> str:
    if old == new:
        raise ToolError(SAME)
    if old == "":
        raise ToolError(EMPTY)
    seen = False
    for matcher in MATCHERS:
        for match in matcher(text, old):
            at = text.find(match)
            if at < 0:
                continue
            seen = True
            if _is_too_large(match, old):
                raise ToolError(TOO_LARGE)
            if replace_all:
                return _replace_all(text, match, new)
            if text.rfind(match) == at:
                return text[:at] + new + text[at + len(match) :]
    raise ToolError(AMBIGUOUS if seen else NOT_FOUND)


def _is_too_large(match: str, old: str) -> bool:
    lines = old.count("\n") + 1
    if match.count("\n") + 1 >= max(lines + 3, lines * 2):
        return True
    size = len(old.strip(WHITE))
    return lines > 1 and len(match.strip(WHITE)) > max(size + 500, size * 4)


def _replace_all(text: str, old: str, new: str) -> str:
    longest = len(new) + new.count("$") * len(text)
    if text.count(old) * longest > MOST_CHARS:
        raise ToolError("Out of memory")
    if "$" not in new:
        return text.replace(old, new)
    return re.sub(re.escape(old), lambda match: _expanded(new, match), text)


def _expanded(new: str, match: re.Match[str]) -> str:
    text = match.string
    meanings = {"$": "$", "&": match[0], "`": text[: match.start()], "'": text[match.end() :]}
    return _PATTERN.sub(lambda given: meanings[given[1]], new)
