"""A chat template at work: conversations whose answers are sampled as it writes them, replayed into one record.

Law     the record is whole prompt, sampled ids, appended ids, sampled ids, ...; sampled ids are such as no tokenizer
        would choose. After each step its text is to be the template's rendering of the whole conversation.
Errors  AssertionError where it is not, or where the template writes an answer otherwise than its prompt starts it.
"""

from collections.abc import Sequence
from itertools import pairwise
from random import Random

from tests.support.conversations import RandomConversation

from paddock.testing.vocabularies import Marks, small_vocabulary
from paddock.tokens import ChatTemplate, Prompter
from paddock.types import JsonObject


class TemplateReplay:
    """One template, in a small vocabulary of its own."""

    def __init__(self, source: str, marks: Marks, arguments: JsonObject | None = None) -> None:
        self.vocabulary = small_vocabulary(marks)
        self.template = ChatTemplate(source, self.vocabulary.special_texts)
        self.prompter = Prompter(self.template, self.vocabulary)
        self.arguments = arguments or {}

    def text(self, dialogue: RandomConversation, messages: Sequence[JsonObject], *, prompt: bool) -> str:
        return self.template.render(messages, tools=dialogue.tools, generation_prompt=prompt, arguments=self.arguments)

    def sampled(
        self,
        dialogue: RandomConversation,
        history: Sequence[JsonObject],
        answer: JsonObject,
        *,
        cut: bool,
        random: Random,
    ) -> list[int]:
        """The answer in ids that no tokenizer would choose."""
        before = self.text(dialogue, history, prompt=True)
        after = self.text(dialogue, [*history, answer], prompt=False)
        assert after.startswith(before)
        written = after[len(before) :]
        place, stop = max((written.rfind(stop), stop) for stop in self.vocabulary.stop_texts)
        text = written[:place]
        places = sorted(random.randint(0, len(text)) for _ in range(3))
        pieces = [text[start:end] for start, end in pairwise([0, *places, len(text)])]
        ids = [each for piece in pieces for each in self.vocabulary.encode(piece)]
        return ids if cut else [*ids, self.vocabulary.stops[stop]]

    def check(self, dialogue: RandomConversation, random: Random) -> None:
        history = list(dialogue.start)
        record = self.prompter.whole(history, dialogue.tools, self.arguments)
        for step in dialogue.steps:
            sampled = self.sampled(dialogue, history, step.answer, cut=step.cut, random=random)
            new = self.prompter.after(sampled[-1:], step.follows, dialogue.tools, self.arguments)
            record += sampled + new
            history += [step.answer, *step.follows]
            assert self.vocabulary.decode(record) == self.text(dialogue, history, prompt=True)
