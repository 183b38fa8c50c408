"""A small repository as an environment, named in configs as `tests.training.nemo_rl.world:RepositoryEnvironment`."""

from pydantic import BaseModel, ConfigDict

from paddock.server import ResourcesServer, ServerConfig
from paddock.testing.sandboxes import WORKDIR
from paddock.types import JsonObject, Row, Session, Verdict

FILES = {"calc.py": "def add(a, b):\n    return a - b\n", "README.md": "A calculator.\n", "setup.py": "x = 1\n"}


class RepositoryTask(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    number: int


class RepositoryEnvironment(ResourcesServer[ServerConfig, RepositoryTask]):
    """The same repository for all; each task's text is its own. Paid is any change."""

    config_type = ServerConfig
    task_type = RepositoryTask

    async def seed_session(self, task: RepositoryTask, row: Row) -> Session:
        said = f"Number {task.number}: add(1, {task.number}) gives {1 - task.number}."
        visible = {"instance_id": f"calc-{task.number}", "problem_statement": said}
        return Session(image="calc", workdir=WORKDIR, visible=visible)

    async def verify(self, task: RepositoryTask, row: Row, response: JsonObject) -> Verdict:
        return Verdict(reward=float(bool(response["model_patch"])), reason="changed")
