"""From a line to commands, and from a command's words to options and operands."""

import pytest

from paddock.sandbox.blocklist.arguments import ProgramProfile, parse_arguments
from paddock.sandbox.blocklist.commands import LineCommand, commands
from paddock.sandbox.blocklist.tokens import segments


def found(line: str) -> list[str]:
    return [" ".join(each.words) for each in commands(line)]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("a b | c; d && e || f &", ["a b", "c", "d", "e", "f"]),
        ("sudo -u x nice -n 5 a b", ["sudo -u x nice -n 5 a b", "nice -n 5 a b", "a b"]),
        ("bash -c 'a; b'", ["bash -c a; b", "a", "b"]),
        ("x=1; a $x ${x} $y", ["a 1 1 $y"]),
        ("p=$(a b); c $p", ["a b", "c $(a b)"]),
        ('f() { a "$@" $1; }; f x y', ["a $@ $1", "a x y x"]),
        ("alias k='a -x'; k y", ["alias k=a -x", "a -x", "a -x y"]),
        ("find . -exec a {} ';' -o -exec b {} +", ["find . -exec a {} ; -o -exec b {} +", "a {}", "b {}"]),
        ("a | xargs -n1 b c", ["a", "xargs -n1 b c", "b c $(input)"]),
        ("jobs -p | xargs b", ["jobs -p", "xargs b", "b $(jobs -p)"]),
        ("echo x y | xargs b", ["echo x y", "xargs b", "b x y"]),
        ("echo 'a b' | sh", ["echo a b", "sh", "a b"]),
        ("python3 -W ignore -m a b", ["python3 -W ignore -m a b", "a b"]),
        ("command -v a", ["command -v a"]),
        ("a {b,c{d,e}}", ["a b cd ce"]),
        ("git -c alias.x='!a b' x", ["git -c alias.x=!a b x", "a b"]),
        ("a <<EOF\nb\nEOF", ["a"]),
        ("sh <<EOF\nb\nEOF", ["sh", "b"]),
        ("for p in $(a); do b $p; done", ["a", "b $(a)"]),
        ("a | while read p; do b $p; done", ["a", "read p", "b $(a)"]),
        ("echo \"a $(b 'c d')\" `e`", ["b c d", "e", "echo a $(b c d) $(e)"]),
    ],
)
def test_every_command_of_a_line_is_found_with_its_words(line: str, expected: list[str]) -> None:
    assert found(line) == expected


def test_a_command_knows_where_it_runs() -> None:
    places = {each.words[-1]: each.directory for each in commands("cd /a; x; (cd b; y); z; cd ..; w | (cd q; v); u")}
    assert places["x"] == places["z"] == "/a"
    assert (places["y"], places["w"], places["v"], places["u"]) == ("/a/b", "/", "/q", "/")


def test_redirections_are_files_that_are_written_and_read() -> None:
    (command,) = commands("a < b > c 2>> d")
    assert (command.reads, command.writes) == (("b",), ("c", "d"))


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("a 'b c' d\"e\"\\ f; g", [("a", "b c", "de f"), ("g",)]),
        ("a 'b; c", [("a", "b"), ("c",)]),
        ("foo(a b)", [("a", "b")]),
        ("x = 1\na b", [("a", "b")]),
        ("if a; then b # c\nfi", [("a",), ("b",)]),
        ("A=1 a", [("a",)]),
        ("a <<E\nb c\nE\nd '", [("a",), ("d",)]),
        ("pk\\\nill x", [("pkill", "x")]),
    ],
)
def test_tokens_of_a_text_that_is_no_command(line: str, expected: list[tuple[str, ...]]) -> None:
    assert [segment.words for segment in segments(line) if segment.words] == expected


def test_options_have_their_values_and_clusters_come_apart() -> None:
    profile = ProgramProfile(
        programs="x",
        subcommand=True,
        pathspecs=True,
        value_options="-C",
        subcommand_value_options={"log": "-S --author"},
    )
    words = ("x", "-C", "d", "log", "-pS", "a", "-Sb", "--author", "c", "--author=d", "-12", "e", "--", "f")
    command = parse_arguments(LineCommand(words, "."), profile)
    assert command.subcommand == "log"
    assert command.options == ("-C=d", "-p", "-S=a", "-S=b", "--author=c", "--author=d", "-12")
    assert command.operands == ("e",)


@pytest.mark.parametrize(
    ("words", "operands"),
    [
        (("kill", "-9", "-1"), ("-1",)),
        (("kill", "-1"), ("-1",)),
        (("kill", "-9"), ()),
        (("kill", "-s", "TERM", "1"), ("1",)),
        (("kill", "--", "-5"), ("-5",)),
        (("kill", "5", "-6"), ("5", "-6")),
    ],
)
def test_a_signal_is_no_operand_of_kill(words: tuple[str, ...], operands: tuple[str, ...]) -> None:
    assert parse_arguments(LineCommand(words, "."), ProgramProfile(programs="kill", signals=True)).operands == operands


def test_paths_are_seen_from_where_the_command_runs() -> None:
    paths = [
        parse_arguments(LineCommand(("rm", each), "/a/b"), None).paths()[0]
        for each in ("c", "..", "/x//y/../z", "~/q/", "$V/.")
    ]
    assert paths == ["/a/b/c", "/a", "/x/z", "~/q", "$V"]
