"""`paddock swe`: rows of repositories: `new` makes one of a fix commit, `check` accepts rows, `grade` grades patches.

new     one line, printed or added to a file; the row still lacks its lists of tests, which only runs can tell.
check   per row a line on stdout and what was found; `--out` gets the accepted rows with their lists, whole or not at
        all; the report beside it says all that was seen, and is gone on with when the check is started again.
grade   predictions as SWE-bench's harness takes them, over rows of any form; its report, and a line per prediction.
Exit    new: 0 written. check: 0 all accepted; 1 some were not. grade: 0 all graded; 1 no sandbox; 3 some have no
        verdict. All: 2 a mistake in the command, or a commit that can't be a task; 130 interrupted.
"""

import argparse
import json
import re
import sys
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from paddock.cli import local_repositories, publishers, workers

if TYPE_CHECKING:
    from paddock.resources_servers.swe.from_commits import RowRequest

SUBCOMMANDS = True

EXAMPLES = """examples:
  paddock swe new ~/src/harbour --commit 4f2a91c --python 3.11 --test-command 'pytest -rA {tests}' \\
      --requirements pins.txt --install 'pip install --no-deps --no-build-isolation -e .' \\
      --issue issue.md --out drafts.jsonl
  paddock swe check drafts.jsonl --local-repository ~/src --out rows.jsonl
  paddock swe grade predictions.jsonl --rows rows.jsonl --out runs/mine

exit codes of check:
  0    all rows are accepted
  1    some are refused, or could not be checked; each says why and what would mend it
  2    a mistake in the command
  130  interrupted; the same command goes on"""
