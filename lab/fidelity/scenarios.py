"""What happens in a run: a policy's turns, and what the client and the network do about them.

Law     a scenario is data, the same for every harness and template. After its turns the policy ends the run. In what a
        policy writes, a call is written for the tools that the harness shows.
Shapes  `branches`: how many conversations the client itself starts beside the first one (a title, a compaction); a
        record that has so many branches more has lost nothing.
"""

from typing import Literal, NamedTuple

Spelling = Literal["plain", "spaced", "compact", "escaped", "twice", "broken"]
"""How a call's arguments are written. `twice`: a key comes twice; `broken`: no JSON."""
What = Literal["shell", "patch", "unknown"]
"""`patch`: a custom tool, or shell where there is none; `unknown`: of a tool that there is not."""
Beside = Literal["title", "forget"]
"""`title`: a request without tools comes first, each time in the same words; `forget`: the client drops or sums up its
older steps first."""

SYSTEM = "You are a coding agent. The files are in /testbed."
PROMPT = "add(1, 2) gives -1.\n\nPlease fix `calc.py`.\n"
WORDS = "Let me look at the next file, and then at what calls it. "
THOUGHT = "The test fails since the sum is wrong.\n\nI should read the file first: it may say why."
ODD_LINE = "grep -n 'naïve  “日本語” \t 🙂'"
LONG_CHARS = 6000


class PolicyCall(NamedTuple):
    """A call that the policy writes."""

    what: What = "shell"
    spelling: Spelling = "plain"
    line: str = "cat"
    """Shell words, before the name of a file."""


class PolicyTurn(NamedTuple):
    """One answer of the policy."""

    calls: tuple[PolicyCall, ...] = (PolicyCall(),)
    thought: str = ""
    text: str = ""
    output_chars: int = 120
    """How much each of its calls prints."""
    cut: bool = False
    """It reaches its length limit."""
    ends_as_call: bool = False
    """It ends with the stop that answers with calls end with, though no call can be read from it."""
    uncommon: bool = False
    """It is sampled in other ids than its text would be tokenised to."""
    retried: bool = False
    """The client asks for it twice, in the same words: it did not hear the first answer."""
    beside: Beside | None = None


class Scenario(NamedTuple):
    """The turns of one run."""

    name: str
    turns: tuple[PolicyTurn, ...]
    branches: int = 0

    @property
    def forgets(self) -> bool:
        return any(turn.beside == "forget" for turn in self.turns)


_PARALLEL = PolicyTurn((PolicyCall(), PolicyCall("patch"), PolicyCall(line="head -n 3")))
_ODD = (
    PolicyCall(spelling="spaced"),
    PolicyCall(spelling="compact"),
    PolicyCall(spelling="escaped", line=ODD_LINE),
    PolicyCall(spelling="twice"),
)

SCENARIOS: dict[str, Scenario] = {
    item.name: item
    for item in (
        Scenario("loop", (PolicyTurn(),) * 12),
        Scenario("parallel", (PolicyTurn(), _PARALLEL, PolicyTurn(), _PARALLEL)),
        Scenario(
            "malformed",
            (
                PolicyTurn(),
                PolicyTurn((PolicyCall(spelling="broken"),)),
                PolicyTurn((PolicyCall("unknown"), PolicyCall())),
                PolicyTurn((PolicyCall(), PolicyCall(spelling="broken"), PolicyCall())),
                PolicyTurn(),
            ),
        ),
        Scenario("reasoning", (PolicyTurn(thought=THOUGHT),) * 4),
        Scenario(
            "talk",
            (
                PolicyTurn(text=WORDS),
                PolicyTurn((), THOUGHT, WORDS),
                PolicyTurn(thought=THOUGHT, text=f"\n\n{WORDS}\n"),
            ),
        ),
        Scenario("spelling", tuple(PolicyTurn((call,)) for call in (*_ODD, PolicyCall(line=ODD_LINE)))),
        Scenario("uncommon_ids", (PolicyTurn(text=WORDS, thought=THOUGHT, uncommon=True),) * 4),
        Scenario(
            "long_output",
            (PolicyTurn(), PolicyTurn(output_chars=LONG_CHARS), PolicyTurn(output_chars=LONG_CHARS), PolicyTurn()),
        ),
        Scenario(
            "retry", (PolicyTurn(retried=True), PolicyTurn(), PolicyTurn(thought=THOUGHT, retried=True), PolicyTurn())
        ),
        Scenario("nudged", (PolicyTurn(), PolicyTurn((), text=WORDS, ends_as_call=True), PolicyTurn())),
        Scenario("cut", (PolicyTurn(), PolicyTurn(text=WORDS, cut=True), PolicyTurn())),
        Scenario(
            "title", (PolicyTurn(beside="title"), PolicyTurn(), PolicyTurn(beside="title"), PolicyTurn()), branches=1
        ),
        Scenario(
            "forget", (*(PolicyTurn(output_chars=600),) * 7, PolicyTurn(beside="forget"), PolicyTurn()), branches=1
        ),
    )
}
