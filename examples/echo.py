"""A whole resources server: the policy is asked to say one text.

paddock serve examples.echo:EchoServer
paddock check resources_server:examples.echo:EchoServer --rows rows.jsonl
"""

from pydantic import BaseModel

from paddock.server import ResourcesServer, ServerConfig
from paddock.types import JsonObject, Row, Verdict
from paddock.types.responses import message_item, messages

__all__ = ["EchoServer"]


class EchoTask(BaseModel):
    """What a row of this environment has beside the framework's keys; one that has not ends as outcome `row`."""

    answer: str


class EchoServer(ResourcesServer[ServerConfig, EchoTask]):
    task_type = EchoTask

    async def verify(self, task: EchoTask, row: Row, response: JsonObject) -> Verdict:
        """Whatever this raises is the verifier's failure, never a 0."""
        right = messages(response) == [task.answer]
        return Verdict(reward=float(right), reason="match" if right else "other_answer")

    def oracle(self, task: EchoTask, row: Row) -> list[list[JsonObject]]:
        """What a right policy would do, for `--oracle`."""
        return [[message_item(task.answer)]]
