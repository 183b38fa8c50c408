"""GenRM: a generative judge compares the responses of a group in pairs, and each is rewarded by what it says.

Source  NeMo-Gym's `genrm_compare`, whose rows, names and rules of scoring it takes.
Group   the rollouts of one row. `/verify` answers when the group's comparisons are all there, or when it can't be
        judged: each caller waits for the others, so all of a group have to be in flight together.
Steps   `/score_step` judges single steps of other agents' rollouts (`steps`), and has nothing to do with groups.
Row     the conversation in `responses_create_params`; `principle` and `prompt_id` where the row has them.
Reward  that of the configured aggregation (about 1 to 5), as named parts; what it follows from is in the verdict.
Errors  what a judge fails to say is VerifierError (`judging`, `groups`): masked or retried, never a score.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict

from paddock.errors import BugError, ConfigError, RowError, VerifierError, boundary
from paddock.http import SCORE_STEP, AggregateMetrics, Call, Peer, Route, StepRequest, StepScore, VerifyRequest
from paddock.resources_servers.genrm.compare import COMPARE, CompareReply, CompareRequest, compare_responses
from paddock.resources_servers.genrm.config import GenrmConfig
from paddock.resources_servers.genrm.groups.active_groups import ActiveGroups
from paddock.resources_servers.genrm.groups.keys import candidate_of, judging_of, slot_of, submission_of
from paddock.resources_servers.genrm.groups.records import GroupSlot
from paddock.resources_servers.genrm.groups.store import GroupStore
from paddock.resources_servers.genrm.judging.conversation import history
from paddock.resources_servers.genrm.judging.judges import GroupPrompt, Judges
from paddock.resources_servers.genrm.quality import pooled
from paddock.resources_servers.genrm.scoring.traits import traits_of
from paddock.resources_servers.genrm.steps import StepScorer
from paddock.resources_servers.genrm.verdicts import qualities, rescore, single_verdict
from paddock.sandbox.settings import default_home
from paddock.server import Handler, ModelServer, ResourcesServer, Server
from paddock.types import JsonObject, Row, Verdict
from paddock.types.responses import message_item


class GenrmTask(BaseModel):
    """What of a row the judging reads; every other key is kept and not read."""

    model_config = ConfigDict(frozen=True)

    principle: str | None = None
    """What the judge is to go by; None: the config's `default_principle`."""
    prompt_id: str | int | None = None
    """Names the group of a row that has no index."""
    answers: tuple[str, ...] = ()
    """Responses to play where no policy is asked (`--oracle`), one per member, then again from the first."""


