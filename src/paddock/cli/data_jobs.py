"""The actions of `paddock data`: lists, findings and counts go to stdout, what was left out to stderr."""

import argparse
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from paddock.collect.new_file import new_file, refuse_same
from paddock.errors import ConfigError, InfraError, PaddockError, RowError
from paddock.training.data.blends import PUBLISHED
from paddock.training.data.instance_forms import FORMS
from paddock.training.data.tables import LINES, TableEntry, encode, read_table, tables_in
from paddock.types import JsonObject

MAX_WARNINGS = 20
"""Rows with a prompt of others that are named; the count tells of all."""


def download(args: argparse.Namespace) -> int:
    from paddock.training.data import hub

    published = PUBLISHED.get(args.name)
    if published is None and "/" not in args.name:
        raise ConfigError(f"{args.name!r}: is no short name ({', '.join(PUBLISHED)}) and no OWNER/NAME", kind="name")
    patterns = args.file or (published.patterns if published is not None else ())
    if not patterns:
        raise ConfigError(f"{args.name}: which files? --file PATTERN", kind="no_files")
    if not sys.stderr.isatty():
        _without_bars()
    repo = published.repo if published is not None else args.name
    try:
        files = hub.download(hub.Hub(), repo, patterns, args.out, revision=args.revision, report=_print_line)
        for file in files:
            proof = "as the hub lists it" if file.proven else "the hub lists no hash"
            _print_line(f"{file.path}: {file.n_bytes} bytes, sha256 {file.sha256}, {proof}")
    except ConfigError as error:
        if published is None or not published.also or error.kind != "hub_refused":
            raise
        raise ConfigError(
            f"{error.message}; the same data may stand under {published.also}", kind=error.kind
        ) from error
    except InfraError as error:
        _say(error.message)
        return 1
    return 0


def fill(args: argparse.Namespace) -> int:
    from paddock.training.data.placeholders import fill as fill_files

    places = {}
    for text in args.source:
        name, _, path = text.partition("=")
        if name not in PUBLISHED or not PUBLISHED[name].markers or not path:
            fillable = ", ".join(name for name, data_set in PUBLISHED.items() if data_set.markers)
            raise ConfigError(f"--source {text}: needs NAME=PLACE with a name of {fillable}", kind="flag_invalid")
        places[name] = Path(path)
    left_out = 0
    for filled_file in fill_files(_distinct(args), args.out, places):
        for problem in filled_file.problems:
            _say(problem)
        left_out += len(filled_file.problems)
        filled = ", ".join(f"{count} filled from {name}" for name, count in sorted(filled_file.n_filled.items()))
        parts = [filled or "0 filled", f"{filled_file.n_unchanged} kept", f"{len(filled_file.problems)} left out"]
        _print_line(f"{filled_file.target}: {', '.join(parts)}")
    return 1 if left_out else 0


def split(args: argparse.Namespace) -> int:
    from paddock.training.data.split import split_last

    if args.last < 1:
        raise ConfigError(f"--last {args.last}: needs at least 1", kind="flag_invalid")
    for source in _distinct(args):
        done = split_last(source, args.out, last=args.last)
        held = f"{done.n_validation} in {done.validation.name}" if done.validation else "too few to hold any out"
        _print_line(f"{done.train.parent}: {done.n_train} in {done.train.name}, {held}")
    return 0


def check(args: argparse.Namespace) -> int:
    from paddock.training.data import row_check

    if args.agent is not None and not args.config:
        raise ConfigError("--agent names an agent of --config", kind="flag_invalid")
    if args.config:
        from paddock.cli.configs import load_config

        reader = row_check.config_reader(load_config(args.config, modelless=True), agent=args.agent)
    else:
        reader = row_check.server_reader(args.server) if args.server else row_check.published_reader()
    counts = row_check.RowCounts()
    for finding in row_check.check_rows(_files(args.rows), reader, counts):
        if finding.wrong or counts.n_repeated <= MAX_WARNINGS:
            _print_line(str(finding))
    parts = [f"{counts.n_rows} rows", f"{counts.n_wrong} wrong"]
    parts += [f"{count} read by {name}" for name, count in sorted(counts.read_by.items())]
    parts += [f"{count} of {name}, only their form was checked" for name, count in sorted(counts.unread.items())]
    parts += [f"{counts.n_repeated} with the first prompt of another"] if counts.n_repeated else []
    _print_line(", ".join(parts))
    return 1 if counts.n_wrong else 0


