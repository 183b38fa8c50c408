"""`paddock.open_rollouts`: rollouts of a config's environments, from a script, a notebook or a trainer's process.

Law     the servers run in a thread with a loop of their own, until closed. Calls give a result where no loop runs in
        this thread, else an awaitable; a stream of groups is read by `for` or by `async for`. An engine function is
        called in the loop in which `open_rollouts` was called, where one ran there, else in that thread's.
Errors  PaddockErrors, by owner; a failed rollout is none: it is a member without a reward.
"""

import asyncio
import secrets
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from paddock.collect import EvalSettings
from paddock.collect.attempts import ResultSink
from paddock.collect.routing import Router
from paddock.config import Config, load, validate
from paddock.config.yaml_text import dump, parse
from paddock.errors import ConfigError, RequestError
from paddock.rollouts.group_rollouts import GroupRollouts, require_rows, require_size
from paddock.rollouts.journal import RolloutJournal
from paddock.rollouts.options import RolloutOptions
from paddock.rollouts.records import RolloutGroup, TrainingRollout
from paddock.rollouts.runner import RolloutRunner, open_runner, running
from paddock.server.background import CLOSE_S, Background
from paddock.server.exact.functions import EngineFunction, bound_to_loop, registered, require_callable
from paddock.types import JsonObject

KIND, FUNCTION = "models_servers", "function"
POLICY = "policy_model"
"""The usual name of the model server that is trained."""
WORKERS_CLOSE_S = 60.0
"""Longest wait for workers to end: beyond the times to stop of their servers, and of a node that does not answer."""


def open_rollouts(
    config: Config | str | Path | Sequence[str | Path],
    *overrides: str,
    engine: EngineFunction | None = None,
    engine_settings: Mapping[str, Any] | None = None,
    model_server: str = POLICY,
    options: RolloutOptions | None = None,
    servers: Mapping[str, str] | None = None,
    token: str | None = None,
) -> "RolloutClient":
    """Start the agents of a config, and the servers they reference, and run rollouts in them.

    `config`: config files, or a config that was loaded; `overrides`: `key=value` of it. `engine`: an asynchronous
    function that samples ids (`paddock.server.exact.functions`), in place of the model server `model_server`, whose
    block is then `engine_settings`: those of `models_servers/function`, `tokenizer` at least. `servers`: URLs of
    servers that run already, by name, which ask for `token`. `options`: None: the config's `rollouts` block."""
    if isinstance(config, Config) and overrides:
        text = f"{overrides[0]}: overrides are of config files; of a loaded one, `paddock.config.load` took them"
        raise ConfigError(text, kind="overrides_unused")
    if engine is None and engine_settings:
        raise ConfigError("`engine_settings` are those of `engine`, which is missing", kind="engine_missing")
    if engine is not None:
        require_callable(engine)
    registration = registered(bound_to_loop(engine, _running_loop())) if engine is not None else None
    try:
        read = config if isinstance(config, Config) else load(_paths(config), overrides, servers=())
        if registration is not None:
            block = {**(engine_settings or {}), "function": registration.name}
            read = with_model_server(read, model_server, FUNCTION, block)
            _require_used(read, model_server)
        settings = options or validate(RolloutOptions, read.top("rollouts"), "rollouts")
        close_s = WORKERS_CLOSE_S if settings.is_spread else CLOSE_S
        background = Background(_open(read, settings, dict(servers or {}), token), close_s=close_s)
    except BaseException:
        if registration is not None:
            registration.close()
        raise
    return RolloutClient(background, registration.close if registration is not None else None)


class RolloutClient:
    """Rollouts of the environments of a config. Closed by `close`, `with`, `async with` or the program's end."""

    def __init__(self, background: Background[GroupRollouts], on_close: Callable[[], None] | None = None) -> None:
        self._background = background
        self._on_close = on_close

    def run_group(self, row: JsonObject, size: int, *, index: int | None = None) -> Any:
        """Run `size` rollouts of a row: a `RolloutGroup`, or an awaitable of one. `index`: the row's number, on which
        its random choices depend; None: the next one."""
        return self._background.answer(self._groups.group(row, size, index=index))

    def run_member(
        self, row: JsonObject, *, member: int = 0, size: int = 1, index: int = 0, group: str | None = None
    ) -> Any:
        """Run one rollout of a group of `size`: a `TrainingRollout`, or an awaitable of one. `group`: a text of the
        group's own, by which an environment that judges members together finds them; all have to be asked for here."""
        return self._background.answer(self._groups.member(row, member, size, index=index, group=group))

    def groups(self, rows: Iterable[JsonObject], size: int) -> "GroupStream":
        """Run `size` rollouts of each row: the groups in the order in which they end."""
        require_rows(rows)
        require_size(size)
        return GroupStream(self._background, self._groups.stream(rows, size))

    def pause(self) -> Any:
        """Let no rollout start, and no engine function be called, until `resume`; what runs goes on."""
        return self._call(self._groups.pause)

    def resume(self) -> Any:
        return self._call(self._groups.resume)

    def announce_weights(self, version: int | str) -> Any:
        """Say that engines have these weights from now on: groups that begin are stamped with it, and so are the tokens
        of an engine function that names no version itself."""
        return self._call(lambda: self._groups.announce_weights(version))

    def replicas(self, model_server: str = POLICY) -> Any:
        """The healthy vLLM servers of a model server `vllm`, to which a trainer may send weights: a list of
        `ReplicaInfo`, or an awaitable of one. ConfigError for a model server of another implementation."""
        return self._background.answer(self._groups.runner.replicas(model_server))

    @property
    def options(self) -> RolloutOptions:
        """The options with which it was opened."""
        return self._groups.options

    @property
    def folder_name(self) -> str:
        """The name of this start, which stamps its rollouts and names their folder."""
        return self._groups.run_id

    def close(self) -> None:
        """End all rollouts, and stop the servers."""
        self._background.close()
        if self._on_close is not None:
            self._on_close()

    def __enter__(self) -> "RolloutClient":
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    async def __aenter__(self) -> "RolloutClient":
        return self

    async def __aexit__(self, *_error: object) -> None:
        # An engine function may be asked once more by what ends: this loop has to go on meanwhile.
        await asyncio.to_thread(self.close)

    @property
    def _groups(self) -> GroupRollouts:
        return self._background.opened

    def _call(self, function: Callable[[], None]) -> Any:
        async def call() -> None:
            function()

        return self._background.answer(call())


