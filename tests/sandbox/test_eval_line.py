"""Any text reaches a shell's `eval` as it stands: proven by real shells that say what they were given."""

import shutil
import subprocess

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paddock.sandbox.shell import _eval_line

ANY_TEXT = st.text(st.characters(blacklist_characters="\0", blacklist_categories=["Cs"]), max_size=200)
SHELL_TEXT = st.text("\n\t '\"\\$`!#&|;<>(){}[]*?~%=-_aA09é😀\x01\x7f\xa0", max_size=80)
SHELLS = [name for name in ("bash", "dash", "sh", "busybox") if shutil.which(name)]


def said(shell: str, script: bytes) -> bytes:
    words = [shell, "sh"] if shell == "busybox" else [shell]
    return subprocess.run(words, input=script, capture_output=True, check=True, timeout=60).stdout


@pytest.mark.slow
@pytest.mark.parametrize("shell", SHELLS)
@given(text=ANY_TEXT | SHELL_TEXT)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_eval_gets_the_text_on_one_line(shell: str, text: str) -> None:
    line = _eval_line(text, bash=shell == "bash")
    assert b"\n" not in line
    assert line.startswith(b"eval ")
    # Command substitution drops newlines at the end, which end no command that has not ended.
    assert said(shell, b"printf %s " + line[5:] + b"\n").rstrip(b"\n") == text.encode().rstrip(b"\n")


@pytest.mark.parametrize("shell", SHELLS)
@given(words=st.lists(SHELL_TEXT | ANY_TEXT, min_size=1, max_size=5))
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_line_with_quoted_words_gives_its_command_those_words(shell: str, words: list[str]) -> None:
    text = "printf '%s\\0' " + " ".join("'" + word.replace("'", "'\\''") + "'" for word in words)
    found = said(shell, _eval_line(text, bash=shell == "bash") + b"\n")
    assert [word.decode() for word in found.split(b"\0")[:-1]] == words


@pytest.mark.parametrize("shell", SHELLS)
def test_here_documents_and_continued_lines_work(shell: str) -> None:
    text = "cat <<'E'\n$HOME `id` \\\nE\ncat <<E\n$((1+1))\nE\necho a\\\nb &&\necho c # d\n"
    assert said(shell, _eval_line(text, bash=shell == "bash") + b"\n") == b"$HOME `id` \\\n2\nab\nc\n"
