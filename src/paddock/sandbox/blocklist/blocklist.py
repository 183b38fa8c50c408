"""`Blocklist.check`: a line in, a refusal with advice out, or None.

Law     pure: no state but counts, no file, no process; never raises on any `str`; time grows linearly with the line.
        The first command in the order of the text that a rule refuses decides. A match that runs out of time refuses
        nothing, since isolation is the boundary and a wrong refusal costs an honest agent; it is counted.
"""

import threading
from collections import Counter
from typing import NamedTuple

import regex

from paddock.sandbox.blocklist.arguments import Command, Profile, program_name, read, resolved
from paddock.sandbox.blocklist.rules import Form, Rule, rule_book
from paddock.sandbox.blocklist.settings import BlocklistSettings
from paddock.sandbox.blocklist.walking import Found, commands
from paddock.types import Record

_SHOWN_CHARS = 160
_KEPT_PROGRAMS = 4096


class Refusal(Record):
    """Why a line is not run."""

    rule: str
    category: str
    matched: str
    """The command in the line that the rule is about, as parsed; cut where it is long."""
    advice: str
    """What to do instead."""

    @property
    def message(self) -> str:
        """The whole tool result for the model."""
        return (
            f"Not run: `{self.matched}` is refused here (rule {self.rule}, {self.category}). {self.advice}\n"
            "Nothing of the line was executed."
        )


class _Entry(NamedTuple):
    """What applies to one program."""

    forms: list[tuple[Rule, Form]]
    profile: Profile | None


class Blocklist:
    """The rules of some settings; safe to share between threads."""

    def __init__(self, settings: BlocklistSettings | None = None) -> None:
        self.settings = settings or BlocklistSettings()
        self.timeouts: Counter[str] = Counter()
        """Matches that ran out of time, by rule."""
        self._rules = self.settings.active()
        self._profiles = [*self.settings.profiles, *rule_book().profiles]
        self._entries: dict[str, _Entry] = {}
        self._lock = threading.Lock()
        patterns = {pattern for rule in self._rules for form in rule.forms for pattern in form.patterns()}
        patterns |= {profile.programs for profile in self._profiles}
        self._compiled = {pattern: regex.compile(pattern) for pattern in patterns}

    def check(self, line: str, *, typed: bool = False) -> Refusal | None:
        """`typed`: the line is input of a running program, judged as a line for a shell."""
        if not self._rules:
            return None
        slow: set[str] = set()
        for found in dict.fromkeys(commands(line, typed=typed)):
            entry = self._entry(found)
            if not entry.forms:
                continue
            command = read(found, entry.profile)
            for rule, form in entry.forms:
                if rule.name not in slow and self._refuses(rule, form, command, slow):
                    return _refusal(rule, found)
        return None

    def _entry(self, found: Found) -> _Entry:
        name = program_name(found.words[0]) if found.words else ""
        key = name if found.shape == "command" else f"{found.shape}:/"
        entry = self._entries.get(key)
        if entry is None:
            entry = self._make_entry(name, found)
            with self._lock:
                if len(self._entries) >= _KEPT_PROGRAMS:
                    self._entries.clear()
                self._entries[key] = entry
        return entry

    def _make_entry(self, name: str, found: Found) -> _Entry:
        forms = [
            (rule, form)
            for rule in self._rules
            for form in rule.forms
            if form.shape == found.shape and (form.program is None or self._safely(rule.name, form.program, name))
        ]
        profile = next((each for each in self._profiles if self._safely("", each.programs, name)), None)
        return _Entry(forms, profile)

    def _safely(self, rule: str, pattern: str, name: str) -> bool:
        try:
            return self._matches(pattern, name)
        except TimeoutError:
            self.timeouts[rule] += 1
            return False

    def _matches(self, pattern: str, text: str) -> bool:
        return self._compiled[pattern].fullmatch(text, timeout=self.settings.timeout_s) is not None

    def _refuses(self, rule: Rule, form: Form, command: Command, slow: set[str]) -> bool:
        try:
            return self._holds(form, command)
        except TimeoutError:
            slow.add(rule.name)
            self.timeouts[rule.name] += 1
            return False

    def _holds(self, form: Form, command: Command) -> bool:
        if form.bare and command.operands:
            return False
        found = command.found
        needed = (
            (form.subcommand, [command.subcommand]),
            (form.first, command.operands[:1]),
            (form.option, command.options),
            (form.option_too, command.options),
            (form.operand, command.operands),
            (form.path, command.paths() if form.path else ()),
            (form.writes, [resolved(found.place, each) for each in found.writes] if form.writes else ()),
            (form.reads, [resolved(found.place, each) for each in found.reads] if form.reads else ()),
        )
        forbidden = (
            (form.no_option, command.options),
            (form.no_operand, command.operands),
            (form.no_path, command.paths() if form.no_path else ()),
        )
        return all(pattern is None or self._any(pattern, texts) for pattern, texts in needed) and not any(
            pattern is not None and self._any(pattern, texts) for pattern, texts in forbidden
        )

    def _any(self, pattern: str, texts: tuple[str, ...] | list[str]) -> bool:
        return any(self._matches(pattern, text) for text in texts)


def _refusal(rule: Rule, found: Found) -> Refusal:
    files = [*(f"> {each}" for each in found.writes), *(f"< {each}" for each in found.reads)]
    shown = " ".join([*found.words, *files])
    if found.shape == "recursion":
        shown = f"{found.words[0]}() that starts itself again and again"
    elif found.shape == "endless":
        shown = f"an endless {found.words[0]} loop that starts programs in the background"
    shown = " ".join(shown.split())
    cut = shown if len(shown) <= _SHOWN_CHARS else shown[:_SHOWN_CHARS] + " ..."
    return Refusal(rule=rule.name, category=rule.category, matched=cut, advice=rule.advice)
