"""What a config may say: rules on and off, rules of its own, how long a match may take; and what the model is told."""

import time

import pytest
from pydantic import ValidationError

from paddock.sandbox.blocklist import Blocklist, BlocklistSettings, Form, ProgramProfile, Rule

SUDO = Rule(name="no_sudo", category="house", advice="You are root.", forms=[Form(program="sudo")])


def test_a_refusal_names_the_rule_the_command_and_what_to_do_instead() -> None:
    refusal = Blocklist().check('cd src && p\\kill -f "a  b"')
    assert refusal is not None
    assert (refusal.rule, refusal.category, refusal.matched) == ("kill_by_name", "processes", "pkill -f a b")
    assert refusal.message.startswith(
        "Not run: `pkill -f a b` is refused here (rule kill_by_name, processes). Stop only"
    )
    assert refusal.message.endswith("Nothing of the line was executed.")


def test_a_long_command_is_cut_in_the_message() -> None:
    refusal = Blocklist().check("pkill " + "x " * 500)
    assert refusal is not None
    assert len(refusal.matched) < 200


def test_the_first_command_of_the_line_that_is_refused_decides() -> None:
    refusal = Blocklist().check("ls; reboot; pkill x")
    assert refusal is not None
    assert refusal.rule == "power"


def test_a_rule_that_is_off_refuses_nothing() -> None:
    some = Blocklist(BlocklistSettings(rules={"kill_by_name": False}))
    assert some.check("pkill x") is None
    assert some.check("reboot") is not None
    assert Blocklist(BlocklistSettings(enabled=False)).check("pkill x; reboot") is None


def test_an_extra_rule_refuses_beside_the_shipped_ones() -> None:
    more = Blocklist(BlocklistSettings(extra=[SUDO]))
    refusal = more.check("timeout 5 sudo ls")
    assert refusal is not None
    assert refusal.rule == "no_sudo"
    assert more.check("pkill x") is not None
    assert more.check("grep sudo x") is None
    assert Blocklist(BlocklistSettings(extra=[SUDO], rules={"no_sudo": False})).check("sudo ls") is None


def test_an_extra_profile_tells_options_from_operands() -> None:
    rule = Rule(
        name="deploy", category="house", advice="No.", forms=[Form(program="acme", subcommand="deploy", operand="prod")]
    )
    profile = ProgramProfile(programs="acme", subcommand=True, subcommand_value_options={"deploy": "--region"})
    block = Blocklist(BlocklistSettings(extra=[rule], profiles=[profile]))
    assert block.check("acme deploy prod") is not None
    assert block.check("acme deploy --region prod test") is None


def test_an_unknown_rule_name_is_an_error_that_names_the_nearest() -> None:
    with pytest.raises(ValidationError, match=r"no rule is named 'kill_by_names'; the nearest is 'kill_by_name'"):
        BlocklistSettings(rules={"kill_by_names": False})


def test_an_extra_rule_may_not_take_the_name_of_another() -> None:
    with pytest.raises(ValidationError, match="two rules are named 'power'"):
        BlocklistSettings(extra=[SUDO.model_copy(update={"name": "power"})])


@pytest.mark.parametrize("form", [{"program": "("}, {"option": "-x"}, {"programme": "x"}, {}])
def test_a_form_that_says_nothing_or_no_pattern_is_an_error(form: dict[str, str]) -> None:
    with pytest.raises(ValidationError):
        Form.model_validate(form)


def test_a_match_that_runs_out_of_time_passes_once_and_is_counted() -> None:
    slow = Rule(
        name="slow", category="house", advice="No.", forms=[Form(program="echo", operand=r"(?:a|a)*b|(?:a|b|ab)*c")]
    )
    block = Blocklist(BlocklistSettings(extra=[slow], timeout_s=0.02))
    started = time.process_time()
    assert block.check(f"echo {'a' * 60} {'ab' * 40}; " * 20) is None
    assert time.process_time() - started < 1.0
    assert block.timeouts["slow"] == 1
    refusal = block.check(f"echo {'ab' * 40}; pkill x")
    assert refusal is not None
    assert refusal.rule == "kill_by_name"