class GenrmServer(ResourcesServer[GenrmConfig, GenrmTask]):
    GROUP_WISE: ClassVar[bool] = True
    config_type = GenrmConfig
    task_type = GenrmTask
    example: ClassVar[JsonObject] = {
        "responses_create_params": {"input": "Name a prime number."},
        "_paddock_group_size": 1,
        "_ng_rollout_index": 0,
        "response": {
            "output": [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Seven."}]}]
        },
    }

    @classmethod
    def check_references(cls, config: GenrmConfig, classes: Mapping[str, type[Server[Any]]]) -> None:
        for judge in config.judges:
            server = classes[judge.name]
            if not (config.judges_read_metadata or (issubclass(server, ModelServer) and server.COMPARES)):
                raise ConfigError(
                    f"genrm_model_server: `{judge.name}` ({server.__name__}) does not show its model the responses "
                    "of a comparison: put a `models_servers: genrm` block in front of its endpoint (`base_url`, "
                    "`model`; `prompt_form: plain` for any chat model) and name that. Where it passes requests on to a "
                    "GenRM server elsewhere, with their metadata: judges_read_metadata: true",
                    kind="no_judge",
                )

    def __init__(self, config: GenrmConfig, *, name: str, peers: Mapping[str, Peer]) -> None:
        super().__init__(config, name=name, peers=peers)
        self._judges = Judges(config, peers)
        self._steps = StepScorer(config.step_score, lambda: [peers[judge.name] for judge in config.judges])
        self._judging = judging_of(config)
        self._groups: ActiveGroups | None = None

    @property
    def state_dir(self) -> Path:
        return self.config.state_dir or default_home() / "genrm" / quote(self.name, safe="")

    async def start(self) -> None:
        self._groups = ActiveGroups(self.config, GroupStore(self.state_dir), self._judges)

    async def stop(self) -> None:
        if self._groups is not None:
            await self._groups.close()
            self._groups = None

    def handlers(self) -> Mapping[Route[Any, Any], Handler]:
        return {**super().handlers(), COMPARE: self._compare, SCORE_STEP: self._score_step}

    async def verify(self, task: GenrmTask, row: Row, response: JsonObject) -> Verdict:
        """Judge a response as a request of its own: a row without a member number gets another one."""
        return await self._judge(task, row, response, Call().request_id)

    async def _verify(self, request: VerifyRequest, call: Call) -> Verdict:
        task = self.read_task(request.row)
        with boundary(VerifierError, f"{self.name}: verify", stage="verify"):
            return await self._judge(task, request.row, request.response, call.request_id)

    async def _judge(self, task: GenrmTask, row: Row, response: JsonObject, request_id: str) -> Verdict:
        prompt = self._prompt_of(task, row)
        slot = self._slot(task, row, prompt)
        if slot.size == 1:
            return single_verdict(traits_of(response), self.config)
        submission = submission_of(row.stamp, response, request_id)
        result, member = await self._active_groups.judge_submission(slot, submission, prompt)
        return result.verdict(member)

    async def withdraw(self, task: GenrmTask, row: Row) -> None:
        slot = self._slot(task, row, self._prompt_of(task, row))
        if slot.size > 1 and slot.member is not None:
            self._active_groups.withdraw(slot, row.stamp.attempt or 0)

    async def reverify(self, task: GenrmTask, row: Row, response: JsonObject, verdict: Verdict) -> Verdict:
        """Score again by the comparisons that the verdict holds; no judge is asked."""
        return rescore(verdict, traits_of(response), self.config)

    def oracle(self, task: GenrmTask, row: Row) -> Sequence[Sequence[JsonObject]]:
        """Return the row's known answer for this member: none of them is right or wrong, but they differ."""
        if not task.answers:
            raise RowError("answers: missing; needs a list of texts to play in place of a policy", kind="no_answers")
        return [[message_item(task.answers[(row.stamp.member or 0) % len(task.answers)])]]

    def aggregate_metrics(self, verify_responses: Sequence[JsonObject]) -> AggregateMetrics:
        """Add the quality of the judges over all groups: each comparison counts once."""
        metrics = super().aggregate_metrics(verify_responses)
        judges = pooled(qualities(verify_responses))
        return metrics.model_copy(update={"agent_metrics": {**metrics.agent_metrics, **judges}})

    @property
    def _active_groups(self) -> ActiveGroups:
        if self._groups is None:
            raise BugError(f"{self.name}: was not started", kind="not_started")
        return self._groups

    def _slot(self, task: GenrmTask, row: Row, prompt: GroupPrompt) -> GroupSlot:
        return slot_of(self.config, row.stamp, task.prompt_id, prompt, judging=self._judging)

    def _prompt_of(self, task: GenrmTask, row: Row) -> GroupPrompt:
        return self._prompt(history(row.responses_create_params), task.principle)

    def _prompt(self, conversation: list[JsonObject], principle: str | None) -> GroupPrompt:
        text = (principle or self.config.default_principle) if self.config.use_principle else None
        return GroupPrompt(conversation, text)

    async def _score_step(self, request: StepRequest, call: Call) -> StepScore:
        with boundary(VerifierError, f"{self.name}: score_step"):
            return await self._steps.score(request, call)

    async def _compare(self, request: CompareRequest, call: Call) -> CompareReply:
        with boundary(VerifierError, f"{self.name}: compare", stage="verify"):
            prompt = self._prompt(history({"input": request.conversation_history}), request.principle)
            candidates = [candidate_of(response) for response in request.response_objs]
            return await compare_responses(self.config, self._judges, prompt, candidates)
