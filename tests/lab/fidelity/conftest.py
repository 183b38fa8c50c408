"""Runs in the project's own template and small vocabulary."""

from collections.abc import Callable, Sequence

import pytest

from paddock.lab.fidelity import BenchServer, Combination, FidelitySubject, Language, find_scenarios, language, report


@pytest.fixture(scope="session")
def thinking() -> Language:
    return language("thinking")


@pytest.fixture(scope="session")
def template_language() -> Callable[[str], Language]:
    """A template by its name."""
    languages: dict[str, Language] = {}

    def get(name: str) -> Language:
        if name not in languages:
            languages[name] = language(name)
        return languages[name]

    return get


RunSubject = Callable[..., "Combination"]


@pytest.fixture
def run_subject(thinking: Language) -> RunSubject:
    """One subject through scenarios."""

    async def get(
        subject: FidelitySubject,
        names: Sequence[str] = (),
        *,
        over: Language | None = None,
        server_type: type[BenchServer] = BenchServer,
    ) -> Combination:
        found = await report([subject], [over or thinking], find_scenarios(names), server_type=server_type)
        return found.combinations[0]

    return get  # type: ignore[return-value]
