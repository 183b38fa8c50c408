"""Runs in the project's own template and small vocabulary."""

from collections.abc import Callable, Sequence

import pytest

from paddock.lab.fidelity import BenchServer, Combination, Language, Subject, language, report, scenarios


@pytest.fixture(scope="session")
def thinking() -> Language:
    return language("thinking")


@pytest.fixture(scope="session")
def made() -> Callable[[str], Language]:
    """A template by its name."""
    there: dict[str, Language] = {}

    def get(name: str) -> Language:
        if name not in there:
            there[name] = language(name)
        return there[name]

    return get


Tried = Callable[..., "Combination"]


@pytest.fixture
def tried(thinking: Language) -> Tried:
    """One subject through scenarios."""

    async def get(
        subject: Subject,
        names: Sequence[str] = (),
        *,
        over: Language | None = None,
        server_type: type[BenchServer] = BenchServer,
    ) -> Combination:
        found = await report([subject], [over or thinking], scenarios(names), server_type=server_type)
        return found.combinations[0]

    return get  # type: ignore[return-value]
