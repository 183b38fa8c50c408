"""The shipped rules on the corpus: no benign command is refused, every direct form is, by the rule that names it."""

from typing import Any

from paddock.sandbox.blocklist import Blocklist, BlocklistSettings

MIN_BENIGN = 250
MIN_DIRECT = 150
MIN_PER_RULE = 8


def test_no_benign_command_is_refused(blocklist: Blocklist, corpus: Any, benign_group: str) -> None:
    refused = {line: refusal for line in corpus.benign[benign_group] if (refusal := blocklist.check(line))}
    assert refused == {}


def test_every_direct_form_is_refused_by_its_rule(blocklist: Blocklist, corpus: Any, rule: str) -> None:
    by = {line: getattr(blocklist.check(line), "rule", None) for line in corpus.direct[rule]}
    assert {line: found for line, found in by.items() if found != rule} == {}


def test_direct_forms_pass_when_all_rules_but_others_are_off(corpus: Any, rule: str) -> None:
    others = {each.name: False for each in BlocklistSettings().active()}
    without = Blocklist(BlocklistSettings(rules=others))
    assert [line for line in corpus.direct[rule] if without.check(line)] == []


def test_what_only_isolation_stops_is_not_claimed(blocklist: Blocklist, corpus: Any, beyond_group: str) -> None:
    assert [line for line in corpus.beyond[beyond_group] if blocklist.check(line)] == []


def test_typed_lines_are_judged_as_lines_for_a_shell(blocklist: Blocklist, corpus: Any) -> None:
    assert [line for line in corpus.typed["benign"] if blocklist.check(line, typed=True)] == []
    assert [line for line in corpus.typed["direct"] if not blocklist.check(line, typed=True)] == []


def test_the_corpus_is_as_large_as_promised_and_covers_every_rule(corpus: Any) -> None:
    benign = {line for lines in corpus.benign.values() for line in lines}
    direct = {line for lines in corpus.direct.values() for line in lines}
    assert len(benign) >= MIN_BENIGN
    assert len(direct) >= MIN_DIRECT
    assert not benign & direct
    assert set(corpus.direct) == {rule.name for rule in BlocklistSettings().active()}
    assert {rule: len(set(lines)) for rule, lines in corpus.direct.items() if len(set(lines)) < MIN_PER_RULE} == {}
