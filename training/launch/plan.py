"""What a launch does, written out before any of it is done: files, then commands, then the one that starts the run.

Files   runs/EXP_NAME/launch: `job.sh`, for NeMo-RL `driver.sh` besides, and the logs of its jobs (`JOB.log`).
Law     what is printed is what is written and run, to the letter; no value of a variable that goes by name is in it.
Local   `bash job.sh` in this process's place: signals and the exit code are the run's own.
"""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from paddock.training.launch import built_in, nemo_rl
from paddock.training.launch.overrides import refuse_secrets, words_of
from paddock.training.launch.resolving import DEFAULT, Resolved
from paddock.training.launch.settings import VARIABLES, LaunchSettings, variables_of
from paddock.training.launch.shell import Script, Step, replaced_by, step_of_slurm
from paddock.training.launch.slurm import names_passed, sbatch_words, srun_words
from paddock.whole_file import write_whole

_TITLE = "{name}, as `paddock launch` wrote it: the same launch again goes on with the same run."


class Asked(NamedTuple):
    """What a launch is planned from, besides its settings."""

    overrides: Sequence[str] = ()
    """Of the training config."""
    gpus: int = 0
    """What the config counts out, for the built-in loop."""
    reads: Sequence[str] = ()
    """Variables that the config asks for."""


class Where(NamedTuple):
    """The machine's side."""

    folder: Path
    """The working directory, absolute."""
    package: Path
    """Paddock's checkout, or where it is installed."""
    environ: Mapping[str, str]


class Plan(NamedTuple):
    """One launch."""

    resolved: Resolved
    files: Mapping[Path, str]
    before: Sequence[Step]
    last: Step
    run: Path
    """Folder of the run."""
    log: Path | None
    """Of a job; `%j` is its number. None: it writes here."""
    names: Sequence[str] = ()
    """Variables that a job has from here."""

    def write(self) -> None:
        for path, text in self.files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, text.encode(errors="surrogateescape"))


def plan(resolved: Resolved, asked: Asked, where: Where) -> Plan:
    """ConfigError for what can't be."""
    settings = resolved.settings
    refuse_secrets([*asked.overrides, *words_of(settings.extra_hydra_args)])
    # Those of a launch stand in its script.
    reads = [name for name in asked.reads if name not in VARIABLES.values()]
    names = names_passed(settings, reads, where.environ)
    run = where.folder / built_in.RUNS / settings.exp_name
    launch = run / "launch"
    job = launch / "job.sh"
    parts = (_nemo_rl if settings.trainer == "nemo_rl" else _built_in)(settings, asked, where, job)
    title = _TITLE.format(name=settings.exp_name)
    texts = {path: script.text(title) for path, script in parts.files.items()}
    if settings.executor == "local":
        return Plan(resolved, texts, parts.before, Step(["bash", str(job)]), run, None)
    log = launch / "%j.log"
    gpus = parts.gpus if settings.gpus_per_node is None else settings.gpus_per_node
    words = sbatch_words(settings, job, log, nodes=parts.nodes, gpus=gpus, names=names)
    return Plan(resolved, texts, parts.before, Step(words), run, log, names)


class _Parts(NamedTuple):
    """What differs by trainer."""

    files: dict[Path, Script]
    before: list[Step]
    nodes: int
    gpus: int
    """For each node, where no setting says so."""


def _built_in(settings: LaunchSettings, asked: Asked, where: Where, job: Path) -> _Parts:
    command = built_in.train_command(settings, asked.overrides)
    exports = {"PYTHONUNBUFFERED": "1", **variables_of(settings)}
    here = settings.executor == "local"
    end = replaced_by(command) if here else step_of_slurm(srun_words(settings, command, where.folder))
    return _Parts({job: Script(where.folder, exports, end)}, [], 1, asked.gpus)


def _nemo_rl(settings: LaunchSettings, asked: Asked, where: Where, job: Path) -> _Parts:
    places = nemo_rl.places_of(settings, where.package, job.parent)
    driver = nemo_rl.driver(settings, places, asked.overrides)
    before = nemo_rl.before(settings, places)
    if settings.executor == "local":
        return _Parts({job: driver}, before, 1, 0)
    file = job.with_name("driver.sh")
    files = {file: driver, job: nemo_rl.job(settings, places, file)}
    return _Parts(files, before, nemo_rl.n_nodes(settings, asked.overrides), nemo_rl.GPUS_PER_NODE)


def plan_text(planned: Plan) -> str:
    """The whole of it."""
    return "\n".join(_lines(planned))


def _lines(planned: Plan) -> Iterator[str]:
    settings, origins, notes = planned.resolved
    yield "settings:"
    for field in LaunchSettings.model_fields:
        if field in origins or field in ("trainer", "executor", "exp_name"):
            yield f"  {field} = {_shown(getattr(settings, field))}  ({origins.get(field, DEFAULT)})"
    yield from (f"note: {note}" for note in notes)
    for path, text in planned.files.items():
        yield f"writes {path}:"
        yield from (f"  {line}" for line in text.rstrip("\n").split("\n"))
    if planned.names:
        yield f"variables that the job has from here: {', '.join(planned.names)}"
    yield "runs:"
    yield from (f"  {step.text()}" for step in (*planned.before, planned.last))
    if settings.trainer == "nemo_rl" and settings.executor == "slurm":
        yield "not verified: no cluster has run such a launch; look at the commands before you rely on them"


def _shown(value: object) -> str:
    return shlex.quote(",".join(value) if isinstance(value, tuple) else str(value))
