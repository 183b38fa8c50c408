"""Rows of a hub named where a row file is: `hf:OWNER/NAME`, with `@REVISION` and `:FILE` where they matter.

Files   `FILE` is a pattern, `*.jsonl` unless it is given. They are downloaded once, below `rows` of Paddock's home, and
        stay those of the commit that the revision (`main`) was then: a run can be resumed and repeated. Remove the
        folder to have them anew.
Errors  ConfigError: not of this form, no such repository or file, the hub can't be reached.
"""

import re
import sys
from collections.abc import Iterable

PREFIX = "hf:"
_FORM = re.compile(r"hf:(?P<repo>[\w.-]+/[\w.-]+)(?:@(?P<revision>[\w./-]+))?(?::(?P<file>.+))?", re.ASCII)
DEFAULT_FILE = "*.jsonl"


def local_files(words: Iterable[str]) -> list[str]:
    """The row files that `words` name; those of a hub are fetched."""
    return [file for word in words for file in (_fetched(word) if word.startswith(PREFIX) else [word])]


def _fetched(word: str) -> list[str]:
    from paddock.errors import ConfigError, InfraError
    from paddock.sandbox.settings import default_home
    from paddock.training.data.hub import Hub, download

    match = _FORM.fullmatch(word)
    if match is None:
        raise ConfigError(f"{word}: rows of a hub are named hf:OWNER/NAME[@REVISION][:FILE]", kind="rows_invalid")
    repo, revision = match["repo"], match["revision"] or "main"
    folder = default_home() / "rows" / f"{repo}@{revision}".replace("/", "--")

    def report(line: str) -> None:
        print(f"{PREFIX}{line}", file=sys.stderr)  # noqa: T201 - this is the command's voice

    try:
        folder.mkdir(parents=True, exist_ok=True)
        patterns = [match["file"] or DEFAULT_FILE]
        files = download(Hub(), repo, patterns, folder, revision=revision, report=report)
        return sorted(str(file.path) for file in files)
    except InfraError as error:
        raise ConfigError(f"{word}: {error}; the same command goes on", kind="rows_unreachable") from error
    except OSError as error:
        raise ConfigError(f"{folder}: {error.strerror or error}", kind="folder_unusable") from error