GRADE = """PREDICTIONS is what SWE-bench's harness takes: JSONL, a JSON list, or a JSON object by instance id, with
instance_id, model_name_or_path and model_patch. ROWS has the instances, in any form that is read.

The folder gets gradings.jsonl (a line per prediction: reason, tests by status, what the official procedure says where
it differs) and per model MODEL.FOLDER.json, the report of SWE-bench's harness: resolved_ids, unresolved_ids,
empty_patch_ids, error_ids and the rest. As there, a patch that does not apply and tests that run out of time are
among error_ids. So is what a machine, a grader or a row failed at: it has no verdict, and infra_failure_ids names it.

exit codes:
  0    every prediction has a verdict, or is an empty patch
  1    no sandbox can be started here
  2    a mistake in the command or in a file
  3    some have no verdict; each says why, and the same command tries them again
  130  interrupted; the same command goes on"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EXAMPLES
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    _add_new(actions.add_parser("new", help="make a row of a commit that fixes a bug and tests it"))
    _add_check(actions.add_parser("check", help="build, run without and with the fix, look for leaks, accept"))
    _add_grade(actions.add_parser("grade", help="grade predictions in SWE-bench's form, and write its report"))


def run(args: argparse.Namespace) -> int:
    if args.action == "new":
        return _new(args)
    if args.action == "grade":
        from paddock.cli import swe_grade

        return swe_grade.grade(args)
    from paddock.cli import swe_check

    return swe_check.check(args)


def _add_new(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("repository", metavar="REPOSITORY", help="a folder, or a URL that git can clone")
    parser.add_argument("--commit", required=True, help="the fix; the task is its first parent")
    parser.add_argument(
        "--test-command", required=True, help="run in the tree; {tests} stands for the commit's test files"
    )
    parser.add_argument("--python", required=True, metavar="3.N", help="minor version of the image's Python")
    parser.add_argument(
        "--pip",
        action="append",
        default=[],
        metavar="NAME==VERSION",
        help="may be given often; what a package needs is named, too",
    )
    parser.add_argument("--requirements", metavar="FILE", help="the same, one a line")
    parser.add_argument("--install", metavar="COMMAND", help="run in the tree when the image is built; no network")
    parser.add_argument("--issue", metavar="FILE", help="the problem statement; default: the commit's message")
    parser.add_argument("--id", dest="instance_id", help="default: of the repository's name and the commit")
    parser.add_argument(
        "--tests", action="append", default=[], metavar="PATTERN", help="what is a test: a folder or src/**/*.check.py"
    )
    parser.add_argument("--log-parser", default="parse_log_pytest", help="a parser of the swebench package")
    parser.add_argument("--out", metavar="FILE", help="add the row to this file; default: print it")


def _add_check(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("rows", type=Path, metavar="ROWS", help="JSONL rows of any form; own ones may lack their lists")
    parser.add_argument("--out", type=Path, metavar="FILE", help="the accepted rows, with their lists")
    parser.add_argument(
        "--report", type=Path, metavar="FILE", help="JSONL, one line a row (default: beside OUT or ROWS, .report.jsonl)"
    )
    parser.add_argument("--runs", type=int, default=3, metavar="N", help="of the tests, on each side (default: 3)")
    parser.add_argument("--jobs", type=int, metavar="N", help="rows at once (default: one by each worker)")
    workers.add_arguments(parser, "rows")
    parser.add_argument(
        "--timeout-s", type=float, default=1800.0, metavar="S", help="seconds for one run of the tests (default: 1800)"
    )
    parser.add_argument("--recheck", action="store_true", help="check also rows of which the report has a result")
    parser.add_argument("--again", dest="recheck", action="store_true", help=argparse.SUPPRESS)  # its old name
    local_repositories.add_argument(parser)
    publishers.add_argument(parser)
    parser.add_argument("--home", type=Path, metavar="DIR", help="the store (default: PADDOCK_HOME, or the user's)")


def _add_grade(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = GRADE
    parser.add_argument("predictions", type=Path, metavar="PREDICTIONS", help="JSONL or JSON, in SWE-bench's form")
    parser.add_argument("--rows", type=Path, required=True, metavar="ROWS", help="JSONL rows of the instances")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="default: runs/NAME of the predictions' file")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="predictions at once (default: 2)")
    parser.add_argument(
        "--timeout-s", type=float, default=1800.0, metavar="S", help="seconds for one run of the tests (default: 1800)"
    )
    parser.add_argument("--registry", metavar="PREFIX", help="host[:port][/path] in place of the images' own")
    parser.add_argument(
        "--formatter",
        action="append",
        default=[],
        metavar="PLACE",
        help="where images may be, with {instance_id}: /dir/{instance_id}.sif, docker://...; repeatable",
    )
    local_repositories.add_argument(parser)
    publishers.add_argument(parser)
    parser.add_argument("--home", type=Path, metavar="DIR", help="the store (default: PADDOCK_HOME, or the user's)")


def _new(args: argparse.Namespace) -> int:
    from paddock.resources_servers.swe.from_commits import make_row, open_history

    request = _row_request(args)
    with open_history(request.repository) as history:
        made = make_row(request, history)
    for note in made.notes:
        print(f"paddock swe: note: {note}", file=sys.stderr)  # noqa: T201 - the command's voice
    line = json.dumps(made.row, ensure_ascii=False) + "\n"
    if args.out is None:
        sys.stdout.write(line)
    else:
        with Path(args.out).open("a", encoding="utf-8") as file:
            file.write(line)
        local = f" --local-repository {quote(request.repository)}" if Path(request.repository).is_dir() else ""
        said = (
            f"{args.out}: {made.row['instance_id']}; next: paddock swe check {quote(args.out)} --out rows.jsonl{local}"
        )
        print(said)  # noqa: T201 - the command's voice
    return 0


def _row_request(args: argparse.Namespace) -> "RowRequest":
    from pydantic import ValidationError

    from paddock.errors import ConfigError, describe
    from paddock.resources_servers.swe.from_commits import RowRequest

    try:
        return RowRequest(
            repository=_absolute(args.repository),
            commit=args.commit,
            test_command=args.test_command,
            python=args.python,
            pip=[*args.pip, *_pins(args.requirements)],
            install=args.install,
            instance_id=args.instance_id,
            issue=_text(args.issue, "--issue"),
            tests=args.tests,
            log_parser=args.log_parser,
        )
    except ValidationError as error:
        raise ConfigError(describe(error), kind="usage") from error


def _absolute(repository: str) -> str:
    """A folder by its absolute path: the row is read elsewhere."""
    path = Path(repository).expanduser()
    return str(path.resolve()) if path.is_dir() else repository


def _text(name: str | None, option: str) -> str | None:
    from paddock.errors import ConfigError

    if name is None:
        return None
    try:
        return Path(name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{option} {name}: {error}", kind="usage") from error


def _pins(name: str | None) -> list[str]:
    lines = re.sub(r"\\\n", " ", _text(name, "--requirements") or "").splitlines()
    return [pin for line in lines if (pin := " ".join(line.split("#")[0].split()))]
