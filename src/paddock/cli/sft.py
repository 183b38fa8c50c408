"""`paddock sft CONFIG [key=value ...]`: fine-tune a policy on chosen rollouts of finished runs.

Exit    0 the run is at its end; 1 it failed, and its processes have ended; 2 a mistake, said before anything starts;
        130 interrupted. After 1 and 130 the same command with --resume goes on from the last checkpoint.
"""

import argparse
import importlib
import sys
from pathlib import Path

HELP = """exit codes:
  0    the run is at its end: OUT/export has the weights; with --dry-run: the plan was made
  1    it failed, and all its processes have ended; --resume goes on from the last checkpoint
  2    a mistake in the command or the config, no rollout that can be trained on, or this interpreter lacks packages
       that a run imports; nothing was started
  130  interrupted; --resume goes on from the last checkpoint

examples:
  paddock eval mine.yaml --repeats 8 --out runs/sampled
  paddock sft warm.yaml --dry-run
  paddock sft warm.yaml data.choose.min_reward=0.5 sft.max_num_epochs=2 --out runs/warm
  paddock train mine.yaml policy.model_name=runs/warm/export"""

_PACKAGE = "paddock.training.sft"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from paddock.cli.configs import add_run_arguments

    add_run_arguments(parser, HELP, dry_run="choose the rollouts, print the plan, start nothing")


def run(args: argparse.Namespace) -> int:
    from paddock.cli.configs import split_arguments
    from paddock.errors import ConfigError, PaddockError

    files, overrides = split_arguments(args.config)
    if not files:
        raise ConfigError("name a config file (docs/warm_start.md has one)", kind="no_config")
    preflight = importlib.import_module("paddock.training.grpo.preflight")
    preflight.require_packages(preflight.missing_of(["numpy"]))
    read_config, dry_run, train = (
        importlib.import_module(f"{_PACKAGE}.{name}") for name in ("read_config", "dry_run", "train")
    )
    read = read_config.read_sft_config(files, overrides, strict=args.strict)
    out = Path(args.out or f"runs/{read.name}")
    if args.dry_run:
        print(dry_run.plan_text(read, out))  # noqa: T201 - the command's voice
    else:
        for line in importlib.import_module("paddock.training.grpo.dry_run").inert_lines(read.notes):
            print(line, file=sys.stderr)  # noqa: T201 - the command's voice
    preflight.require_packages(dry_run.missing_packages(read.config))
    if args.dry_run:
        return 0
    try:
        return int(train.sft(read, out, resume=args.resume))
    except ConfigError:
        raise
    except PaddockError as error:
        print(f"paddock sft: {error}", file=sys.stderr)  # noqa: T201 - the command's voice
        return 1
