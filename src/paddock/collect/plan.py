"""The plan of a collection, made before anything starts: which rows, by which agents, how often.

Shapes  a `PlannedGroup` is one row with its members; it has its row, or the RowError that says why it has none.
Law     the same config, settings and row files give the same groups in the same order.
Errors  ConfigError for everything that is a mistake of the command or the config: unreadable files, no rows, an agent
        of that name in no row (seen at the first readable row); with `strict_rows` also every row that is wrong.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

from paddock.collect.identity import RunIdentity, Scope, identify
from paddock.collect.routing import Agent, Router, acting, environment
from paddock.collect.row_prompt import read_prompt
from paddock.collect.rows import FileFacts, RowFileLine, RowSource, file_facts, lines, read_line
from paddock.collect.settings import EvalSettings, Selection, selection
from paddock.config import Config, find_file
from paddock.errors import BugError, ConfigError, RowError, boundary
from paddock.types import AgentRef, Row, Stamp

MAX_SHOWN = 20
"""Wrong rows that one message lists."""


class PlannedGroup(NamedTuple):
    """One row and how often it runs."""

    line: RowFileLine
    size: int
    row: Row | None
    """Stamped with its group, and with the agent that runs it."""
    agent: Agent | None
    """The agent that runs it; of a row that can't run, the one that would, as far as that is known."""
    error: RowError | None
    """Why it can't run; None: it can."""


