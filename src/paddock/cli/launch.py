"""`paddock launch [CONFIG] [NAME=VALUE ...] [key=value ...]`: begin a training run, or go on with it, here, on SLURM
or on Kubernetes.

Exit    of a job: 0 it is submitted (for Kubernetes: written), 1 a step before it failed or SLURM refused it; of a run
        here: the run's own; 2 a mistake, said before anything is written or run.
"""

import argparse
import importlib
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from paddock.training.launch.plan import LaunchPlan, PlanInputs
    from paddock.training.launch.resolve import ResolvedLaunch

HELP = """A setting is a variable (EXP_NAME, CONFIG_PATH, MODEL_PATH, TRAIN_PATH, VAL_PATH, ...; --variables lists all),
given on the command line, in the environment or in a profile of env.toml; the first of these that has it wins.
key=value is an override of the training config. The same launch again goes on with the same run, from its newest
checkpoint.

exit codes:
  0  the job is submitted, or written for Kubernetes; a run on this machine: it is at its end
  1  a step before it failed, SLURM refused the job, or a run on this machine failed
  2  a mistake in the command, env.toml or the config; nothing was written or run

examples:
  paddock launch configs/train_demo.yaml EXP_NAME=first --dry-run
  EXP_NAME=first CONFIG_PATH=mine.yaml MODEL_PATH=m TRAIN_PATH=t.jsonl VAL_PATH=v.jsonl paddock launch --run cluster
  paddock launch mine.yaml --run cluster --prefetch
  paddock launch stage2_swe1.yaml --trainer nemo_rl NEMO_RL_DIR=~/RL --run cluster --dry-run"""

_VARIABLE = re.compile(r"([A-Z][A-Z0-9_]*)=(.*)", re.DOTALL)
_READ = re.compile(r"\$\{\s*oc\.env:\s*([A-Za-z_]\w*)")
_PACKAGE = "paddock.training.launch"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = HELP
    words = "a config file, variables of the launch, overrides of the config"
    parser.add_argument("words", nargs="*", metavar="CONFIG|NAME=VALUE|key=value", help=words)
    parser.add_argument("-r", "--run", metavar="PROFILE", help="of env.toml; local, slurm and kuberay need none")
    parser.add_argument("--trainer", choices=("paddock", "nemo_rl"), help="whose loop (default: paddock)")
    parser.add_argument("-d", "--dry-run", action="store_true", help="print what would be written and run")
    parser.add_argument("--prefetch", action="store_true", help="get environments, programs and images, and stop")
    parser.add_argument("--variables", action="store_true", help="list the variables, and stop")


def run(args: argparse.Namespace) -> int:
    from paddock.errors import PaddockError
    from paddock.training.launch.plan import LaunchHost, plan, plan_text

    if args.variables:
        return _list_variables()
    words = split_words(args.words)
    resolved = _resolve(args, words)
    for note in resolved.notes:
        print(f"paddock launch: {note}", file=sys.stderr)  # noqa: T201 - the command's voice
    inputs, read = _inputs(resolved, words)
    host = LaunchHost(Path.cwd(), package_folder(), os.environ)
    if args.prefetch:
        return _prefetch(resolved, read, host.package)
    planned = plan(resolved, inputs, host)
    if resolved.settings.dry_run:
        print(plan_text(planned))  # noqa: T201 - the command's voice
        return 0
    try:
        return _start(planned)
    except (PaddockError, OSError, subprocess.CalledProcessError) as error:
        if getattr(error, "owner", "infra") == "user":
            raise
        print(f"paddock launch: {error}", file=sys.stderr)  # noqa: T201 - the command's voice
        return 1


class LaunchArguments(NamedTuple):
    """The arguments of the command line: variables of the launch, overrides of the config."""

    variables: dict[str, str]
    overrides: list[str]


def split_words(words: list[str]) -> LaunchArguments:
    """A name in capitals is a variable; whatever else has `=` or begins with `~` is an override."""
    from paddock.errors import ConfigError

    variables: dict[str, str] = {}
    overrides: list[str] = []
    for word in words:
        if match := _VARIABLE.fullmatch(word):
            name, value = match.groups()
        elif "=" in word or word.startswith("~"):
            overrides.append(word)
            continue
        else:
            name, value = "CONFIG_PATH", word
        if name in variables:
            raise ConfigError(f"{name} is given twice: {variables[name]} and {value}", kind="arguments")
        variables[name] = value
    return LaunchArguments(variables, overrides)


def package_folder() -> Path:
    """The checkout; of an installed package the folder above it."""
    import paddock

    return Path(paddock.__file__).resolve().parents[2]


def _resolve(args: argparse.Namespace, words: LaunchArguments) -> "ResolvedLaunch":
    from paddock.training.launch.profiles import find_file, read_profile
    from paddock.training.launch.resolve import resolve

    command: dict[str, Any] = dict(words.variables)
    if args.trainer:
        command["trainer"] = args.trainer
    if args.dry_run:
        command["DRY_RUN"] = True
    return resolve(command, os.environ, read_profile(args.run, find_file(Path.cwd())))


