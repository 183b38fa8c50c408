"""`Blocklist.check`: a line in, a refusal with advice out, or None.

Law     pure: no state but counts, no file, no process; never raises on any `str`; time grows linearly with the line.
        The first command in the order of the text that a rule refuses decides. A match that runs out of time refuses
        nothing, since isolation is the boundary and a wrong refusal costs an honest agent; it is counted.
"""

import threading
from collections import Counter
from typing import NamedTuple

import regex

from paddock.sandbox.blocklist.arguments import ParsedCommand, ProgramProfile, parse_arguments, program_name, resolve
from paddock.sandbox.blocklist.commands import LineCommand, commands
from paddock.sandbox.blocklist.rules import Form, Rule, rule_book
from paddock.sandbox.blocklist.settings import BlocklistSettings
from paddock.types import Record

_SHOWN_CHARS = 160
_MAX_PROGRAMS = 4096


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


class _ProgramRules(NamedTuple):
    """What applies to one program."""

    forms: list[tuple[Rule, Form]]
    profile: ProgramProfile | None


class Blocklist:
    """The rules of some settings; safe to share between threads."""

    def __init__(self, settings: BlocklistSettings | None = None) -> None:
        self.settings = settings or BlocklistSettings()
        self.timeouts: Counter[str] = Counter()
        """Matches that ran out of time, by rule."""
        self._rules = self.settings.active()
        self._profiles = [*self.settings.profiles, *rule_book().profiles]
        self._entries: dict[str, _ProgramRules] = {}
        self._lock = threading.Lock()
        patterns = {pattern for rule in self._rules for form in rule.forms for pattern in form.patterns()}
        patterns |= {profile.programs for profile in self._profiles}
        self._compiled = {pattern: regex.compile(pattern) for pattern in patterns}

    def check(self, line: str, *, typed: bool = False) -> Refusal | None:
        """`typed`: the line is input of a running program, judged as a line for a shell."""
        if not self._rules:
            return None
        slow: set[str] = set()
        for source in dict.fromkeys(commands(line, typed=typed)):
            entry = self._entry(source)
            if not entry.forms:
                continue
            command = parse_arguments(source, entry.profile)
            for rule, form in entry.forms:
                if rule.name not in slow and self._refuses(rule, form, command, slow):
                    return _refusal(rule, source)
        return None

    def _entry(self, source: LineCommand) -> _ProgramRules:
        name = program_name(source.words[0]) if source.words else ""
        key = name if source.shape == "command" else f"{source.shape}:/"
        entry = self._entries.get(key)
        if entry is None:
            entry = self._make_entry(name, source)
            with self._lock:
                if len(self._entries) >= _MAX_PROGRAMS:
                    self._entries.clear()
                self._entries[key] = entry
        return entry

    def _make_entry(self, name: str, source: LineCommand) -> _ProgramRules:
        forms = [
            (rule, form)
            for rule in self._rules
            for form in rule.forms
            if form.shape == source.shape
            and (form.program is None or self._matches_in_time(rule.name, form.program, name))
        ]
        profile = next((item for item in self._profiles if self._matches_in_time("", item.programs, name)), None)
        return _ProgramRules(forms, profile)

    def _matches_in_time(self, rule: str, pattern: str, name: str) -> bool:
        try:
            return self._matches(pattern, name)
        except TimeoutError:
            self.timeouts[rule] += 1
            return False

    def _matches(self, pattern: str, text: str) -> bool:
        return self._compiled[pattern].fullmatch(text, timeout=self.settings.timeout_s) is not None

    def _refuses(self, rule: Rule, form: Form, command: ParsedCommand, slow: set[str]) -> bool:
        try:
            return self._holds(form, command)
        except TimeoutError:
            slow.add(rule.name)
            self.timeouts[rule.name] += 1
            return False

    def _holds(self, form: Form, command: ParsedCommand) -> bool:
        if form.without_operands and command.operands:
            return False
        source = command.source
        needed = (
            (form.subcommand, [command.subcommand]),
            (form.first_operand, command.operands[:1]),
            (form.option, command.options),
            (form.second_option, command.options),
            (form.operand, command.operands),
            (form.path, command.paths() if form.path else ()),
            (
                form.writes,
                [resolve(source.directory, item) for item in source.writes] if form.writes else (),
            ),
            (form.reads, [resolve(source.directory, item) for item in source.reads] if form.reads else ()),
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


def _refusal(rule: Rule, source: LineCommand) -> Refusal:
    files = [*(f"> {item}" for item in source.writes), *(f"< {item}" for item in source.reads)]
    text = " ".join([*source.words, *files])
    if source.shape == "recursion":
        text = f"{source.words[0]}() that starts itself again and again"
    elif source.shape == "endless":
        text = f"an endless {source.words[0]} loop that starts programs in the background"
    text = " ".join(text.split())
    cut = text if len(text) <= _SHOWN_CHARS else text[:_SHOWN_CHARS] + " ..."
    return Refusal(rule=rule.name, category=rule.category, matched=cut, advice=rule.advice)
