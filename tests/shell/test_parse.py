"""Reading commands: what the words are, where redirections and here-documents go, and what is refused."""

import time
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paddock.shell import Simple, effects, parse, simple_commands, words
from paddock.shell.syntax import Active, AndOr, Lit, Param, Pipeline, Redirect, Script, Word


def only(command: str) -> Simple:
    script = parse(command)
    assert script.error is None
    (statement,) = script.statements
    assert isinstance(statement.node, Simple)
    return statement.node


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("a b  c", ["a", "b", "c"]),
        ("a 'b c' \"d e\" f\\ g", ["a", "b c", "d e", "f g"]),
        ("a b'c'\"d\"e", ["a", "bcde"]),
        ("a '' \"\"", ["a", "", ""]),
        ("a $'x\\n\\x41\\u00e9\\t\\''", ["a", "x\nA\u00e9\t'"]),
        ('a "x\\"y\\$z\\w"', ["a", 'x"y$z\\w']),
        ('a "  x  "', ["a", "  x  "]),
        ('a "x:$" "$" "x$\\|y" "x$"y', ["a", "x:$", "$", "x$\\|y", "x$y"]),
        ('a "x\ny"', ["a", "x\ny"]),
        ("a \\\n b", ["a", "b"]),
        ("a x#y '#z' # comment", ["a", "x#y", "#z"]),
        ("a {} -I{} '*' \\*", ["a", "{}", "-I{}", "*", "*"]),
        ("a 1 2", ["a", "1", "2"]),
        ("\\ls p\\kill", ["ls", "pkill"]),
        ("[ ! -f a ]", ["[", "!", "-f", "a", "]"]),
        ("a\u00e9 \u4e2d", ["a\u00e9", "\u4e2d"]),
        ("", None),
        ("a | b", None),
        ("a $x", None),
        ("a > b", None),
    ],
)
def test_words_are_what_the_program_would_see(command: str, expected: list[str] | None) -> None:
    assert words(command) == expected


def test_unquoted_patterns_stay_apart_from_quoted_ones() -> None:
    node = only("a *.py '*'.py ~/x '~/x' {a,b} '{a,b}'")
    assert [word.text for word in node.words] == ["a", None, "*.py", None, "~/x", None, "{a,b}"]
    assert node.words[1].parts == (Active("*"), Lit(".py"))
    assert node.words[3].parts == (Active("~"), Lit("/x"))


def test_blanks_between_expansions_in_double_quotes_are_kept() -> None:
    assert only('a "$b  $c "').words[1].parts == (Param("b", True), Lit("  "), Param("c", True), Lit(" "))


def test_redirections_have_their_descriptor_spelled_out() -> None:
    node = only("a <i >o 2>>e 2>&1 &>b")
    assert [(each.fd, each.op, each.target.text) for each in node.redirects] == [
        (0, "<", "i"), (1, ">", "o"), (2, ">>", "e"), (2, ">&", "1"), (1, ">", "b"), (2, ">&", "1"),
    ]  # fmt: skip


def test_words_after_a_redirection_belong_to_the_command() -> None:
    assert [word.text for word in only("a b >c d").words] == ["a", "b", "d"]


def test_a_list_with_redirections_before_a_pipe_is_a_list_of_pipelines() -> None:
    (statement,) = parse("a && b 2>&1 | c || d").statements
    assert isinstance(statement.node, AndOr)
    assert [op for op, _ in statement.node.rest] == ["&&", "||"]
    assert isinstance(statement.node.rest[0][1], Pipeline)


def test_negation_belongs_to_the_whole_pipeline() -> None:
    (statement,) = parse("! a | b && c").statements
    assert isinstance(statement.node, AndOr)
    assert isinstance(statement.node.first, Pipeline)
    assert statement.node.first.negated


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("cat <<EOF\na\nb\nEOF", "a\nb\n"),
        ("cat <<'EOF'\n$a\nEOF\n", "$a\n"),
        ("cat <<-EOF\n\ta\n\t\tb\n\tEOF", "a\nb\n"),
        ('cat <<EOF\n\\$a \\` \\\\ "q"\nEOF', '$a ` \\ "q"\n'),
        ("cat <<EOF\n$ '$'\nEOF", "$ '$'\n"),
        ("cat <<EOF\na\\\nEOF\nEOF", "aEOF\n"),
        ("cat <<-EOF\n\ta\\\n\tb\n\tEOF", "a\tb\n"),
        ("cat <<'EOF'\na\\\nEOF", "a\\\n"),
        ("cat <<EOF\nEOF", None),
        ("cat <<< 'a b'", "a b\n"),
        ("cat <<< a", "a\n"),
    ],
)
def test_here_documents_are_the_text_that_is_read(command: str, text: str | None) -> None:
    (redirect,) = only(command).redirects
    assert redirect == Redirect(0, "<<", Word((Lit(text),) if text else ()))