def _inputs(resolved: "ResolvedLaunch", words: LaunchArguments) -> tuple["PlanInputs", Any]:
    """What the config says to a launch, and the config: None for NeMo-RL, which has its own reader."""
    from paddock.cli.launch_needs import labels_of, sandboxed_agents
    from paddock.errors import ConfigError
    from paddock.training.launch.built_in import overrides_of
    from paddock.training.launch.nemo_rl import config_file
    from paddock.training.launch.plan import PlanInputs
    from paddock.training.launch.settings import variables_of

    settings = resolved.settings
    os.environ.update(variables_of(settings))
    if settings.trainer == "nemo_rl":
        file = Path(settings.nemo_rl_dir).expanduser() / config_file(settings)
        return PlanInputs(words.overrides, reads=_reads(file, words.overrides)), None
    read_config, rows, train, preflight = (
        importlib.import_module(f"paddock.training.grpo.{name}")
        for name in ("read_config", "rows", "train", "preflight")
    )
    read = read_config.read_config([settings.config_path], overrides_of(settings, words.overrides))
    cluster = read.config.cluster
    if settings.executor == "local":
        preflight.require_machines(read.config)
    elif cluster.address is not None and settings.nodes not in (None, 1):
        raise ConfigError(
            f"cluster.address is {cluster.address}: a job that joins a cluster has one node, and {settings.nodes} are "
            "asked for (SBATCH_NUM_NODES)",
            kind="machines",
        )
    if not settings.container:
        # What an image has elsewhere can't be looked for here.
        rows.rows_files(read.config.data)
        train.require_model(read.config.policy.model_name)
    names = {*_reads(Path(settings.config_path), words.overrides), *_READ.findall(read.environment.to_yaml())}
    nodes = 1 if cluster.address else cluster.num_nodes
    labels = labels_of(read)
    agents = sandboxed_agents(read.environment)
    return PlanInputs(words.overrides, cluster.gpus_per_node, sorted(names), nodes, labels, agents), read


def _reads(file: Path, overrides: list[str]) -> list[str]:
    """Variables that a config names, or those that it stands on."""
    from paddock.config.trees import strings

    compose = importlib.import_module("paddock.training.grpo.compose")
    written = [*overrides, *(text for _, text in strings(compose.compose([file], []).tree))]
    return sorted({name for text in written for name in _READ.findall(text)})


def _start(planned: "LaunchPlan") -> int:
    from paddock.training.launch.slurm import require_sbatch, submit

    if planned.log is not None:
        require_sbatch()
    planned.write()
    if planned.resolved.settings.executor == "kuberay":
        _tell_kube(planned)
        return 0
    for step in planned.before:
        subprocess.run(step.words, cwd=step.folder, check=True)
    if planned.log is None:
        sys.stdout.flush()
        os.execvp(planned.start.words[0], list(planned.start.words))  # noqa: S606 - its words, no shell's
    number = submit(planned.start.words)
    lines = [
        f"job {number} is submitted",
        f"run: {planned.run}",
        f"log: {planned.log.with_name(planned.log.name.replace('%j', number))}",
        f"ended by: scancel {number}",
        "the same launch again goes on with this run, from its newest checkpoint",
    ]
    print("\n".join(lines))  # noqa: T201 - the command's voice
    return 0


def _tell_kube(planned: "LaunchPlan") -> None:
    """Say what was written, and what submits it: that is the user's to do."""
    lines = [
        *(f"written: {file}" for file in planned.files),
        f"run: {planned.run}",
        "to submit it:",
        *(f"  {step.text()}" for step in (*planned.before, planned.start)),
        "the same launch again goes on with this run: delete the job that has ended, and create it anew",
    ]
    print("\n".join(lines))  # noqa: T201 - the command's voice


def _prefetch(resolved: "ResolvedLaunch", read: Any, package: Path) -> int:
    from paddock.cli.launch_needs import needs_of
    from paddock.training.launch.prefetch import prefetch_jobs

    jobs = list(prefetch_jobs(resolved.settings, needs_of(resolved.settings, read), package))
    if not jobs:
        print("nothing to fetch")  # noqa: T201 - the command's voice
    failed = 0
    for why, step in jobs:
        print(f"{why}: {step.text()}", flush=True)  # noqa: T201 - the command's voice
        if not resolved.settings.dry_run and subprocess.run(step.words, check=False).returncode:
            failed += 1
            print(f"paddock launch: failed: {step.text()}", file=sys.stderr)  # noqa: T201 - the command's voice
    return 1 if failed else 0


def _list_variables() -> int:
    settings = importlib.import_module(f"{_PACKAGE}.settings")
    names: Mapping[str, str] = settings.VARIABLES
    for field, about in settings.RunLaunchSettings.model_fields.items():
        alone = " NeMo-RL's alone." if field in settings.NEMO_RL_FIELDS else ""
        text = " ".join((about.description or "").split())
        heading = f"{names.get(field, '-')}  ({field}, default {about.default!r})"
        print(f"{heading}\n    {text}{alone}")  # noqa: T201 - the command's voice
    return 0
