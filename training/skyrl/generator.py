"""`PaddockGenerator`: SkyRL's generator, whose trajectories are rollouts of ours.

Law     an answer has the rows of a call's prompts in their order; neighbours with one `instance_id` are a group. The
        servers start with the first call, in its loop, and stop with `close` or with the process.
Errors  a rollout that failed is none (see `output`). ConfigErrors, and what fails all rollouts, are raised.
"""

import asyncio
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from skyrl.backends.skyrl_train.inference_servers.engine_utils import get_sampling_params_for_backend
from skyrl.train.generators.base import GeneratorInterface
from skyrl.train.generators.utils import apply_overlong_filtering, get_rollout_metrics

from paddock.config import load, validate
from paddock.errors import ConfigError
from paddock.rollouts import RolloutClient, RolloutGroup, RolloutOptions, open_rollouts
from paddock.training.skyrl.engine import engine_function
from paddock.training.skyrl.output import columns, group_metrics, group_rows
from paddock.training.skyrl.rows import row_of, with_sampling
from paddock.training.skyrl.settings import SkyRlSettings, options_for, require_supported
from paddock.types import JsonObject
from paddock.types.seeds import seed_from


class PaddockGenerator(GeneratorInterface):  # type: ignore[misc]
    """Rollouts of the environments of a config, sampled by SkyRL's engines."""

    def __init__(
        self,
        generator_cfg: Any,
        inference_engine_client: Any,
        model: str | Path,
        settings: SkyRlSettings,
        *,
        filler: int,
        policy_model_name: str | None = None,
    ) -> None:
        """`model`: the folder of the policy, for its vocabulary and chat template. `filler`: an id for rows that are
        masked. `policy_model_name`: the name of the policy at the engines, where it is an adapter."""
        require_supported(generator_cfg)
        self._cfg = generator_cfg
        self._client = inference_engine_client
        self._model = str(model)
        self._settings = settings
        self._filler = filler
        self._policy_model_name = policy_model_name
        self._rollouts: RolloutClient | None = None

    async def generate(self, input_batch: Any) -> JsonObject:
        """The rollouts of a batch, as a `GeneratorOutput`."""
        step_wise = bool(self._cfg.step_wise_trajectories)
        trajectories = input_batch["trajectory_ids"]
        if trajectories is None:
            raise ConfigError("a batch without trajectory_ids has no groups", kind="trajectory_ids_missing")
        batch = zip(trajectories, input_batch["env_extras"] or [None] * len(trajectories), strict=True)
        asked = [list(members) for _, members in groupby(batch, key=lambda pair: pair[0].instance_id)]
        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(self._group(members, input_batch["sampling_params"])) for members in asked]
        groups = [task.result() for task in running]
        rows = [
            row
            for members, group in zip(asked, groups, strict=True)
            for row in group_rows(group, [one for one, _ in members], step_wise=step_wise, filler=self._filler)
        ]
        output = columns(rows, step_wise=step_wise)
        if self._cfg.apply_overlong_filtering:
            output["loss_masks"] = apply_overlong_filtering(output["loss_masks"], output["stop_reasons"])
        output["rollout_metrics"] = get_rollout_metrics(
            output["response_ids"],
            output["rewards"],
            loss_masks=output["loss_masks"],
            trajectory_completion_times=[row.total_s for row in rows if row.last],
        ) | group_metrics(groups)
        return output

    def close(self) -> None:
        """End all rollouts, and stop the servers."""
        if self._rollouts is not None:
            self._rollouts.close()

    async def _group(self, members: Sequence[tuple[Any, Any]], sampling: Any) -> RolloutGroup:
        trajectory, extras = members[0]
        row = with_sampling(row_of(extras), sampling)
        group: RolloutGroup = await self._client_of_rollouts().run_group(
            row, len(members), index=_index(trajectory.instance_id)
        )
        return group

    def _client_of_rollouts(self) -> RolloutClient:
        """Opened in the loop in which the engines are called."""
        if self._rollouts is None:
            self._rollouts = self._open_rollouts()
        return self._rollouts

    def _open_rollouts(self) -> RolloutClient:
        cfg, settings = self._cfg, self._settings
        config = load(list(settings.config), settings.overrides, servers=())
        sampling = get_sampling_params_for_backend(cfg.inference_engine.backend, cfg.sampling_params)
        options = validate(RolloutOptions, config.top("rollouts"), "rollouts")
        return open_rollouts(
            config,
            engine=engine_function(
                self._client, sampling, cache_salt=bool(cfg.use_cache_salt), model=self._policy_model_name
            ),
            engine_settings={
                "tokenizer": self._model,
                "routed_experts": bool(cfg.inference_engine.enable_return_routed_experts),
                **settings.engine,
            },
            model_server=settings.model_server,
            options=options_for(options, step_wise=bool(cfg.step_wise_trajectories)),
        )


def _index(instance_id: str) -> int:
    """The number of a row: SkyRL's of its dataset, else one that follows from the text."""
    return int(instance_id) if instance_id.isdecimal() else seed_from(instance_id)
