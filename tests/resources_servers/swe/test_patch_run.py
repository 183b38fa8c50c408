"""Claims about one run of a patch where files of ours can't be written."""

import errno
import os
from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest

from paddock.resources_servers.swe.grading.guard import Guard
from paddock.resources_servers.swe.grading.patch_run import run_patch
from paddock.resources_servers.swe.grading.reference import ReferenceFile, ReferenceTests
from paddock.resources_servers.swe.grading.sandbox import GradingSandbox
from paddock.resources_servers.swe.instance import SweInstance


class ReadOnlySandbox:
    """A sandbox that answers everything, and whose files can't be written."""

    workdir = "/testbed"

    def __init__(self, number: int) -> None:
        self._number = number

    def below(self, path: str) -> str:
        return f"{self.workdir}/{path}"

    async def changes(self) -> list[Any]:
        return []

    async def remove(self, paths: Sequence[str]) -> None: ...

    async def write(self, path: str, data: bytes, mode: int | None = None) -> None:
        raise OSError(self._number, os.strerror(self._number))


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENOMEM, errno.EAGAIN])
async def test_what_this_process_lacks_is_never_the_patchs_doing(make: Callable[..., SweInstance], number: int) -> None:
    reference = ReferenceTests({"tests/test_a.py": ReferenceFile(b"", None)}, {}, Guard(["tests/test_a.py"]))
    with pytest.raises(OSError, match=os.strerror(number)):
        await run_patch(
            cast(GradingSandbox, ReadOnlySandbox(number)), make(), reference, b"", timeout_s=1, sentinel=False
        )
    patch_run = await run_patch(
        cast(GradingSandbox, ReadOnlySandbox(errno.ENOTDIR)), make(), reference, b"", timeout_s=1, sentinel=False
    )
    assert patch_run.run is not None
    assert patch_run.run.exit_code == 137
