"""Where a path leads, by its text alone: no file system is asked.

Law     `join` and `path_form` resolve `.`, `..` and repeated slashes against a directory; two equal forms name the same
        file wherever a component that is followed by `..` or by the final slash is a real directory, no symbolic link.
        A final slash behind a name with a file's suffix counts.
Shapes  a directory is an absolute path, or a path relative to the unknown directory that a command starts in (`.`).
        A path form is a tuple that begins with `path`; None says that the word may lead anywhere.
"""

import re
from collections.abc import Callable, Hashable
from fnmatch import fnmatchcase
from posixpath import normpath
from typing import TypeAlias

from paddock.shell.syntax import Active, Lit, Part, Word

Form: TypeAlias = tuple[Hashable, ...]
PartForm: TypeAlias = Callable[[Part], Hashable]

START = "."
_FILE_BEFORE_SLASH = re.compile(r"[^./]\.(?!d/|git/|egg-info/)[A-Za-z]\w*/+$")
"""A name with a file's suffix, and a slash: of a file nothing can be done by it."""


def join(directory: str, path: str) -> str:
    """`path` as seen from `directory`, without `.`, inner `..`, or a final slash."""
    joined = normpath(path if path.startswith("/") else f"{directory}/{path}")
    return joined[1:] if joined.startswith("//") else joined


def path_form(word: Word, directory: str, part_form: PartForm, *, keep_slash: bool = False) -> Form | None:
    """The form of a word that is a path; `keep_slash` where a final `/`, `.` or `..` can change what the command
    does."""
    text = word.text
    if text is not None:
        if not text:
            return ("path", "", "")
        return ("path", join(directory, text), _end(text) if keep_slash or _FILE_BEFORE_SLASH.search(text) else "")
    first, *rest = word.parts
    if isinstance(first, Active) and first.text.startswith("~"):
        return ("path", "", *map(part_form, word.parts))
    if isinstance(first, Lit):
        lead, slash, tail = first.text.rpartition("/")
        where = join(directory, lead + slash) if slash else directory
        rest_forms = [part_form(part) for part in rest]
        return ("path", where, *([tail] if tail else []), *rest_forms)
    if isinstance(first, Active) and not first.text.startswith("{"):
        return ("path", directory, *map(part_form, word.parts))
    return None


def _end(path: str) -> str:
    bare = path.rstrip("/")
    name = bare.rpartition("/")[2]
    return (name if name in (".", "..") else "") + ("/" if bare != path else "")


def base_name(word: Word) -> str:
    """The last component as written."""
    return (word.text or "").rstrip("/").rpartition("/")[2]


def matches(name: str, pattern: str) -> bool | str:
    """Whether a glob matches a name; of more than `*` and `?` nothing is judged: the name itself counts."""
    return name if set(pattern) & set("[\\") else fnmatchcase(name, pattern)


def within(inner: str, outer: str) -> bool:
    """Whether `inner` is `outer` or below it."""
    return inner == outer or outer in (START, "/") or inner.startswith(outer + "/")
