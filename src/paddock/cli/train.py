"""`paddock train CONFIG [key=value ...]`: train a policy on the environments of a config.

Exit    0 the run is at its end; 1 it failed, or could train on none of its rows, and its processes have ended; 2 a
        mistake, said before anything starts; 130 interrupted. After 1 and 130 the same command with --resume goes on
        from the last checkpoint.
"""

import argparse
import importlib
import sys
from pathlib import Path
from typing import Any

HELP = """exit codes:
  0    the run is at its end; with --dry-run: the plan was made, and says what is missing here
       (variables, files, machines)
  1    it failed, or could train on none of its rows, and all its processes have ended; --resume goes on from the
       last checkpoint
  2    a mistake in the command or the config, or this interpreter lacks packages that a run imports;
       nothing was started (--dry-run prints the plan before it says so)
  130  interrupted; --resume goes on from the last checkpoint

examples:
  paddock train configs/train_demo.yaml --dry-run
  paddock train mine.yaml grpo.max_num_steps=100 policy.optimizer.kwargs.lr=1e-6 --out runs/mine
  paddock train mine.yaml --out runs/mine --resume"""

_PACKAGE = "paddock.training.grpo"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from paddock.cli.configs import add_run_arguments

    add_run_arguments(parser, HELP, dry_run="check the config, print the plan, start nothing")


def run(args: argparse.Namespace) -> int:
    from paddock.cli.configs import split_arguments
    from paddock.errors import ConfigError, PaddockError

    files, overrides = split_arguments(args.config)
    if not files:
        raise ConfigError("name a config file, such as configs/train_demo.yaml", kind="no_config")
    read_config, dry_run, preflight = (
        importlib.import_module(f"{_PACKAGE}.{name}") for name in ("read_config", "dry_run", "preflight")
    )
    read = read_config.read_config(files, overrides, strict=args.strict, plan=args.dry_run)
    out = Path(args.out or f"runs/{read.name}")
    if args.dry_run:
        print(dry_run.plan_text(read, out))  # noqa: T201 - the command's voice
        preflight.require_packages(preflight.missing_packages(read.config))
        return 0
    preflight.require_machines(read.config)
    for line in dry_run.inert_lines(read.notes):
        print(line, file=sys.stderr)  # noqa: T201 - the command's voice
    preflight.require_packages(preflight.missing_packages(read.config))
    try:
        return _train(read, out, resume=args.resume)
    except ConfigError:
        raise
    except PaddockError as error:
        print(f"paddock train: {error}", file=sys.stderr)  # noqa: T201 - the command's voice
        return 1


def _train(read: Any, out: Path, *, resume: bool) -> int:
    return int(importlib.import_module(f"{_PACKAGE}.train").train(read, out, resume=resume))
