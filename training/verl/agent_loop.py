"""verl's agent loop over our environments: one instance runs one rollout, and gives its samples.

Law     a rollout with nothing to train on (it failed, or none of its ids is proven, or verl has no room for one that
        is) enters neither loss nor baseline. V1's worker is given no output for it: its group is smaller. The other
        worker needs one: a mask of zeros, reward 0, and `algorithm.adv_estimator: paddock_grpo` leaves it out.
Errors  only what fails every rollout is raised: ConfigErrors, and servers that were given up.
"""

from typing import Any

from omegaconf import OmegaConf
from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopMetrics, AgentLoopOutput

from paddock.rollouts import RolloutClient, TrainingRollout, open_rollouts
from paddock.server.exact.functions import bound_to_loop
from paddock.tokens.export import plan_rollout
from paddock.training.verl.clients import client_of
from paddock.training.verl.engine import engine_function
from paddock.training.verl.members import member_number
from paddock.training.verl.outputs import TokenFields, placeholder, step_span, token_fields
from paddock.training.verl.rows import row_of, with_sampling
from paddock.training.verl.settings import (
    read_settings,
    replays_experts,
    require_estimator,
    require_mode,
    require_no_replay,
)


class PaddockAgentLoop(AgentLoopBase):  # type: ignore[misc]
    """One rollout in the environments that `environment` names."""

    def __init__(self, *args: Any, environment: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        block: Any = OmegaConf.to_container(OmegaConf.create(environment), resolve=True)
        self.settings = read_settings(block)

    async def run(self, sampling_params: dict[str, Any], **kwargs: Any) -> AgentLoopOutput | list[AgentLoopOutput]:
        """Run the rollout of a sample, whose fields are `kwargs`. A list for V1's worker, which counts sessions."""
        session = kwargs.get("session_id")
        require_mode(self.settings, many=session is not None)
        if session is None:
            require_estimator(self.config.algorithm.adv_estimator)
            require_no_replay(self.rollout_config)
        row = with_sampling(row_of(kwargs), sampling_params, max_tokens=self.rollout_config.response_length)
        group, size = kwargs.get("uid"), int(self.rollout_config.n)
        member: TrainingRollout = await (await self._client()).run_member(
            row,
            member=member_number(group, size) if session is None else int(session),
            size=max(size, 1 if session is None else int(session) + 1),
            index=int(kwargs.get("index", 0)),
            group=None if group is None else str(group),
        )
        outputs = self._outputs(member)
        if session is not None:
            return outputs
        if outputs:
            return outputs[0]
        pad = self.tokenizer.pad_token_id
        return self._output(member, placeholder(pad if pad is not None else 0), masked=True)

    async def _client(self) -> RolloutClient:
        engine = {
            "tokenizer": self.tokenizer.name_or_path,
            "routed_experts": replays_experts(self.rollout_config),
            "max_model_len": self.rollout_config.prompt_length + self.rollout_config.response_length,
            **self.settings.engine,
        }
        ends = frozenset({self.tokenizer.eos_token_id} - {None})
        function = bound_to_loop(engine_function(self.server_manager, end_ids=ends), self.loop)

        def open_client() -> RolloutClient:
            return open_rollouts(
                self.settings.config,
                *self.settings.overrides,
                engine=function,
                engine_settings=engine,
                model_server=self.settings.model_server,
                options=self.settings.options,
            )

        return await client_of(f"{self.settings.model_dump_json()} {engine}", self.server_manager, open_client)

    def _outputs(self, member: TrainingRollout) -> list[AgentLoopOutput]:
        """One for each sample of which something is trained on."""
        given = [
            token_fields(
                entry.sample,
                prompt_length=self.rollout_config.prompt_length,
                response_length=self.rollout_config.response_length,
            )
            for entry in member.samples
        ]
        return [self._output(member, fields, masked=False) for fields in given if fields.trained]

    def _output(self, member: TrainingRollout, fields: TokenFields, *, masked: bool) -> AgentLoopOutput:
        steps = step_span([entry.sample for entry in member.samples])
        return AgentLoopOutput(
            prompt_ids=fields.prompt_ids,
            response_ids=fields.response_ids,
            response_mask=fields.response_mask,
            response_logprobs=fields.response_logprobs,
            routed_experts=fields.routed_experts,
            reward_score=0.0 if masked else member.reward,
            num_turns=2 * (len(member.rollout.turns) if member.rollout is not None else 0),
            metrics=AgentLoopMetrics(generate_sequences=member.total_s),
            extra_fields={
                "reward_extra_info": {"masked": float(masked)},
                "min_global_steps": steps.first if steps else None,
                "max_global_steps": steps.last if steps else None,
                "turn_scores": [],
                "tool_rewards": [],
                "member": member.member,
                "outcome": member.outcome,
                "reason": member.reason,
                "mask_reason": (member.mask or "too_long") if masked else None,
                "off_path_turns": _off_path_turns(member, self.settings.options.sample_mode),
                "cut_tokens": fields.cut,
            },
        )


def _off_path_turns(member: TrainingRollout, mode: Any) -> int:
    """How many turns could be trained on, and are in no sample of this mode."""
    if member.rollout is None:
        return 0
    return sum(turn.reason == "off_path" for turn in plan_rollout(member.rollout, mode).skipped)
