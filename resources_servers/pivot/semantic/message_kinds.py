"""What kind of message a text is: a question to the user, a refusal, or a hand-over.

Question  a sentence of it asks: it ends with a question mark, or says that something is needed, or begs for it.
Refusal   it asks nothing, and a sentence says that something can't or won't be done, or that nothing was.
Handover  everything else: what was done, found or decided.
Content   of a question the sentences that ask; of one that a yes or no answers, and of the others, all sentences.
Left out  code, quotes of code and headings; and courtesies, which ask nothing ("Let me know if you have questions").
"""

import re
from collections.abc import Sequence
from typing import Literal, NamedTuple

from paddock.resources_servers.pivot.semantic.terms import CODE_BLOCK

MessageKind = Literal["question", "refusal", "handover"]

_HEADING = re.compile(r"^[ \t]*#{1,6} .*$", re.MULTILINE)
_CODE = re.compile(r"`([^`\n]*)`")
_BLANK = "\x1a"
"""Stands for a blank of code, at which no sentence ends."""
_END = re.compile(r"(?<=[.!?])[)\"'*_]*\s+|(?<=[。！？])|\n\s*(?=\n|[-*•]\s|\d+[.)]\s)")
_COURTESY = re.compile(
    r"\blet (?:me|us) know (?:if|how|when|whether|what else)\b|\bfeel free to\b|\bdo(?:n['’]t| not) hesitate\b"
    r"|\b(?:how|what|anything) (?:else )?(?:(?:can|may|could) (?:i|we)|(?:i|we) can) (?:help|do|assist)\b"
    r"|\bwould you like me to\b.{0,120}\b(?:also|anything|else|further|help|assist)\b"
    r"|\b(?:help|assist) you (?:with )?(?:today|further|anything)\b|\banything else\b|\bif you have any questions\b",
    re.IGNORECASE,
)
_ASKS = re.compile(
    r"[?？][)\"'*_]*\Z|か[。]?\Z"
    r"|\bplease\b.{0,40}\b(?:provide|share|give|tell|send|confirm|specify|choose|select|clarify|enter|reply"
    r"|let (?:me|us))\b"
    r"|\b(?:could|can|would|will) you\b(?! see)"
    r"|\b(?:i|we)(?:['’]ll| will|['’]d| would)? (?:still |also |first |only )?need (?!to\b|no\b)"
    r"|\b(?:i|we)(?:['’]ll| will)? need to know\b"
    r"|\b(?:let me|let us|tell me|tell us) (?:know )?(?:which|what|where|who)\b",
    re.IGNORECASE,
)
_OFFERS = re.compile(
    r"(?:\A|[,;:] )(?:would you like|do you want|(?:shall|should|may|can) (?:i|we)|do you (?:agree|confirm)"
    r"|is (?:that|this|it) (?:ok|okay|all right|correct|right|fine))\b",
    re.IGNORECASE,
)
_REFUSES = re.compile(
    r"\b(?:i|we)(?:['’](?:m|re))?\s+(?:(?:can|could)\s*(?:not|n['’]t)|can['’]t|cannot|failed|give up|gave up"
    r"|won['’]t|will not|(?:(?:am|are|was|were)\s+)?(?:unable|not (?:able|allowed|permitted)))\b"
    r"|\b(?:changed nothing|nothing (?:was|is|has been) (?:changed|fixed|done))\b"
    r"|\bno changes? (?:(?:was|were|has been|have been) )?made\b"
    r"|\bnot (?:been )?(?:fixed|solved|resolved|possible)\b|\bstill fail(?:s|ing)?\b"
    r"|\A\W*(?:no|nope|sorry)\W*\Z",
    re.IGNORECASE,
)
_MAX_CHARS = 20_000
"""Characters of a text that are read for its kind: its first and its last half of as many."""


class SpokenText(NamedTuple):
    """The sentences of a text that are no courtesies."""

    kind: MessageKind
    sentences: Sequence[str]
    """Of a question those that ask, unless all of them only ask whether to go on; else all."""

    @property
    def text(self) -> str:
        return "\n".join(self.sentences)


def spoken_text(text: str) -> SpokenText:
    """Read what kind of message a text is, and in which sentences it is that."""
    if len(text) > _MAX_CHARS:
        text = f"{text[: _MAX_CHARS // 2]}\n{text[-_MAX_CHARS // 2 :]}"
    prose = _HEADING.sub("", CODE_BLOCK.sub("\n", text))
    whole = _CODE.sub(lambda code: code[0].replace(" ", _BLANK), prose)
    sentences = [sentence for part in _END.split(whole) if (sentence := part.replace(_BLANK, " ").strip())]
    sentences = [sentence for sentence in sentences if not _COURTESY.search(sentence)]
    bare = [_CODE.sub(" ", sentence).strip() for sentence in sentences]
    asking = [sentence for sentence, words in zip(sentences, bare, strict=True) if _ASKS.search(words)]
    if asking:
        return SpokenText("question", sentences if all(map(_OFFERS.search, asking)) else asking)
    return SpokenText("refusal" if any(map(_REFUSES.search, bare)) else "handover", sentences)


def gives_up(text: str) -> bool:
    """Say whether a text says that something can't or won't be done, whatever it asks besides."""
    return _REFUSES.search(text) is not None
