"""`paddock eval`: run rollouts over rows and summarise them.

Exit    the codes of `EXITS`; after 1, 3 and 130 the same command with --resume goes on.
"""

import argparse
import asyncio
import sys
from pathlib import Path
from typing import Any

ENDS_IN_ORDER = True
EXITS = """exit codes:
  0    every rollout ended in a verdict
  1    the servers or the disk failed for good; --resume goes on
  2    a mistake in the command, the config or (with --strict-rows) the rows; nothing was started
  3    some rollouts have no verdict, or every attempt failed for one cause: see failures.jsonl; --resume goes on
  130  interrupted; --resume goes on

examples:
  paddock eval configs/demo.yaml --oracle --out runs/demo
  paddock eval mine.yaml --rows rows.jsonl --repeats 4 --out runs/mine policy_model_name=my-model
  paddock eval mine.yaml --rows rows.jsonl --shard 0/2 --out runs/a    (elsewhere: --shard 1/2 --out runs/b)
  paddock eval swe.yaml --rows rows.jsonl --harness gold --out runs/gold     (are the rows right? no model is called)
  paddock eval swe.yaml --rows rows.jsonl --out runs/mine --resume --retry row    (what was wrong is gone)
  paddock eval --merge runs/a runs/b --out runs/both"""

SETTINGS = {
    "out": ("DIR", "folder of the run (default: runs/NAME of the first config file)"),
    "rows": ("FILE", "row file, or hf:OWNER/NAME; may be repeated; none: the agents' datasets"),
    "split": ("{train,validation,example,benchmark}", "which datasets (default: all, where they are of one type)"),
    "agent": ("NAME", "agent for rows that name none (default: the only one)"),
    "repeats": ("N", "rollouts per row (default: as the dataset says, 1 for row files)"),
    "limit": ("N", "at most N rows"),
    "slice": ("A:B", "rows A to B, B excluded, counted from 0"),
    "shard": ("I/N", "rows whose index modulo N is I; see --merge"),
    "concurrency": ("N", "rollouts in flight (default: 64)"),
    "workers": ("N", "processes that rollouts run in (default: 1; with --cluster, as many as it has CPUs)"),
    "cluster": ("ADDRESS", "Ray cluster on whose nodes the workers are: HOST:PORT or `auto`"),
    "cluster_label": ("KEY=VALUE", "label of the cluster's nodes that workers may be on (default: any)"),
    "max_attempts": ("N", "attempts per rollout (default: 3)"),
    "retry_wait_s": ("S", "seconds before the second attempt, then twice as long each time (default: 1)"),
    "rollout_timeout_s": ("S", "seconds for one attempt (default: as its agent says)"),
    "deadline_s": ("S", "seconds for the whole collection (default: no end)"),
    "stop_after_failures": (
        "N",
        (
            "stop after N attempts in a row that failed for one cause, with no verdict between them; 0: never "
            "(default: as many as all rollouts in flight may make, at least 20)"
        ),
    ),
    "retry": (
        "OUTCOME[,..]",
        "with --resume: also try again what ended so; `row` (infra, verifier and cancelled always are)",
    ),
    "progress_every_s": ("S", "seconds between progress lines where there is no terminal (default: 10)"),
}
"""Fields of `EvalSettings` that are flags, each with its metavar and help. The model checks what is given: to import it
takes longer than `--help` should."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EXITS
    parser.add_argument("config", nargs="*", help="config files or names of plugins, and key.path=value overrides")
    for name, (metavar, text) in SETTINGS.items():
        action = "append" if name == "rows" else "store"
        parser.add_argument(f"--{name.replace('_', '-')}", metavar=metavar, help=text, action=action)
    parser.add_argument("--strict-rows", action="store_true", default=None, help="refuse to start when a row is wrong")
    parser.add_argument("--strict", action="store_true", help="refuse config keys that say nothing here")
    parser.add_argument("--resume", action="store_true", help="go on with the run in the folder")
    parser.add_argument("--oracle", action="store_true", help="play each row's known-good turns in place of the model")
    parser.add_argument(
        "--harness",
        metavar="NAME",
        help="in place of the agents' own: a harness, or module:Class; `gold` and `null` call no model",
    )
    parser.add_argument("--isolate", action="store_true", help="each server in a process of its own")
    parser.add_argument("--no-serve", action="store_true", help="use servers that run already")
    parser.add_argument("--url", action="append", default=[], metavar="NAME=URL", help="where a running server is")
    parser.add_argument(
        "--token-file",
        metavar="FILE",
        help="file with the token that servers ask for (default: PADDOCK_TOKEN, or one that is made or was left)",
    )
    parser.add_argument("--dry-run", action="store_true", help="check config and rows, print the plan, start nothing")
    parser.add_argument("--merge", nargs="+", metavar="DIR", help="put the shards in DIRs together into --out")
    parser.add_argument("--quiet", action="store_true", help="no progress")


def run(args: argparse.Namespace) -> int:
    from paddock.errors import ConfigError, PaddockError

    try:
        return _merge(args) if args.merge else _run(args)
    except ConfigError:
        raise
    except PaddockError as error:
        print(f"paddock eval: {error}", file=sys.stderr)  # noqa: T201 - the command's voice
        return 1
    except KeyboardInterrupt:
        return 130  # before anything was started


def _run(args: argparse.Namespace) -> int:
    from paddock.collect import check_servers, make_plan
    from paddock.collect.report import plan_lines
    from paddock.errors import ConfigError

    oracle = args.oracle or _needs_no_model(args.harness)
    config, settings = _read_settings(args, modelless=oracle)
    if settings.retry and not args.resume:
        raise ConfigError("--retry says what a resumed run tries again: it needs --resume", kind="flag_invalid")
    plan = make_plan(config, settings, oracle=oracle)
    serving = _server_locations(args)
    folder = Path(settings.out or _default_out(args.config))
    for note in config.notes:
        print(f"note: {note}", file=sys.stderr)  # noqa: T201 - the command's voice
    if args.dry_run:
        check_servers(plan, serving)
        lines = plan_lines(plan, folder)
        print("\n".join(lines.text))  # noqa: T201 - the command's voice
        return 0 if lines.n_wrong == 0 else 2
    return _collect(args, plan, serving, folder)


def _collect(args: argparse.Namespace, plan: Any, serving: Any, folder: Path) -> int:
    from paddock.collect import evaluate
    from paddock.collect.report import print_summary
    from paddock.server.loops import loop_factory, spare_collector
    from paddock.server.repeats import warnings_once
    from paddock.signals import conclude

    try:
        spare_collector()
        with warnings_once(), asyncio.Runner(loop_factory=loop_factory()) as runner:
            work = evaluate(plan, folder, resume=args.resume, servers=serving, quiet=args.quiet)
            collected = runner.run(work)
    except (asyncio.CancelledError, KeyboardInterrupt):
        _print_so_far(plan, folder)
        print(f"interrupted: go on with --resume --out {folder}", file=sys.stderr)  # noqa: T201 - the command's voice
        return 130
    conclude()
    print_summary(collected, folder)
    if collected.how == "servers_failed":
        return 1
    return 0 if collected.n_verdicts == collected.n_rollouts else 3


def _print_so_far(plan: Any, folder: Path) -> None:
    """Print the summary of an interrupted run, if it has one."""
    from paddock.collect import CollectionResult, read_summary
    from paddock.collect.folder import SUMMARY
    from paddock.collect.report import print_summary

    if (folder / SUMMARY).exists():
        print_summary(CollectionResult("interrupted", read_summary(folder), plan.n_rollouts), folder)


def _merge(args: argparse.Namespace) -> int:
    from paddock.collect.merge import merge
    from paddock.collect.report import print_summary
    from paddock.errors import ConfigError

    if args.config or not args.out:
        raise ConfigError("--merge takes shard folders and --out, and no config", kind="merge_arguments")
    merged = merge([Path(folder) for folder in args.merge], Path(args.out))
    print_summary(merged, Path(args.out))
    return 0 if merged.n_verdicts == merged.n_rollouts else 3


def _needs_no_model(harness: str | None) -> bool:
    if harness is None:
        return False
    from paddock.harness import harness_class, needs_of

    return needs_of(harness_class(harness)) != "model"


def _read_settings(args: argparse.Namespace, *, modelless: bool) -> tuple[Any, Any]:
    from paddock.cli.configs import load_config
    from paddock.collect import EvalSettings
    from paddock.config import validate

    config = load_config(args.config, strict=args.strict, modelless=modelless, harness=args.harness)
    given = {name: getattr(args, name) for name in (*SETTINGS, "strict_rows") if getattr(args, name) is not None}
    if args.rows:
        from paddock.cli.hub_rows import local_files

        out = args.out or config.top("eval").get("out") or _default_out(args.config)
        given["rows"] = local_files(args.rows, resumed=Path(out) if args.resume else None)
    return config, validate(EvalSettings, {**config.top("eval"), **given}, "eval")


def _server_locations(args: argparse.Namespace) -> Any:
    from paddock.collect import ServerLocations
    from paddock.errors import ConfigError
    from paddock.http.access import find_token

    pairs = [pair.partition("=") for pair in args.url]
    wrong = [name for name, _, url in pairs if not (name and url.startswith(("http://", "https://")))]
    if wrong:
        raise ConfigError(f"--url {wrong[0]}: needs NAME=URL, such as agent=http://127.0.0.1:8000", kind="url_invalid")
    if pairs and not args.no_serve:
        raise ConfigError("--url says where running servers are: it needs --no-serve", kind="url_unused")
    token = find_token(args.token_file)
    urls = {name: url for name, _, url in pairs}
    return ServerLocations(start=not args.no_serve, isolate=args.isolate, urls=urls, token=token)


def _default_out(configs: list[str]) -> str:
    files = [text for text in configs if "=" not in text and not text.startswith("~")]
    return f"runs/{Path(files[0]).stem}"
