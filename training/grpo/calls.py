"""Calls to the roles of a run, which live in processes of their own and die with them.

Errors  a PaddockError is the role's own word, and says whether to try again. Anything else means that there is nobody
        to ask any more: InfraError `role_failed`, not retryable.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from paddock.errors import InfraError, PaddockError


@contextmanager
def role_call(role: str, stage: str) -> Iterator[None]:
    """`role`: as a message names it."""
    try:
        yield
    except PaddockError as error:
        error.stage = error.stage or stage
        raise
    except Exception as error:
        text = f"{role} failed in {stage}: {type(error).__name__}: {error}"
        raise InfraError(text, kind="role_failed", stage=stage, retryable=False) from error
