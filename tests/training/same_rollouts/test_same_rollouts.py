"""One task, one model, one seed: what each trainer is given is `paddock samples`, and the same as any other's.

Trainers run in environments of their own, which variables name; one that is missing skips its trainer by name. Of
those that are in no package index, PADDOCK_SLIME, PADDOCK_NEMO_RL and PADDOCK_PRIME_RL name checkouts, and with `_PATH`
behind each a folder of what they need besides.
"""

import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.training.same_rollouts import in_nemo_rl, in_slime, in_verifiers
from tests.training.same_rollouts.conftest import SameRun, SameRuns
from tests.training.same_rollouts.task import NUMBERS, SAMPLING, SIZE, VERSION, EndpointSampler, rows
from tests.training.trl.comparison import our_loss

from paddock.rollouts import RolloutOptions, open_rollouts
from paddock.types import JsonObject

pytestmark = [pytest.mark.trainer, pytest.mark.vllm, pytest.mark.sandbox, pytest.mark.timeout(1200)]


class TokenColumns(NamedTuple):
    """A sample, token by token, and its reward."""

    ids: tuple[int, ...]
    loss_mask: tuple[int, ...]
    log_probs: tuple[float, ...]
    reward: float


def columns(samples: list[JsonObject]) -> list[TokenColumns]:
    """In an order that follows from them."""
    return sorted(
        TokenColumns(tuple(one["ids"]), tuple(one["loss_mask"]), tuple(one["log_probs"]), one["reward"])
        for one in samples
    )


def variable(name: str) -> str:
    value = os.environ.get(name)
    if not value:
        pytest.skip(f"{name} is not set")
    return value


def scripted(name: str) -> Callable[[SameRun], list[JsonObject]]:
    """A trainer whose script here writes what it was given."""

    def run(one: SameRun) -> list[JsonObject]:
        one.python(variable(f"PADDOCK_{name.upper()}_PYTHON"), f"tests.training.same_rollouts.in_{name}", one.folder)
        samples: list[JsonObject] = one.given["samples"]
        return samples

    return run


TRAINERS: dict[str, Callable[[SameRun], list[JsonObject]]] = {
    "verl": scripted("verl"),
    "skyrl": scripted("skyrl"),
    "trl": scripted("trl"),
    "verifiers": lambda run: in_verifiers.given_samples(run, variable("PADDOCK_VERIFIERS_PYTHON")),
    "nemo_rl": lambda run: in_nemo_rl.given_samples(run, variable("PADDOCK_VLLM_PYTHON")),
    "slime": lambda run: in_slime.given_samples(run, variable("PADDOCK_VLLM_PYTHON"), variable("PADDOCK_SLIME")),
}
VERSIONS: dict[str, set[object]] = {"verl": {VERSION}, "slime": {str(VERSION)}}
"""What the trainers are given of a sample's weights, where their engines name them."""
LIBRARIES = {"nemo_rl": "PADDOCK_VERL_PYTHON", "slime": "PADDOCK_VLLM_PYTHON", "prime_rl": "PADDOCK_VLLM_PYTHON"}
"""Checkouts, and the interpreters whose packages they agree with."""
SOURCES = {"prime_rl": ("src", "packages/prime-rl-configs/src")}
"""Folders of packages in a checkout, where it is not the checkout itself."""
OTHER_FORMULAS: dict[str, set[str]] = {
    "verl": {"geo_mean", "clip_cov", "kl_cov"},
    "skyrl": {"rollout_is clipped"},
    "nemo_rl": set(),
    "slime": {"cispo"},
    "prime_rl": {"default", "ipo"},
}
"""Losses that none of ours equals."""


@pytest.fixture(scope="session")
def reference(same_runs: SameRuns) -> list[JsonObject]:
    """The samples of the task as a notebook has them."""
    run = same_runs.open("notebook")
    options = RolloutOptions(out=run.task.out, sample_mode="branch")
    with open_rollouts(
        run.task.config, engine=EndpointSampler(run.task.url), engine_settings=run.task.engine, options=options
    ) as client:
        groups = list(client.groups(rows(), SIZE))
    given = [
        {**entry.sample.model_dump(), "reward": member.reward}
        for group in groups
        for member in group.members
        for entry in member.samples
    ]
    stored = run.stored()
    assert columns(given) == columns(stored)
    require_sampling(run)
    return [{**line, "row": NUMBERS[line["_ng_task_index"]]} for line in stored]


