"""An own-format row of a fix: what it changes outside of tests is the gold patch, its parent is what the image holds.

Tests   of the commit, hidden: texts by path; as a git patch where that can't say it: removals, links, executables,
        bytes that are no UTF-8.
Lists   FAIL_TO_PASS and PASS_TO_PASS are left out: only runs can tell them, and a row without them is refused where
        rows are read.
Issue   a text of the user's, else the commit's message without its trailers; `notes` says what a reader would learn
        from it about the fix.
"""

import re
from collections.abc import Sequence
from shlex import quote
from typing import Annotated, NamedTuple

from pydantic import AfterValidator, Field, field_validator

from paddock.errors import ConfigError
from paddock.resources_servers.swe.from_commits.history import SUBMODULE, CommitChange, FixCommit, GitHistory
from paddock.resources_servers.swe.from_commits.paths import is_test, split_paths
from paddock.sandbox.images import GitSource, Recipe
from paddock.types import JsonObject, Record, patch_to_text

TESTS = "{tests}"
SHORTEST_ISSUE = 80
"""Characters below which a problem statement hardly says what is wrong."""
_PIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*==[A-Za-z0-9.!+_-]+( --hash=sha256:[0-9a-f]{64})*")


def _pin(text: str) -> str:
    if not _PIN.fullmatch(text):
        raise ValueError(
            "needs NAME==VERSION; what a package needs is named, too: `pip freeze --all --exclude-editable`"
        )
    return text


Pin = Annotated[str, AfterValidator(_pin)]
"""`name==version`, with hashes or without."""
_TRAILER = re.compile(
    r"^[A-Z][A-Za-z-]+(-by|-on|-to|-id|-url): .*$|^(cherry picked from|\(cherry picked from) .*$", re.I
)


class RowRequest(Record):
    """What a user asks for: a commit, and how to build and test it."""

    repository: str
    """A folder or a URL: also what the image is built from."""
    commit: str
    """The fix, by any name that git knows."""
    test_command: str
    """Run in the tree; `{tests}` in it stands for the commit's own test files."""
    python: str = Field(pattern=r"^3\.\d+$")
    pip: list[Pin] = []
    """Closed under dependencies."""
    install: str | None = None
    instance_id: str | None = Field(default=None, min_length=1)
    """None: made of the repository's name and the commit."""
    issue: str | None = None
    """None: the commit's message."""
    tests: list[str] = []
    """Patterns of paths that are tests; empty: by the usual names."""
    log_parser: str = "parse_log_pytest"

    @field_validator("repository")
    @classmethod
    def _without_password(cls, repository: str) -> str:
        if re.match(r"[a-z+]+://[^/@]*:[^/@]*@", repository):
            raise ValueError("the URL holds a password, and the row would hold it too")
        return repository


class RowWithNotes(NamedTuple):
    """A row and what its maker should look at."""

    row: JsonObject
    notes: list[str]


def make_row(request: RowRequest, history: GitHistory) -> RowWithNotes:
    """Make the row that is asked for; ConfigError when the commit can't be one."""
    fix = history.fix(request.commit)
    by_path = {change.path: change for change in fix.changes}
    sides = split_paths(by_path, request.tests)
    _refuse(fix, sides.fix, sides.tests)
    issue = request.issue if request.issue is not None else without_trailers(fix.message)
    recipe = Recipe(
        python=request.python,
        git=GitSource(repository=request.repository, commit=fix.base),
        pip=request.pip,
        install=request.install,
    )
    instance_id = request.instance_id or name_of(request.repository, fix.commit)
    row: JsonObject = {
        "instance_id": instance_id,
        "repo": "/".join(_owner_and_name(request.repository)),
        "responses_create_params": {"input": []},
        "problem_statement": issue.strip() + "\n",
        "image": instance_id,
        "build": recipe.model_dump(mode="json", exclude_defaults=True),
        "workdir": recipe.workdir,
        "patch": patch_to_text(history.patch(fix, sides.fix)),
        **_tests(history, fix, [by_path[path] for path in sides.tests]),
        "test_command": _command(request, [by_path[path] for path in sides.tests]),
        "log_parser": request.log_parser,
    }
    return RowWithNotes(row, notes(issue, sides.fix, sides.tests))


