"""Calls to the roles of a run, which live in processes of their own and die with them.

Errors  a PaddockError is raised by the role itself, and says whether to try again. Any other error means that the role
        is gone: InfraError `role_failed`, not retryable.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from paddock.errors import InfraError, PaddockError


@contextmanager
def role_call(role: str, stage: str) -> Iterator[None]:
    """Turns errors of a call into PaddockErrors. `role`: its name in messages."""
    try:
        yield
    except PaddockError as error:
        error.stage = error.stage or stage
        raise
    except Exception as error:
        text = f"{role} failed in {stage}: {type(error).__name__}: {error}"
        raise InfraError(text, kind="role_failed", stage=stage, retryable=False) from error
