"""How many commands a text is: the shell tool takes one at a time, chained by `;` or operators, not by newlines.

Law     a newline parts two commands where the text before and the text after are whole commands that together are all
        of it; newlines in quotes, in here-documents, in compound commands, after an operator or a backslash part none.
        A text that is no valid shell, or too long to look at, is one command: the shell says what is wrong with it.
"""

from paddock.shell import parse

MAX_CHARS = 8_000
MAX_NEWLINES = 100


def split_commands(text: str) -> list[str]:
    """Split a text into its commands."""
    if "\n" not in text or text.count("\n") > MAX_NEWLINES or len(text) > MAX_CHARS:
        return [text.strip()]
    whole = parse(text)
    if whole.error or len(whole.statements) < 2:
        return [text.strip()]
    commands: list[str] = []
    rest, statements = text, whole.statements
    at = rest.find("\n")
    while at >= 0:
        first = parse(rest[:at])
        left = statements[len(first.statements) :]
        if first.statements and left and not first.error and first.statements + left == statements:
            second = parse(rest[at + 1 :])
            if not second.error and second.statements == left:
                commands.append(rest[:at].strip())
                rest, statements, at = rest[at + 1 :], left, -1
        at = rest.find("\n", at + 1)
    return [*commands, rest.strip()]
