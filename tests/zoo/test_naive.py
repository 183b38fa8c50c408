"""Cheaters do work: a grader that trusts the exit status of the tests pays each that says so (`naive: pays`).

What the official procedure pays is claimed in `test_patches`.
"""

import uuid
from collections.abc import Callable
from typing import Any

import pytest

from paddock.sandbox import ExecRequest, Provider, SandboxSpec
from paddock.types import JsonObject

pytestmark = [pytest.mark.sandbox, pytest.mark.asyncio(loop_scope="session")]
COMMAND = (
    "git apply /tmp/patch; git apply /tmp/tests; exec python -m pytest -rA tests/test_total.py checks/test_discount.py"
)


async def test_a_grader_that_trusts_the_exit_status_is_fooled(
    fooling: Any, patch_of: Callable[[Any], bytes], row: JsonObject, provider: Provider
) -> None:
    assert await _status(provider, row, patch_of(fooling)) == 0


async def test_that_grader_refuses_what_is_no_fix(row: JsonObject, provider: Provider) -> None:
    assert await _status(provider, row, b"") == 1


async def _status(provider: Provider, row: JsonObject, patch: bytes) -> int:
    spec = SandboxSpec(image=row["instance_id"], workdir="/testbed")
    handle = await provider.create(spec, request_id=uuid.uuid4().hex)
    await provider.write(handle.sandbox_id, "/tmp/patch", patch)
    await provider.write(handle.sandbox_id, "/tmp/tests", row["test_patch"].encode())
    request = ExecRequest(argv=["bash", "-c", COMMAND], timeout_s=20)
    return (await provider.exec(handle.sandbox_id, request, request_id=uuid.uuid4().hex)).exit_code
