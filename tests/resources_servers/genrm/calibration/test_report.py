"""Claims about a judge's figures, counted by hand."""

from paddock.resources_servers.genrm.calibration import Preference, PreferenceCheck, calibrate
from paddock.resources_servers.genrm.records import PairComparison


def a_preference(preferred: int | None, strength: int | None = None) -> Preference:
    return Preference(1, [], ({}, {}), preferred, strength)


def said(first: int, score_1: float, score_2: float, ranking: float = 3.5, judge: int = 0) -> PairComparison:
    """`first`: the response that stood first."""
    return PairComparison(
        response_i=first,
        response_j=1 - first,
        judge_idx=judge,
        score_1=score_1,
        score_2=score_2,
        ranking=ranking,
    )


def test_rates_are_those_of_a_count_by_hand() -> None:
    checked = [
        # Both orders prefer response 0, as the label does.
        PreferenceCheck(a_preference(0, 3), [said(0, 4, 2), said(1, 1, 3)]),
        # Each order prefers what stands first, the one for response 1 by more: agrees with the label, is inconsistent.
        PreferenceCheck(a_preference(1, 1), [said(0, 4, 3), said(1, 5, 2)]),
        # Equal scores: the ranking says response 0, then nothing.
        PreferenceCheck(a_preference(1, 1), [said(0, 3, 3, ranking=2), said(1, 3, 3)]),
        # A tie counts in no agreement.
        PreferenceCheck(a_preference(None), [said(0, 2, 4), said(1, 4, 2)]),
        PreferenceCheck(a_preference(0, 3), [], failure="judge_unusable"),
    ]
    found = calibrate(checked)
    assert (found.pairs, found.ties, found.failed) == (5, 1, {"judge_unusable": 1})
    assert found.agreement[:] == (2, 3)
    assert {strength: share[:] for strength, share in found.by_strength.items()} == {1: (1, 2), 3: (1, 1)}
    # First, not, first, first, first, none, not, first.
    assert found.shown_first[:] == (5, 7)
    assert found.abstained[:] == (1, 8)
    # The first and the fourth; the third has no opinion in one order.
    assert found.consistent[:] == (2, 3)


def test_each_judge_is_consistent_with_itself() -> None:
    answers = [said(0, 4, 2), said(1, 2, 4), said(0, 2, 4, judge=1), said(1, 4, 2, judge=1)]
    found = calibrate([PreferenceCheck(a_preference(0), answers)])
    assert found.consistent[:] == (2, 2)
    assert found.agreement[:] == (0, 1), "the two cancel out"


def test_nothing_to_count_is_no_rate() -> None:
    found = calibrate([PreferenceCheck(a_preference(0), [], failure="judge_down")])
    assert found.to_json()["agreement"] == {"share": None, "ci95": None, "hits": 0, "of": 0}
    assert any("none to count" in line for line in found.lines())