class TrainerRun(NamedTuple):
    """A trainer's run that has ended."""

    name: str
    run: SameRun
    samples: list[JsonObject]
    """What it was given."""


@pytest.fixture(scope="module", params=TRAINERS)
def trained(request: pytest.FixtureRequest, same_runs: SameRuns) -> TrainerRun:
    run = same_runs.open(request.param)
    return TrainerRun(request.param, run, TRAINERS[request.param](run))


def require_sampling(run: SameRun) -> None:
    """Each call of the run sampled as the rows say."""
    asked = [{name: call.get(name) for name in SAMPLING} for call in run.engine.calls]
    assert asked == [SAMPLING] * len(asked)


def test_the_task_has_several_turns_and_something_to_compare(reference: list[JsonObject]) -> None:
    turns = [sum(span["trained"] for span in line["spans"]) for line in reference]
    assert len(reference) >= len(NUMBERS) * SIZE
    assert sum(number >= 3 for number in turns) >= len(reference) / 2
    for number in NUMBERS:
        assert len({line["reward"] for line in reference if line["row"] == number}) > 1
    assert len({tuple(line["ids"]) for line in reference}) > len(NUMBERS)


def test_a_trainer_is_given_what_paddock_samples_writes_and_what_every_other_is_given(
    trained: TrainerRun, reference: list[JsonObject]
) -> None:
    """Ids, masks, log-probs and rewards, element by element. TRL goes on to further rollouts while it trains."""
    given, stored = Counter(columns(trained.samples)), Counter(columns(trained.run.stored()))
    assert given == Counter(columns(reference))
    assert given <= stored if trained.name == "trl" else given == stored
    require_sampling(trained.run)


def test_versions_are_those_of_the_engines(trained: TrainerRun) -> None:
    if trained.name == "trl":
        stored = {
            (tuple(line["ids"]), span["weight_version"])
            for line in trained.run.stored()
            for span in line["spans"]
            if span["trained"]
        }
        for sample in trained.samples:
            assert {(tuple(sample["ids"]), str(version)) for version in sample["versions"]} <= stored
    elif trained.name in VERSIONS:
        assert {value for sample in trained.samples for value in sample["versions"]} == VERSIONS[trained.name]
    else:
        assert not any("versions" in sample for sample in trained.samples)


def test_a_trainers_losses_are_ours_where_the_page_says_so(trained: TrainerRun) -> None:
    if trained.name == "trl":
        loss = trained.run.given["loss"]
        assert loss["loss"] == pytest.approx(our_loss(loss, loss["epsilon"]), abs=1e-5)
        assert loss["log_probs"] == pytest.approx(loss["engine"], abs=1e-4), "TRL's policy has the engine's weights"
    elif trained.name in ("verl", "skyrl"):
        require_losses(trained.name, trained.run.given["losses"])
    else:
        pytest.skip("its loss runs from a checkout: see below, or there is none")


@pytest.mark.parametrize("library", LIBRARIES)
def test_losses_of_checkouts_are_ours_where_the_page_says_so(
    library: str, same_runs: SameRuns, reference: list[JsonObject]
) -> None:
    interpreter, checkout = variable(LIBRARIES[library]), variable(f"PADDOCK_{library.upper()}")
    run = same_runs.open(f"losses-{library}")
    run.write(reference)
    sources = [str(Path(checkout, source)) for source in SOURCES.get(library, ("",))]
    needed = os.environ.get(f"PADDOCK_{library.upper()}_PATH", checkout)
    run.python(interpreter, "tests.training.same_rollouts.losses", library, run.folder, *sources, needed)
    require_losses(library, run.read("losses.json"))


def require_losses(library: str, losses: dict[str, JsonObject]) -> None:
    assert OTHER_FORMULAS[library] < losses.keys()
    for name, found in losses.items():
        assert abs(found["ours"]) > 1e-4, "a loss of nothing would be anything's"
        if name in OTHER_FORMULAS[library]:
            assert found["gradient"] > 0.01, name
        else:
            assert found["theirs"] == pytest.approx(found["ours"], abs=1e-5), name
            assert found["gradient"] < 1e-5, name