def convert(args: argparse.Namespace) -> int:
    from paddock.training.data import convert as conversion
    from paddock.training.data.row_check import plain_server

    form = FORMS[args.form]
    target = conversion.RowTarget(args.form, args.dataset or form.dataset, args.split or form.split, args.agent)
    server = plain_server("swe")
    n_rows, n_problems = 0, 0
    sources = [path for folder in args.rows for path in tables_in(folder, split=target.split)]
    for source in sources:
        refuse_same(source, args.out)
    with new_file(args.out) as file:
        for entry in _entries(sources):
            try:
                if entry.problem:
                    raise ValueError(entry.problem)
                file.write(encode(conversion.convert(entry.row, target, server)))
                n_rows += 1
            except ValueError as error:
                n_problems += 1
                _say(f"{entry.where}: {error}")
            except PaddockError as error:
                raise ConfigError(f"{entry.where}: {error.message}", kind=error.kind) from error
    _print_line(f"{args.out}: {n_rows} rows of {target.dataset}, {n_problems} left out")
    return 1 if n_problems else 0


def instances(args: argparse.Namespace) -> int:
    from paddock.training.data.instances import instance_id

    return _list(args, instance_id)


def images(args: argparse.Namespace) -> int:
    from paddock.cli.image_rows import named_image
    from paddock.sandbox.images import DATASETS
    from paddock.sandbox.images.names import dataset_of
    from paddock.training.data.instances import sif_name

    rule = dataset_of(args.dataset) if args.dataset is not None else None
    if args.dataset is not None and rule is None:
        raise ConfigError(f"--dataset {args.dataset!r}: known are {', '.join(DATASETS)}", kind="dataset_unknown")

    def named(row: JsonObject) -> str:
        name = named_image(row, rule)
        return f"{name}\t{sif_name(name)}" if args.files else name

    return _list(args, named)


JOBS: dict[str, Callable[[argparse.Namespace], int]] = {
    "download": download,
    "fill": fill,
    "split": split,
    "check": check,
    "convert": convert,
    "instances": instances,
    "images": images,
}


def _list(args: argparse.Namespace, name: Callable[[JsonObject], str]) -> int:
    """What rows name, each once, in their order."""
    problems = 0

    def names() -> Iterator[str]:
        nonlocal problems
        from paddock.training.data.instances import flat

        seen = set()
        for entry in _entries(_files(args.rows)):
            try:
                if entry.problem:
                    raise RowError(entry.problem, kind="row_unreadable")
                value = name(flat(entry.row))
            except RowError as error:
                problems += 1
                _say(f"{entry.where}: {error.message}")
                continue
            if value not in seen:
                seen.add(value)
                yield value

    if args.out is None:
        for value in names():
            _print_line(value)
    else:
        with new_file(args.out) as file:
            file.writelines(f"{value}\n".encode() for value in names())
    return 1 if problems else 0


def _files(paths: list[Path]) -> list[Path]:
    return [path for folder in paths for path in tables_in(folder, kinds=(LINES,))]


def _distinct(args: argparse.Namespace) -> list[Path]:
    """The files, each of another name: what is made of them stands in one folder."""
    sources = _files(args.rows)
    names = [source.name for source in sources]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ConfigError(f"two files are named {twice}: they would be one in {args.out}", kind="name_twice")
    return sources


def _entries(paths: list[Path]) -> Iterator[TableEntry]:
    for path in paths:
        yield from read_table(path)


def _without_bars() -> None:
    try:
        from huggingface_hub.utils.tqdm import disable_progress_bars
    except ImportError:
        return  # said where the package is needed
    disable_progress_bars()


def _print_line(text: str) -> None:
    print(text, flush=True)  # noqa: T201 - the command's voice


def _say(text: str) -> None:
    print(f"paddock data: {text}", file=sys.stderr)  # noqa: T201 - the command's voice
