"""Messages about what is wrong with a config: every problem at once, and for a wrong name the nearest right one.

Errors  ConfigError. One problem is its own message; several are a list, one per line.
"""

from collections.abc import Iterable
from difflib import get_close_matches

from paddock.errors import ConfigError

_SIMILARITY = 0.5
"""Below this ratio a name is not suggested."""
_TYPO = 0.8
"""From this ratio on a name is taken for a typo of the other."""


def nearest(word: str, options: Iterable[str]) -> str | None:
    """The option most like `word`; None: nothing is like it."""
    names = list(options)
    close = get_close_matches(word, names, n=1, cutoff=_SIMILARITY)
    # `comparator` for `compat`: the shorter name is a part of the longer one, though their ratio is low.
    parts = [name for name in names if len(word) > 2 and (name.startswith(word) or word.startswith(name))]
    return close[0] if close else next(iter(parts), None)


def is_typo(word: str, options: Iterable[str]) -> bool:
    """Whether `word` is a typo of one of the options."""
    return bool(get_close_matches(word, list(options), n=1, cutoff=_TYPO))


def suggestion(word: str, options: Iterable[str], *, label: str = "valid") -> str:
    """`; nearest: ...; valid: ...`, to end a message with."""
    names = sorted(set(options))
    close = nearest(word, names)
    head = f"; nearest: `{close}`" if close else ""
    return f"{head}; {label}: {', '.join(names) if names else 'none'}"


def invalid(problems: Iterable[str], *, kind: str = "config_invalid") -> ConfigError:
    """One error for all of `problems`, of which there is at least one."""
    unique = list(dict.fromkeys(problems))
    if len(unique) == 1:
        return ConfigError(unique[0], kind=kind)
    return ConfigError("\n".join([f"{len(unique)} problems:", *(f"  - {line}" for line in unique)]), kind=kind)


def raise_all(problems: Iterable[str], *, kind: str = "config_invalid") -> None:
    """Raise one ConfigError for all of `problems`; return when there is none."""
    listed = list(problems)
    if listed:
        raise invalid(listed, kind=kind)
