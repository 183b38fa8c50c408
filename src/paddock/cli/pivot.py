"""`paddock pivot`: rows for the pivot server.

mine    candidates of experts' trajectories, a run of `paddock eval` over them, the rows where the policy's answers
        differ in reward; a folder that the same command with --resume goes on with.
Exit    0 rows and report are written; 2 a mistake in the command or the config; else the code of the run.
"""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from paddock.config import Config
    from paddock.resources_servers.pivot.server import PivotConfig

SUBCOMMANDS = True
ENDS_IN_ORDER = True
HELP = """PATH is a file (.jsonl, .json, .traj, .parquet) or a folder of them: rollouts.jsonl of our runs, Responses
items, Chat or Anthropic messages, trajectories of SWE-agent, mini-swe-agent, OpenHands, SWE-smith and Harbor (ATIF).

examples:
  paddock pivot mine trajectories/ --dry-run --config resources_servers/pivot/configs/pivot.yaml --out runs/mine
  paddock pivot mine runs/expert/rollouts.jsonl --only-resolved --samples 8 --out runs/mine \\
      --config resources_servers/pivot/configs/pivot.yaml models_servers/openai/configs/openai.yaml \\
      policy_base_url=http://127.0.0.1:8000/v1 policy_model_name=MODEL policy_api_key=none

exit codes:
  0    the rows and the report are written
  2    a mistake in the command, the config or the rows
  1, 3, 130  as of `paddock eval`; --resume goes on"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    mine = actions.add_parser(
        "mine",
        help="find the steps of experts' trajectories where a policy's answers differ in reward",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=HELP,
    )
    mine.add_argument("paths", nargs="+", type=Path, metavar="PATH", help="trajectories")
    mine.add_argument("--config", nargs="+", required=True, help="config of a pivot block, its agent and the policy")
    mine.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder of the mining")
    mine.add_argument("--samples", type=int, default=8, metavar="K", help="answers per candidate (default: 8)")
    mine.add_argument("--min-mean", type=float, default=0.1, metavar="R", help="least mean reward (default: 0.1)")
    mine.add_argument("--max-mean", type=float, default=0.9, metavar="R", help="greatest mean reward (default: 0.9)")
    mine.add_argument("--min-spread", type=float, default=0.2, metavar="S", help="least deviation (default: 0.2)")
    mine.add_argument(
        "--max-rows-per-trajectory", type=int, default=8, metavar="N", help="pivots of one trajectory (default: 8)"
    )
    mine.add_argument("--max-candidates", type=int, metavar="N", help="candidates that are sampled (default: all)")
    mine.add_argument(
        "--max-history-chars", type=int, default=200_000, metavar="N", help="longest history (default: 200000)"
    )
    mine.add_argument("--only-resolved", action="store_true", help="only trajectories that are known to be solved")
    mine.add_argument(
        "--exclude", type=Path, action="append", default=[], metavar="FILE", help="instances that are tested elsewhere"
    )
    mine.add_argument("--exclude-repositories", action="store_true", help="and all else of their repositories")
    mine.add_argument(
        "--validation-share", type=float, default=0.1, metavar="SHARE", help="of repositories (default: 0.1)"
    )
    mine.add_argument("--replay", action="store_true", help="play trajectories again, and keep a snapshot of each step")
    mine.add_argument(
        "--images", type=Path, metavar="FILE", help="with --replay: JSON, instance or repository to image and workdir"
    )
    mine.add_argument("--concurrency", type=int, metavar="N", help="answers in flight (default: as of paddock eval)")
    mine.add_argument("--resume", action="store_true", help="go on with the mining in the folder")
    mine.add_argument("--dry-run", action="store_true", help="count candidates, sample nothing, write nothing")
    mine.add_argument("--quiet", action="store_true", help="no progress")


def run(args: argparse.Namespace) -> int:
    from paddock.cli import main
    from paddock.cli.configs import load_config
    from paddock.config import validate
    from paddock.errors import ConfigError
    from paddock.resources_servers.pivot.mining.folder import (
        MiningFolder,
        find_candidates,
        finish,
        only_replayed,
        read_held_out,
        replay_into,
    )
    from paddock.resources_servers.pivot.mining.replay import TrajectoryReplay
    from paddock.resources_servers.pivot.mining.replays import drop_snapshots, read_images, replay_report
    from paddock.resources_servers.pivot.mining.rows import row_of
    from paddock.resources_servers.pivot.mining.selection import SelectionOptions

    names = ("samples", "min_mean", "max_mean", "min_spread", "max_rows_per_trajectory")
    options = validate(SelectionOptions, {name: getattr(args, name) for name in names}, "paddock pivot mine")
    if not 0 <= args.validation_share < 1:
        raise ConfigError("--validation-share needs 0 or more, and less than 1", kind="flag_invalid")
    if args.images and not args.replay:
        raise ConfigError("--images needs --replay", kind="flag_invalid")
    config = load_config(args.config)  # what is wrong with it is said before anything is read or written
    server = _pivot_server(config) if args.replay else None
    images = read_images(args.images) if args.images else {}
    found, sampled = find_candidates(
        args.paths,
        only_resolved=args.only_resolved,
        max_history_chars=args.max_history_chars,
        held_out=read_held_out(args.exclude, by_repository=args.exclude_repositories),
        max_candidates=args.max_candidates,
    )
    for where, problem in found.problems:
        print(f"left out: {where}: {problem}", file=sys.stderr)  # noqa: T201 - the command's voice
    left = ", ".join(f"{count} {reason}" for reason, count in found.left_out.most_common() if count)
    print(f"{len(sampled)} candidates of {len(found.rows)}; left out: {left or 'none'}")  # noqa: T201 - as above
    if not sampled:
        raise ConfigError("no step of these trajectories can become a row", kind="no_candidates")
    if args.dry_run:
        return 0
    folder = MiningFolder(args.out)
    replays: dict[str, TrajectoryReplay] = {}
    if server is not None:
        replays = replay_into(folder, sampled, images, server.executed, server.replay, resume=args.resume)
        ends = replay_report(replays)["ends"]
        print(f"replays: {', '.join(f'{count} {end}' for end, count in ends.items())}")  # noqa: T201 - as above
        if server.comparator == "executed":
            sampled = only_replayed(found, sampled, replays)
    folder.write_candidates([row_of(candidate, replays) for candidate in sampled], resume=args.resume)
    code = main(["eval", *args.config, *_eval_flags(args, folder.candidates, folder.run)])
    if code not in (0, 3):
        return code
    report = finish(folder, found, sampled, options, args.validation_share, replays)
    if server is not None and code == 0:
        drop_snapshots(folder.root, server.executed, folder.snapshots())
    counts = ", ".join(f"{count} {name}" for name, count in report["rows"].items())
    print(f"pivots: {counts}; report in {folder.root / 'report.md'}")  # noqa: T201 - as above
    return code


def _pivot_server(config: "Config") -> "PivotConfig":
    """Return the settings of the config's pivot server; of the first where it has several."""
    from paddock.errors import ConfigError
    from paddock.resources_servers.pivot.server import PivotConfig

    for name, instance in config.instances.items():
        if (instance.kind, instance.implementation) == ("resources_servers", "pivot"):
            return config.settings(name, PivotConfig)
    raise ConfigError(
        "--replay reads settings of the pivot server, of which the config has no block: add its file, such as "
        "resources_servers/pivot/configs/pivot.yaml",
        kind="no_pivot_server",
    )


def _eval_flags(args: argparse.Namespace, candidates: Path, run: Path) -> list[str]:
    going_on = ["--resume"] if args.resume and run.exists() else []
    pace = ["--concurrency", str(args.concurrency)] if args.concurrency else []
    quiet = ["--quiet"] if args.quiet else []
    return ["--rows", str(candidates), "--repeats", str(args.samples), "--out", str(run), *pace, *going_on, *quiet]
