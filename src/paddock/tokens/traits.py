"""What a chat template does with the past that an append-only record must not rely on.

Source  each trait is found by rendering conversations with marks in them (`probes.py`), never by reading the template.
Law     a trait is no fault: records are continued in exact ids whatever a template does. It says where a prompt that is
        rendered anew would differ from the recorded one.
"""

from typing import Literal

from paddock.types import Record

Following = Literal["after_user", "after_tool"]
Spelling = Literal["spaced", "compact", "escaped"]
"""Of JSON: `{"a": 1}` with other scripts as they are; `{"a":1}`; with other scripts as `\\u....`."""
Speaker = Literal["assistant", "user", "tool", "system"]
BosPlace = Literal["at_start", "every_turn"]


class PromptTraits(Record):
    """The traits of one template, with the arguments that it is given."""

    strips_reasoning: tuple[Following, ...] = ()
    """The reasoning of an answer is gone once this follows it, or was never written."""
    reorders_arguments: bool = False
    """A call's arguments come in an order that is not the sampled one."""
    reformats_arguments: tuple[Spelling, ...] = ()
    """Spellings of sampled arguments that are not kept."""
    trims_text: tuple[Speaker, ...] = ()
    """White space around what these say is gone."""
    merges_tool_results: bool = False
    """Two results in a row share one block, or the second changes the text of the first."""
    rewrites_past: tuple[str, ...] = ()
    """Probes in which a rendered conversation is no prefix of the same one continued."""
    uses_date: bool = False
    """The prompt holds the date or the time: those of a group may differ."""
    adds_bos: BosPlace | None = None
    """The template writes the mark of a text's beginning itself, so none may be added; `every_turn`: it comes again
    after an answer. None: it doesn't."""

    def describe(self) -> list[str]:
        """The traits in words, for a log."""
        traits: list[str] = []
        if self.strips_reasoning:
            traits.append(f"drops reasoning {_listed(self.strips_reasoning)}")
        if self.reorders_arguments:
            traits.append("re-orders the arguments of calls")
        if self.reformats_arguments:
            traits.append(f"re-spells {_listed(self.reformats_arguments)} arguments of calls")
        if self.trims_text:
            traits.append(f"trims text of {_listed(self.trims_text)}")
        if self.merges_tool_results:
            traits.append("merges tool results")
        if self.rewrites_past:
            traits.append(f"rewrites the past: {_listed(self.rewrites_past)}")
        if self.uses_date:
            traits.append("uses the date")
        if self.adds_bos is not None:
            traits.append(f"writes BOS {self.adds_bos.replace('_', ' ')}")
        return traits


def _listed(words: tuple[str, ...]) -> str:
    return ", ".join(word.replace("_", " ") for word in words)