class GroupStream:
    """Groups in the order in which they end, read by `for` or `async for`. Leaving it ends what it began."""

    def __init__(self, background: Background[GroupRollouts], stream: AsyncGenerator[RolloutGroup, None]) -> None:
        self._background = background
        self._stream = stream
        self._turn = asyncio.Lock()
        """Held while the stream is read or closed: an interrupt leaves a reading that still ends."""

    def __iter__(self) -> Iterator[RolloutGroup]:
        if _running_loop() is not None:
            text = "an event loop runs in this thread, as in a notebook: read groups by `async for`"
            raise RequestError(text, kind="loop_runs")
        return self._read()

    def _read(self) -> Iterator[RolloutGroup]:
        try:
            while True:
                group: RolloutGroup | None = self._background.answer(self._next())
                if group is None:
                    return
                yield group
        finally:
            if self._background.is_open:  # closing it has ended the stream
                self._background.answer(self._close())

    async def __aiter__(self) -> AsyncGenerator[RolloutGroup, None]:
        try:
            while True:
                group: RolloutGroup | None = await self._background.answer(self._next())
                if group is None:
                    return
                yield group
        finally:
            if self._background.is_open:
                await self._background.answer(self._close())

    async def _next(self) -> RolloutGroup | None:
        async with self._turn:
            return await anext(self._stream, None)

    async def _close(self) -> None:
        async with self._turn:
            await self._stream.aclose()


@asynccontextmanager
async def _open(
    config: Config, options: RolloutOptions, servers: Mapping[str, str], token: str | None
) -> AsyncIterator[GroupRollouts]:
    attempts = validate(EvalSettings, config.top("eval") or {}, "eval")
    run_id = f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(3)}"
    async with AsyncExitStack() as stack:
        journal = None
        if options.out is not None:
            journal = RolloutJournal(Path(options.out) / run_id, config)
            stack.push_async_callback(journal.close)
        runner = await stack.enter_async_context(
            _open_runner(config, attempts, options, sink=journal, run_id=run_id, servers=servers, token=token)
        )
        yield GroupRollouts(runner, options, run_id=run_id)


@asynccontextmanager
async def _open_runner(
    config: Config,
    attempts: EvalSettings,
    options: RolloutOptions,
    *,
    sink: ResultSink | None,
    run_id: str,
    servers: Mapping[str, str],
    token: str | None,
) -> AsyncIterator[RolloutRunner]:
    limit = options.max_rollouts
    if not options.is_spread:
        async with open_runner(
            config, attempts, sink=sink, max_rollouts=limit, elsewhere=servers, token=token
        ) as runner:
            yield runner
        return
    from paddock.rollouts.spread_place import open_spread_place  # with what a cluster needs

    async with (
        open_spread_place(config, attempts, options, run_id=run_id, elsewhere=servers, token=token) as place,
        running(config, place, attempts, sink=sink, max_rollouts=limit) as runner,
    ):
        yield runner


def _require_used(config: Config, model_server: str) -> None:
    """ConfigError for a model server that no agent calls: nothing would be sampled by the engine."""
    used = config.needed(Router(config).agents)
    if model_server not in used:
        models = [name for name in used if config.instance(name).kind == KIND]
        raise ConfigError(
            f"model_server: no agent of the config samples at {model_server!r}; they do at: {', '.join(models)}",
            kind="model_server_unused",
        )


def with_model_server(config: Config, name: str, implementation: str, block: JsonObject) -> Config:
    """The config with a model server `name` of this implementation, in place of the one that it has."""
    tree: Any = parse(config.to_yaml(), "composed config").tree
    tree[name] = {KIND: {implementation: block}}
    return Config.from_yaml(dump(tree))


def _paths(config: str | Path | Sequence[str | Path]) -> list[str | Path]:
    return [config] if isinstance(config, str | Path) else list(config)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


__all__ = ["POLICY", "GroupStream", "RolloutClient", "TrainingRollout", "open_rollouts"]
