"""The labelled corpus: what has to pass, what each rule has to refuse, and what only isolation stops.

Shapes  `benign.yaml` by subject and `direct.yaml` by rule hold `lines` (one command each) and `texts`; `typed.yaml` and
        `beyond.yaml` are lists. A test that takes `benign_group`, `rule` or `beyond_group` runs once for each.
"""

from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from paddock.sandbox.blocklist import Blocklist

Groups = dict[str, list[str]]


class Corpus(NamedTuple):
    benign: Groups
    direct: Groups
    typed: Groups
    beyond: Groups

    def __repr__(self) -> str:
        return "Corpus(...)"


def _groups(name: str) -> Groups:
    read = yaml.safe_load(Path(__file__).with_name(f"{name}.yaml").read_text("utf-8"))
    return {
        group: held if isinstance(held, list) else [*held["lines"].splitlines(), *held.get("texts", [])]
        for group, held in read.items()
    }


_CORPUS = Corpus(*map(_groups, Corpus._fields))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    for name, groups in (
        ("benign_group", _CORPUS.benign),
        ("rule", _CORPUS.direct),
        ("beyond_group", _CORPUS.beyond),
    ):
        if name in metafunc.fixturenames:
            metafunc.parametrize(name, list(groups))


@pytest.fixture(scope="session")
def corpus() -> Corpus:
    return _CORPUS


@pytest.fixture(scope="session")
def blocklist() -> Blocklist:
    return Blocklist()
