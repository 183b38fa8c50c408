"""Claims about loans: a handle stands for one sandbox, for as long as its lender says, and nothing else does."""

from typing import Any

import pytest

from paddock.sandbox.failures import SandboxError
from paddock.sandbox.loans import borrow, lend
from paddock.sandbox.records import SandboxLimits


def test_a_handle_is_a_secret_that_ends_with_its_loan() -> None:
    provider: Any = object()
    with lend(provider, "one", SandboxLimits()) as handle, lend(provider, "two", SandboxLimits()) as other:
        assert (borrow(handle).sandbox_id, borrow(other).sandbox_id) == ("one", "two")
        assert "one" not in handle
    for guess in (handle, other, "one", ""):
        with pytest.raises(SandboxError, match="another process") as caught:
            borrow(guess)
        assert (caught.value.kind, caught.value.retryable) == ("sandbox_elsewhere", False)
