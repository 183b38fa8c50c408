"""Claims about telling one command from several: newlines part commands only where the shell says so."""

import pytest

from paddock.harnesses.codeact.commands import split_commands


@pytest.mark.parametrize(
    "text",
    [
        "ls",
        "  ls \n",
        "a; b",
        "a && b",
        "a &&\nb",
        "a |\n b",
        "a \\\n b",
        "echo 'x\ny'",
        'echo "x\ny"',
        "cat <<EOF\nx\ny\nEOF",
        "cat <<'EOF' > f.py\nfor a in b:\n    pass\n\nprint(1)\nEOF",
        "if true; then\necho x\nfi",
        "for i in 1 2; do\n echo $i\ndone",
        "f() {\n echo x\n}",
        "( cd x\n ls )",
        "# a remark\nls",
        "ls # a remark\n# another",
        "echo $(ls\npwd)",
        "python -c 'import a\nimport b'",
        "(echo",
    ],
)
def test_this_is_one_command(text: str) -> None:
    assert split_commands(text) == [text.strip()]


@pytest.mark.parametrize(
    ("text", "commands"),
    [
        ("a\nb", ["a", "b"]),
        ("a\n\n\nb\n", ["a", "b"]),
        ("a; b\nc", ["a; b", "c"]),
        ("cat <<EOF\nx\nEOF\nls", ["cat <<EOF\nx\nEOF", "ls"]),
        ("for i in 1 2; do\n echo $i\ndone\necho b", ["for i in 1 2; do\n echo $i\ndone", "echo b"]),
        ("server &\ncurl x", ["server &", "curl x"]),
        ("cd a\n# then\nls", ["cd a", "# then\nls"]),
        ("a\nb\nc", ["a", "b", "c"]),
    ],
)
def test_these_are_several(text: str, commands: list[str]) -> None:
    assert split_commands(text) == commands