def name_of(repository: str, commit: str) -> str:
    """Return `owner__name-commit`, in the letters that file and image names may have."""
    owner, name = _owner_and_name(repository)
    return f"{owner}__{name}-{commit[:12]}"


def without_trailers(message: str) -> str:
    """Return a commit's message without the lines for machines at its end."""
    lines = message.strip().splitlines()
    while lines and (not lines[-1].strip() or _TRAILER.match(lines[-1].strip())):
        lines.pop()
    return "\n".join(lines)


def notes(issue: str, fix: Sequence[str], tests: Sequence[str]) -> list[str]:
    """Note what the problem statement gives away, or leaves out."""
    texts = [f"the problem statement names {path}, which the fix changes" for path in fix if _says(issue, path)]
    texts += [f"the problem statement names {path}, which is hidden" for path in tests if _says(issue, path)]
    if len(issue.strip()) < SHORTEST_ISSUE:
        texts.append(
            f"the problem statement has {len(issue.strip())} characters: say what is wrong and what would be right"
        )
    return texts


def _says(issue: str, path: str) -> bool:
    name = path.rsplit("/", 1)[-1]
    return re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", issue) is not None


def _refuse(fix: FixCommit, sources: Sequence[str], tests: Sequence[str]) -> None:
    short = fix.commit[:12]
    submodules = [change.path for change in fix.changes if change.mode == SUBMODULE]
    if submodules:
        raise ConfigError(f"{short} changes the submodule {submodules[0]}, which no patch can carry", kind="commit")
    if not tests:
        raise ConfigError(
            f"{short} changes no test, so nothing could tell that its bug is gone; it changes "
            f"{', '.join(sources[:5])}. If one of these is a test, say so with --tests PATTERN",
            kind="commit",
        )
    if not sources:
        raise ConfigError(f"{short} changes nothing but tests: {', '.join(tests[:5])}", kind="commit")


def _tests(history: GitHistory, fix: FixCommit, changes: Sequence[CommitChange]) -> JsonObject:
    texts = {}
    for change in changes:
        if change.mode != "100644" or not change.path.isprintable():
            break
        try:
            texts[change.path] = history.content(fix, change.path).decode()
        except UnicodeDecodeError:
            break
    else:
        return {"test_files": texts}
    return {"test_patch": patch_to_text(history.patch(fix, [change.path for change in changes]))}


def _command(request: RowRequest, changes: Sequence[CommitChange]) -> str:
    """`{tests}` is the files that a runner can be given: what is left after the commit, no conftest, no data."""
    if TESTS not in request.test_command:
        return request.test_command
    left = [change.path for change in changes if change.status != "D"]
    named = [path for path in left if is_test(path.rsplit("/", 1)[-1]) and not path.endswith("conftest.py")]
    runnable = named or (left if request.tests else [])
    if not runnable:
        raise ConfigError(
            f"--test-command: {TESTS} stands for the commit's test files, and none of {', '.join(left)} looks like one",
            kind="test_command",
        )
    return request.test_command.replace(TESTS, " ".join(map(quote, runnable)))


def _owner_and_name(repository: str) -> tuple[str, str]:
    parts = [part for part in re.split(r"[/:\\]", repository.rstrip("/").removesuffix(".git")) if part not in ("", ".")]
    remote = "://" in repository or re.match(r"[\w.-]+@[\w.-]+:", repository)
    owner = parts[-2] if remote and len(parts) > 2 else "local"
    name = parts[-1] if parts else "repository"
    return _plain(owner), _plain(name)


def _plain(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-.") or "repository"