def test_what_follows_a_here_document_is_still_there() -> None:
    script = parse("cat <<A <<'B' 2>&1 | head -5 && ls; pwd\n1\nA\n$2\nB\nwho")
    assert script.error is None
    assert [each.words[0].text for each in simple_commands(script)] == ["cat", "head", "ls", "pwd", "who"]


def test_expansions_in_a_here_document_are_seen_and_its_quotes_are_text() -> None:
    (redirect,) = only('cat <<EOF\n"$a" `b`\nEOF').redirects
    assert redirect.target.parts[:3] == (Lit('"'), Param("a", True), Lit('" '))
    assert len(list(simple_commands(parse('cat <<EOF\n"$a" `b`\nEOF')))) == 2


def test_a_here_document_inside_a_substitution_inside_quotes() -> None:
    script = parse("git commit -m \"$(cat <<'EOF'\nIt's $5\nEOF\n)\" && ls")
    assert script.error is None
    assert [each.words[0].text for each in simple_commands(script)] == ["git", "cat", "ls"]


def test_commands_are_found_wherever_they_stand() -> None:
    loops = "for x in $(c); do d <(e) > $(f); done; if g; then h; fi; k() { l; }"
    command = f"a $(b); {loops}; [[ -n $(m) ]]; n=$(o) p ${{q:-$(r)}}"
    found = [each.words[0].text for each in simple_commands(parse(command)) if each.words]
    assert sorted(name for name in found if name) == sorted("abcdefghlmopr")


@pytest.mark.parametrize(
    "command",
    [
        "ls ((",
        "echo 'a",
        'echo "a',
        "a |",
        "a && ",
        "if a; then",
        "cat <<EOF\na",
        "a\0b",
        "a ;; b",
        "a\\\nb",
        "x" * 300_000,
    ],
)
def test_what_is_no_valid_command_says_so(command: str) -> None:
    assert parse(command).error


def test_nesting_beyond_the_limit_is_an_error_and_not_a_crash() -> None:
    assert parse("( " * 500 + "a" + " )" * 500).error
    assert parse("$(" * 500 + "a" + ")" * 500).error
    assert parse("a" + " && a" * 5000).error is None


def test_commands_before_an_error_are_kept_for_those_who_look_for_danger() -> None:
    script = parse("rm -rf /\nls ((")
    assert script.error
    assert any(each.words[0].text == "rm" for each in simple_commands(script))


UNITS = [
    "a ",
    "a;", "a&", "a && ", "! a", "a=1 ", "a>b ", "<<a\n", "<<<", "((", "(a", "$(", "$((", "${", "'", '"', "`", "\\",
    "[[", "{ ", "if ", "case x in ", "a|", "a||", "a|&", "a|(", "a $(b|", "echo x|cat <<E\n",
]  # fmt: skip


@pytest.mark.parametrize(
    "unit", [pytest.param(unit, marks=[pytest.mark.long] * bool(nth % 3)) for nth, unit in enumerate(UNITS)]
)
def test_reading_takes_time_in_proportion_to_the_text(unit: str) -> None:
    """Of CPU: a second, more in a process that holds much; what grows with the square of the length takes minutes."""
    start = time.process_time()
    parse(unit * (100_000 // len(unit)))
    assert time.process_time() - start < 30


@settings(max_examples=200, deadline=None)
@given(st.text(st.sampled_from("ab $'\"`\\(){}[]<>|&;#*?~!=-\n\t\0\ud800\ufdd0é12EOF/"), max_size=40))
def test_no_text_makes_reading_or_judging_raise(text: str) -> None:
    assert isinstance(parse(text), Script)
    effects(text)


def test_characters_beyond_ascii_are_ordinary_ones() -> None:
    """The grammar's scanner may read beyond its tables on them, and take some for blanks."""
    random = Random(7)
    for lead in ("", "{", "$", "${", "a=", "[[ ", "((", "~", "a[", "`", "<<", "for ", '"$'):
        for _ in range(150):
            char = chr(random.choice([random.randrange(0x80, 0xD800), random.randrange(0xE000, 0x110000)]))
            assert isinstance(parse(f"{lead}{char}x"), Script)
    assert words("a\u00a0b \u2003 c\r") == ["a\u00a0b", "\u2003", "c\r"]
