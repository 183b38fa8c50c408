"""An agent whose attempts end as its row says, in doubt among them."""

from paddock.errors import InfraError
from paddock.http import VERIFY, Call, ModelReply, VerifyRequest
from paddock.server import AgentConfig, AgentServer
from paddock.server.rollout import RolloutRun
from paddock.types import JsonObject, Rollout, Row
from paddock.types.responses import make_response, message_item


class DoubtfulAgent(AgentServer[AgentConfig]):
    """The row's `plan` has a word for each attempt: `doubt`, `infra` or `ok`; the last holds for all after it."""

    config_type = AgentConfig

    async def run(self, row: Row, call: Call) -> Rollout:
        return await RolloutRun(row, call, self.model, timeout_s=60).execute(self._run_stages)

    async def responses(self, body: JsonObject, call: Call) -> ModelReply:
        raise NotImplementedError

    async def _run_stages(self, run: RolloutRun) -> None:
        plan, attempt = run.row.task["plan"], run.row.stamp.attempt or 0
        word = plan[min(attempt, len(plan) - 1)]
        knows = run.row.task.get("knows", True)
        answer = "yes"
        with run.stage("model"):
            if word == "infra":
                raise InfraError("the machine's", kind="scripted")
            if word == "doubt":
                if not (knows and run.row.stamp.doubts):
                    raise InfraError("whose?", kind="scripted", doubtful=True)
                answer = "no"
            run.response = make_response([message_item(answer)], run.row.responses_create_params, model="none")
        with run.stage("verify"):
            run.verdict = await self.resources.call(VERIFY, VerifyRequest(row=run.row, response=run.response), run.call)
