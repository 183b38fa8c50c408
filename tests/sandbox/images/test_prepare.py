"""The image that an agent gets is made once, whoever asks for it meanwhile, in whichever event loop."""

import asyncio
from types import SimpleNamespace
from typing import Any

from paddock.sandbox import ExecResult, Output
from paddock.sandbox.images.prepare import prepare_image


class Scrubbing:
    """A provider over one image, whose commands take a moment and find nothing."""

    def __init__(self) -> None:
        self.made: list[str] = []
        self.store: Any = self

    def get(self, image: str) -> Any:
        return SimpleNamespace(record=SimpleNamespace(layers=[image]))

    def has(self, name: str) -> bool:
        return name in self.made

    async def create(self, spec: Any, *, request_id: str) -> Any:
        return SimpleNamespace(sandbox_id="one")

    async def exec(self, sandbox_id: str, request: Any, *, request_id: str) -> ExecResult:
        await asyncio.sleep(0.01)
        return ExecResult(exit_code=0, stdout=Output(), stderr=Output(), duration_s=0.01)

    async def snapshot(self, sandbox_id: str, name: str) -> str:
        self.made.append(name)
        return name

    async def destroy(self, sandbox_id: str) -> None:
        return


def test_it_is_made_once_for_all_that_wait_for_it_in_each_run_of_a_process() -> None:
    async def run() -> tuple[set[str], list[str]]:
        provider: Any = Scrubbing()
        names = await asyncio.gather(*(prepare_image(provider, "image", "/testbed") for _ in range(3)))
        return set(names), provider.made

    for _ in range(3):
        names, made = asyncio.run(run())
        assert names == set(made)
        assert len(made) == 1
