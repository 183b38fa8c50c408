"""Claims about owners: who is to blame for what, on both sides of the wire."""

import asyncio
from pathlib import Path

import pytest

from paddock.errors import (
    BugError,
    ConfigError,
    InfraError,
    PaddockError,
    RequestError,
    RowError,
    VerifierError,
    boundary,
    from_wire,
)

OWNED = [cls for cls in PaddockError.__subclasses__() if cls.__module__ == "paddock.errors" and cls is not ConfigError]
PAGE = Path(__file__).parents[1] / "docs" / "errors.md"


@pytest.mark.parametrize("cls", OWNED)
def test_an_error_comes_back_from_the_wire_as_itself(cls: type[PaddockError]) -> None:
    sent = cls("what was wrong", kind="some_kind", stage="verify", retryable=True)
    back = from_wire(sent.status, sent.to_wire())
    assert type(back) is cls
    assert back.failure() == sent.failure()


@pytest.mark.parametrize("cls", OWNED)
def test_an_error_of_a_status_of_another_keeps_its_owner(cls: type[PaddockError]) -> None:
    sent = cls("what was wrong", kind="some_kind")
    assert from_wire(418, sent.to_wire()).failure() == sent.failure()


@pytest.mark.parametrize("cls", OWNED)
def test_the_page_of_errors_has_each_with_its_owner_status_and_outcome(cls: type[PaddockError]) -> None:
    assert f"| `{cls.__name__}` | {cls.owner} | {cls.status} | `{cls.outcome}` |" in PAGE.read_text()


@pytest.mark.parametrize(
    ("status", "cls", "retryable"),
    [
        (500, InfraError, True),
        (503, InfraError, True),
        (429, InfraError, True),
        (422, RowError, False),
        (404, RequestError, False),
    ],
)
def test_an_answer_of_another_make_is_judged_by_its_status(status: int, cls: type, retryable: bool) -> None:
    error = from_wire(status, {"detail": "Not ours"})
    assert type(error) is cls
    assert error.retryable is retryable
    assert "Not ours" in error.message


def test_a_peer_cannot_name_a_class_of_its_own() -> None:
    assert type(from_wire(500, {"error": {"owner": "os.system", "message": "x"}})) is InfraError


def test_a_plain_error_gets_the_owner_of_the_boundary_it_crosses() -> None:
    with (
        pytest.raises(VerifierError, match="judge: KeyError: 'x'") as caught,
        boundary(VerifierError, "judge", stage="verify"),
    ):
        raise KeyError("x")
    assert (caught.value.kind, caught.value.stage) == ("KeyError", "verify")


def test_an_owned_error_keeps_its_owner_and_learns_its_stage() -> None:
    with pytest.raises(RowError) as caught, boundary(VerifierError, "judge", stage="verify"):
        raise RowError("bad key")
    assert caught.value.stage == "verify"


def test_cancellation_is_no_error_and_passes() -> None:
    with pytest.raises(asyncio.CancelledError), boundary(BugError, "work"):
        raise asyncio.CancelledError
