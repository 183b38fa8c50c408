"""A world for `my_harness`: one bug, a patch that is graded by what it adds, and the known fix."""

from pydantic import BaseModel, ConfigDict

from paddock.server import ResourcesServer, ServerConfig
from paddock.types import Fix, JsonObject, Row, Session, Verdict

__all__ = ["MyWorld"]

WORKDIR = "/testbed"
BEFORE = "def add(a, b):\n    return a - b\n"


class MyTask(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    image: str
    patch: str


class MyWorld(ResourcesServer[ServerConfig, MyTask]):
    task_type = MyTask

    async def seed_session(self, task: MyTask, row: Row) -> Session:
        visible = {"instance_id": "calc-1", "problem_statement": "add(1, 2) gives -1."}
        return Session(image=task.image, workdir=WORKDIR, visible=visible)

    async def verify(self, task: MyTask, row: Row, response: JsonObject) -> Verdict:
        solved = "+    return a + b" in response["model_patch"]
        return Verdict(reward=float(solved), reason="resolved" if solved else "tests_fail")

    async def fix(self, task: MyTask, row: Row) -> Fix:
        return Fix(
            patch=task.patch.encode(), workdir=WORKDIR, files={"calc.py": BEFORE}, test_command="python3 calc.py"
        )
