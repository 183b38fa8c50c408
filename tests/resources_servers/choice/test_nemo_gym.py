"""Claims about the rule `nemo_gym`: its rewards are those of NeMo-Gym's `mcqa`; `committed` differs as documented."""

import random
from collections.abc import Iterator

import pytest
from tests.support.gym_rewards import body, interpreter, their_rewards

from paddock.http import read_row
from paddock.resources_servers.choice.letters import read_choice
from paddock.resources_servers.choice.make_rows import make_rows
from paddock.resources_servers.choice.server import ChoiceConfig, ChoiceServer
from paddock.types import JsonObject

pytestmark = pytest.mark.slow

SERVER = "resources_servers.mcqa.app:MCQAResourcesServer"
MODES = ("strict_single_letter_boxed", "lenient_boxed", "lenient_answer_colon")
FORMS = (
    *("\\boxed{%s}", "\\boxed{ (%s) }", "\\boxed{\\text{%s}}", "\\boxed{the %s}", "Answer: %s", "answer : \\text{%s}"),
    *("**Answer:** %s", "The answer is %s", "<choice>%s</choice>", "<choice> %s\n</choice>", "%s", "((%s))", ""),
)
PATTERNS = (r"<choice>\s*([A-Z])\s*</choice>", r"<choice>(.*?)</choice>", r"answer is (\w+)", r"\(\((.*?)\)\)", "([")


def cases(count: int) -> Iterator[tuple[JsonObject, str]]:
    """Rows and texts: one or two answers of any form, right and wrong ones, letters and texts."""
    chance = random.Random(7)
    for line in make_rows(count, 3):
        options = {letter: text for option in line["options"] for letter, text in option.items()}
        line.pop("template_metadata", None)
        line["grading_mode"] = chance.choice(MODES)
        if chance.random() < 0.4:
            patterns = chance.sample(PATTERNS[:-1], 2)
            line["template_metadata"] = {"output_regex": chance.choice([patterns, patterns[0]])}
        said = []
        for _ in range(chance.choice((1, 1, 1, 2, 3))):
            letter = line["expected_answer"] if chance.random() < 0.6 else chance.choice([*options, "Z", "b"])
            answer = options.get(letter, letter) if chance.random() < 0.3 else letter
            form = chance.choice(FORMS)
            said.append(form % answer if form else "")
        yield line, "Let me see.\n" + "\n".join(said)


async def test_the_rewards_are_those_of_mcqa() -> None:
    python = interpreter("PADDOCK_NEMO_GYM_PYTHON", "nemo-gym 0.4.0")
    made = list(cases(1500))
    theirs = await their_rewards(python, SERVER, [body(line, text) for line, text in made])
    servers = {
        reading: ChoiceServer(ChoiceConfig(reading=reading), name="choice", peers={})
        for reading in ("nemo_gym", "committed")
    }
    ours: dict[str, list[float]] = {reading: [] for reading in servers}
    for line, text in made:
        for reading, server in servers.items():
            task = server.read_task(read_row(line))
            ours[reading].append(float(read_choice(text.strip(), task, server.config.reading).letter == task.right))
    assert ours["nemo_gym"] == theirs
    assert 300 < sum(ours["nemo_gym"]) < 1200
    # Not paid by `committed`: several options. Paid by it alone: a wrapped letter, or a first place that names none.
    differ = [index for index, pair in enumerate(zip(ours["committed"], theirs, strict=True)) if pair[0] != pair[1]]
    assert differ
    for index in differ:
        line, text = made[index]
        assert text.count("\n") > 1 or "\\text" in text, text
