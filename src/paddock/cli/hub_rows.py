"""Rows of a hub named where a row file is: `hf:OWNER/NAME`, with `@REVISION` and `:FILE` where they matter.

Files   `FILE` is a pattern, `*.jsonl` unless it is given. They are downloaded once, below `rows` of Paddock's home, and
        stay those of the commit that the revision (`main`) was then: a run can be resumed and repeated. Remove the
        folder to have them anew. A run that is resumed has the files that its `run.json` names: no hub is asked.
Errors  ConfigError: not of this form, no such repository or file, the hub can't be reached.
"""

import re
import sys
from collections.abc import Iterable, Sequence
from fnmatch import fnmatch
from pathlib import Path

PREFIX = "hf:"
_FORM = re.compile(r"hf:(?P<repo>[\w.-]+/[\w.-]+)(?:@(?P<revision>[\w./-]+))?(?::(?P<file>.+))?", re.ASCII)
DEFAULT_FILE = "*.jsonl"


def local_files(words: Iterable[str], *, resumed: Path | None = None) -> list[str]:
    """The row files that `words` name; those of a hub are fetched. `resumed`: the folder of a run that goes on."""
    of_run = _files_of(resumed) if resumed else []
    return [file for word in words for file in (_fetched(word, of_run) if word.startswith(PREFIX) else [word])]


def _files_of(folder: Path) -> list[Path]:
    """The row files of a run; none where there is no run."""
    from paddock.collect.folder import has_run
    from paddock.collect.identity import read_identity

    return [Path(file.path) for file in read_identity(folder).rows] if has_run(folder) else []


def _fetched(word: str, of_run: Sequence[Path]) -> list[str]:
    from paddock.errors import ConfigError, InfraError
    from paddock.sandbox.settings import default_home
    from paddock.training.data.hub import Hub, download

    match = _FORM.fullmatch(word)
    if match is None:
        raise ConfigError(f"{word}: rows of a hub are named hf:OWNER/NAME[@REVISION][:FILE]", kind="rows_invalid")
    repo, revision = match["repo"], match["revision"] or "main"
    folder = default_home() / "rows" / f"{repo}@{revision}".replace("/", "--")
    pattern = match["file"] or DEFAULT_FILE
    here = [file for file in of_run if file.is_relative_to(folder) and fnmatch(str(file.relative_to(folder)), pattern)]
    if here and all(file.exists() for file in here):
        return list(map(str, here))

    def report(line: str) -> None:
        print(f"{PREFIX}{line}", file=sys.stderr)  # noqa: T201 - this is the command's voice

    try:
        folder.mkdir(parents=True, exist_ok=True)
        files = download(Hub(), repo, [pattern], folder, revision=revision, report=report)
        return sorted(str(file.path) for file in files)
    except InfraError as error:
        raise ConfigError(f"{word}: {error}; the same command goes on", kind="rows_unreachable") from error
    except OSError as error:
        raise ConfigError(f"{folder}: {error.strerror or error}", kind="folder_unusable") from error
