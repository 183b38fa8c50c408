"""Paths compared as text: the file system is not there.

Rules   `.`, doubled slashes, a trailing slash and `a/..` are resolved lexically: symbolic links are taken not to lead
        elsewhere. A relative path is resolved under the working directory when that is known; otherwise it equals
        relative paths only.
"""

import posixpath


def resolve(path: str | None, cwd: str | None) -> str:
    """The normal form of a path; None is the working directory itself."""
    joined = posixpath.join(cwd or "", path or ".")
    normal = posixpath.normpath(joined)
    return normal[1:] if normal.startswith("//") else normal


def levels_above(outer: str, inner: str) -> int | None:
    """How many directories `outer` is above `inner`, both resolved; 0: the same. None: it does not hold `inner`."""
    if outer == inner:
        return 0
    if outer == "." and not inner.startswith(("/", "..")):
        return inner.count("/") + 1
    prefix = outer.rstrip("/") + "/"
    return inner[len(prefix) :].count("/") + 1 if inner.startswith(prefix) else None
