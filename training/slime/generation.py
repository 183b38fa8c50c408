"""slime's custom generate function: a rollout of one of our environments for each of its samples.

Source  THUDM/slime, `slime/rollout/sglang_rollout.py`: `generate_and_rm` calls it; an exception of it would end the
        whole rollout phase, so a failed rollout is a masked sample.
Rows    a sample's row is `metadata["row"]`; `python -m paddock.training.slime` makes slime's data file of a row file.
Abort   when slime ends its rollout phase, rollouts that run are cancelled, and their samples are `aborted`: slime puts
        their groups back. Nothing of them is kept: a harness in a sandbox can't be stopped and taken up again.
Errors  ConfigError for settings; InfraError where a server was given up: both end the run.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from paddock.errors import RowError
from paddock.rollouts import RolloutClient, RolloutOptions, open_rollouts
from paddock.training.slime.engine import router_engine
from paddock.training.slime.samples import ExpertsWidth, slime_samples
from paddock.training.slime.settings import SlimeSettings, read_settings, replays_experts
from paddock.types import JsonObject


class _Environment(NamedTuple):
    """What all samples of this process share."""

    rollouts: RolloutClient
    settings: SlimeSettings
    is_aborted: Callable[[], bool]
    n_phases: Callable[[], int | None]
    """slime's number of the phase."""
    decode: Callable[[list[int]], str]


_open: dict[int, _Environment] = {}
"""By event loop: slime has one for all of its rollouts."""


async def generate(args: Any, sample: Any, sampling_params: JsonObject, evaluation: bool = False) -> Any:
    """Run the rollout of a sample: slime's `Sample`s, a list where there are several."""
    environment = _environment(args)
    row = _row(sample, sampling_params)
    size, index = (1, sample.index) if evaluation else (args.n_samples_per_prompt, sample.group_index)
    # A group that was aborted is run again in a later phase: its members have nothing in common with those before.
    group = None if evaluation else f"{index}-{environment.n_phases()}"
    member = 0 if evaluation else sample.index % size
    rollout = asyncio.ensure_future(
        environment.rollouts.run_member(row, member=member, size=size, index=index, group=group)
    )
    try:
        while not rollout.done():
            await asyncio.wait([rollout], timeout=environment.settings.abort_poll_s)
            if environment.is_aborted() and not rollout.done():
                sample.status = type(sample).Status.ABORTED
                return sample
    finally:
        rollout.cancel()
    width = ExpertsWidth(args.num_layers, args.moe_router_topk) if replays_experts(args) else None
    samples = slime_samples(sample, rollout.result(), environment.decode, width)
    return samples[0] if len(samples) == 1 else samples


def _environment(args: Any) -> _Environment:
    """The environment's servers, which the first sample of a process starts."""
    loop = id(asyncio.get_running_loop())
    if loop not in _open:
        from slime.rollout import sample_hooks
        from slime.rollout.sglang_rollout import GenerateState
        from slime.utils.http_utils import get_rollout_num_engines, post

        settings = read_settings(args)
        state = GenerateState(args)
        experts = {"routed_experts": True} if replays_experts(args) else {}
        engine = {"tokenizer": str(Path(args.hf_checkpoint)), **experts, **settings.engine}
        most = args.sglang_server_concurrency * get_rollout_num_engines(args)
        _open[loop] = _Environment(
            open_rollouts(
                settings.config,
                *settings.overrides,
                engine=router_engine(args, post, lambda: state.aborted),
                engine_settings=engine,
                model_server=settings.model_server,
                options=RolloutOptions.model_validate({"max_rollouts": most, **settings.rollouts}),
            ),
            settings,
            lambda: state.aborted,
            lambda: sample_hooks._current_rollout_id,
            state.tokenizer.decode,
        )
    return _open[loop]


def _row(sample: Any, sampling_params: JsonObject) -> JsonObject:
    row = (sample.metadata or {}).get("row")
    if not isinstance(row, dict):
        raise RowError(
            'a sample without metadata["row"]: make the data file by `python -m paddock.training.slime ROWS`',
            kind="row_missing",
        )
    sampling = {key: sampling_params[key] for key in ("temperature", "top_p") if sampling_params.get(key) is not None}
    return {**row, "responses_create_params": {**(row.get("responses_create_params") or {"input": []}), **sampling}}