class Plan(NamedTuple):
    """Everything that a collection needs to know before it starts."""

    config: Config
    settings: EvalSettings
    router: Router
    sources: list[RowSource]
    selection: Selection
    identity: RunIdentity

    @property
    def n_rows(self) -> int:
        return self.identity.n_rows

    @property
    def n_rollouts(self) -> int:
        return self.identity.n_rollouts

    def lines(self) -> Iterator[RowFileLine]:
        """The lines of the run, read one by one as they are needed."""
        return lines(self.sources, self.selection)

    def groups(self) -> Iterator[PlannedGroup]:
        return map(self.group, self.lines())

    def group(self, line: RowFileLine) -> PlannedGroup:
        """The row of a line, ready to run; or why it can't."""
        return GroupReader(self.router, self.identity.run_id).group(line)

    @property
    def max_workers(self) -> int:
        """How many workers there may be. On a cluster it has fewer while it has no room for so many."""
        wanted = self.settings.workers
        most = min(self.settings.concurrency, self.n_rollouts)
        if wanted is not None:
            return min(wanted, most)
        if self.settings.cluster is None:
            return 1
        # Each needs room for a whole group.
        return max(1, most // max(source.repeats for source in self.sources)) if self.is_group_wise else most

    @property
    def slots(self) -> list[int]:
        """How many rollouts each worker has at a time, when all are there."""
        concurrency, n_workers = self.settings.concurrency, self.max_workers
        share, more = divmod(concurrency, n_workers)
        return [share + (nth < more) for nth in range(n_workers)]

    @property
    def is_group_wise(self) -> bool:
        """Whether members of a group may wait for one another."""
        return any(agent.group_wise for agent in self.router.agents.values())


class GroupReader:
    """Makes groups of lines, and holds the last one: its members mostly come one after another."""

    def __init__(self, router: Router, run_id: str) -> None:
        self._router = router
        self._run_id = run_id
        self._last: PlannedGroup | None = None

    def group(self, line: RowFileLine) -> PlannedGroup:
        """The row of a line, ready to run; or why it can't."""
        if self._last is None or self._last.line != line:
            self._last = self._read(line)
        return self._last

    def _read(self, line: RowFileLine) -> PlannedGroup:
        size = line.source.repeats
        likely = self._router.fallback(line.source.agent)
        try:
            row = read_line(line, own_prompt=partial(self._router.makes_prompt, source_agent=line.source.agent))
        except RowError as error:
            return PlannedGroup(line, size, None, likely, error)
        try:
            agent = self._router.agent_of(row, source_agent=line.source.agent)
        except RowError as error:
            return PlannedGroup(line, size, row, None, RowError(f"{line.where}: {error.message}", kind=error.kind))
        stamp = Stamp(run_id=self._run_id, group_id=line.index, group_size=size)
        ready = row.model_copy(update={"stamp": stamp, "agent_ref": AgentRef(name=agent.name)})
        return PlannedGroup(line, size, ready, agent, None)


def make_plan(config: Config, settings: EvalSettings, *, oracle: bool = False) -> Plan:
    selected = selection(settings)
    router = Router(config, default=settings.agent)
    sources = find_sources(config, settings, router)
    files = [(source, file_facts(source.path)) for source in sources]
    scope = Scope(files, selected, *_counts(files, selected))
    if scope.n_rows == 0:
        where = ", ".join(str(source.path) for source in sources)
        cut = " with slice, limit and shard leave none" if any(facts.n_rows for _, facts in files) else " holds none"
        raise ConfigError(f"no rows to run: {where}{cut}", kind="no_rows")
    identity = identify(config, settings, scope, router, oracle=oracle)
    plan = Plan(config, settings, router, sources, selected, identity)
    if settings.strict_rows:
        _refuse_wrong_rows(plan)
    _refuse_unknown_agent(plan)
    _refuse_too_few_at_once(plan)
    return plan


def find_sources(config: Config, settings: EvalSettings, router: Router) -> list[RowSource]:
    """The row files that the settings name, else the agents' datasets of the split."""
    if settings.rows:
        prompt = read_prompt(settings.prompt_config) if settings.prompt_config else None
        return [RowSource(find_file(path), settings.repeats or 1, prompt=prompt) for path in settings.rows]
    agents = [agent for name, agent in router.agents.items() if settings.agent in (None, name)]
    splits = sorted({dataset.type for agent in agents for dataset in agent.datasets})
    split = settings.split or (splits[0] if len(splits) == 1 else None)
    if split is None:
        have = (
            f"the datasets are of types {', '.join(splits)}: choose with --split"
            if splits
            else "no agent has a dataset"
        )
        raise ConfigError(f"which rows? Name files with --rows; {have}", kind="no_rows")
    sources = [
        RowSource(
            find_file(dataset.jsonl_fpath, beside=_folder(config, agent)),
            settings.repeats or dataset.num_repeats,
            agent.name,
            read_prompt(dataset.prompt_config, beside=_folder(config, agent)) if dataset.prompt_config else None,
        )
        for agent in agents
        for dataset in agent.datasets
        if dataset.type == split
    ]
    if not sources:
        raise ConfigError(f"no agent has a dataset of type {split!r}; there are: {', '.join(splits)}", kind="no_rows")
    return sources


def row_problems(plan: Plan) -> Iterator[RowError]:
    """Every row that can't run: unreadable, without an agent, or refused by its agent or its environment."""
    agents = {name: acting(plan.config, name) for name in plan.router.agents}
    servers = {name: environment(plan.config, name) for name in {a.environment for a in plan.router.agents.values()}}
    for group in plan.groups():
        if group.error is not None:
            yield group.error
        elif group.agent is not None and group.row is not None:
            try:
                with boundary(BugError, f"{group.agent.environment}: read_task of {group.line.where}"):
                    server = servers[group.agent.environment]
                    server.read_task(group.row)
                    agents[group.agent.name].check_row(group.row, server)
            except RowError as error:
                yield RowError(f"{group.line.where}: {error.message}", kind=error.kind)


def _folder(config: Config, agent: Agent) -> Path:
    return Path(config.instances[agent.name].origin.rpartition(":")[0]).parent


def _counts(files: list[tuple[RowSource, FileFacts]], selected: Selection) -> tuple[int, int]:
    """Rows and rollouts of the selection."""
    first = n_rows = n_rollouts = 0
    for source, facts in files:
        rows = selected.n_between(first, first + facts.n_rows)
        n_rows += rows
        n_rollouts += rows * source.repeats
        first += facts.n_rows
    return n_rows, n_rollouts


def _refuse_wrong_rows(plan: Plan) -> None:
    problems = [error.message for error in row_problems(plan)]
    if problems:
        more = [f"and {len(problems) - MAX_SHOWN} more"] if len(problems) > MAX_SHOWN else []
        listed = "\n  - ".join([*problems[:MAX_SHOWN], *more])
        raise ConfigError(f"{len(problems)} of {plan.n_rows} rows are wrong:\n  - {listed}", kind="rows_wrong")


def _refuse_unknown_agent(plan: Plan) -> None:
    readable = next((group for group in plan.groups() if group.row is not None), None)
    if readable is not None and readable.error is not None:
        raise ConfigError(readable.error.message, kind=readable.error.kind)


def _refuse_too_few_at_once(plan: Plan) -> None:
    """Members that wait for one another must run at once, at one worker. Rows start in order, so room for one group is
    enough."""
    waiting = [agent for agent in plan.router.agents.values() if agent.group_wise]
    size = max(source.repeats for source in plan.sources)
    n_workers, least = len(plan.slots), min(plan.slots)
    if waiting and least < size:
        each = f" with {n_workers} workers, so {least} at one" if n_workers > 1 else ""
        raise ConfigError(
            f"eval.concurrency: {plan.settings.concurrency} rollouts at once{each}, but {waiting[0].environment} "
            f"judges the {size} rollouts of a row together, and they wait for each other: needs at least "
            f"{size * n_workers}",
            kind="concurrency_too_low",
        )
