"""Changes of files, read from commands and made on known texts, against the programs that really make them."""

import re
import shlex
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from paddock.edits import KnownText
from paddock.resources_servers.pivot.semantic.intents import file_changes
from paddock.resources_servers.pivot.semantic.intents.bare_commands import bare_commands
from paddock.resources_servers.pivot.semantic.intents.file_changes import FILE_CHANGES, FileChanges

SCRATCH = "/tmp/paddock-scratch.py"
WORDS = ["a", "ab", "b.a", "a.b", "x = 1", "foo(a)", "[a]", "a*", "b  ", "aab", "ba|", "", "    a", "\tb", "a/b", "&"]
lines = st.lists(st.lists(st.sampled_from(WORDS), max_size=3).map("".join), min_size=1, max_size=6)
texts = st.builds(
    lambda rows, end: "\n".join(rows) + ("\n" if end else ""), lines, st.sampled_from([True, True, False])
)
addresses = st.sampled_from(
    [
        "",
        "",
        "1",
        "2",
        "3",
        "$",
        "1,2",
        "2,3",
        "2,1",
        "2,$",
        "/a/",
        "/^b/",
        "/a/,/b/",
        "2,/a/",
        "/b/,3",
        "2,+1",
        "/a/,+1",
    ]
)
patterns = st.lists(
    st.sampled_from(
        [
            "a",
            "b",
            "ab",
            ".",
            r"\.",
            "[ab]",
            "[^a]",
            "a*",
            "[[:alpha:]]*",
            "=",
            r"\(a\)",
            r"\(b.\)",
            "^",
            "$",
            " *",
            r"\*",
            "(a)",
            "a+",
            "b?",
            "a{1,2}",
            r"a\+",
            "|",
            r"\[a\]",
            "x = 1",
            r"\s",
            r"\w*",
            r"\<a",
        ]
    ),
    min_size=1,
    max_size=3,
).map("".join)
replacements = st.sampled_from(["", "c", "&&", r"<\1>", r"\&", r"\n", "a.b", r"\\", "$1", r"\/", r"\t"])
flags = st.sampled_from(["", "", "g", "2", "2g", "I", "gI"])
delimiters = st.sampled_from("//|#,")
substitutions = st.builds(
    lambda address, d, old, new, flag: f"{address}s{d}{old}{d}{new}{d}{flag}",
    addresses,
    delimiters,
    patterns,
    replacements,
    flags,
)
line_commands = st.builds(
    lambda address, command: address + command,
    addresses,
    st.sampled_from(
        ["d", "a new", "a\\  new", "a\\\nnew", "i new", "c new", "c\\\n  new", "i\\\n\tnew", r"a \  x\n\ty", "a x\\\ny"]
    ),
)
sed_scripts = st.lists(substitutions | line_commands, min_size=1, max_size=2)


@st.composite
def sed_commands(draw: st.DrawFn) -> str:
    scripts = draw(sed_scripts)
    option = draw(st.sampled_from(["-i", "-i", "-i -E", "-Ei", "-i.bak", "-r -i"]))
    if draw(st.booleans()):
        return f"sed {option} {shlex.quote(draw(st.sampled_from(';' + chr(10))).join(scripts))} f"
    return f"sed {option} {' '.join('-e ' + shlex.quote(script) for script in scripts)} f"


@st.composite
def perl_commands(draw: st.DrawFn) -> str:
    old, new, flag = draw(patterns), draw(replacements), draw(st.sampled_from(["", "g", "i"]))
    return f"perl {draw(st.sampled_from(['-pi -e', '-i -pe', '-p -i -e']))} {shlex.quote(f's/{old}/{new}/{flag}')} f"


@st.composite
def python_commands(draw: st.DrawFn) -> str:
    olds = draw(st.lists(st.sampled_from([*WORDS, "\n", "a\n"]), min_size=1, max_size=2))
    steps = [
        f"s = s.replace({old!r}, {draw(st.sampled_from(WORDS))!r}{draw(st.sampled_from(['', ', 1']))})" for old in olds
    ]
    steps += draw(st.sampled_from([[], [f"assert {olds[0]!r} in s"], [f"assert s.count({olds[0]!r}) == 1"]]))
    read = draw(
        st.sampled_from(["s = open('f').read()", "s = Path('f').read_text()", "with open('f') as g:\n    s = g.read()"])
    )
    write = draw(
        st.sampled_from(
            [
                "open('f', 'w').write(s)",
                "Path('f').write_text(s)",
                "with open('f', 'w') as g:\n    g.write(s)",
                "with open('f', 'w') as g:\n    g.write('x')\n    g.write('y')",
                "open('./f', 'a').write('tail')",
                "open('f', 'w').write(open('f').read())",
            ]
        )
    )
    order = draw(st.sampled_from([[read, *steps, write], [read, *steps[::-1], write]]))
    code = "\n".join(["from pathlib import Path", *order])
    return f"python3 - <<'E'\n{code}\nE"


writes = st.sampled_from(
    [
        "cat > f <<'E'\na\n\nb\nE",
        "cat <<E >> f\na\nE",
        "tee -a f <<'E'\nx\nE",
        "echo 'a b' > f",
        "echo -n a >> f",
        "> f",
        "printf 'a%s\\n' 1 2 > f",
        "printf '%s' 'x' | tee f",
        "true > f",
        "truncate -s0 f",
        "rm f",
        "mv f g.txt",
        "rm -f f",
        f"cat > {SCRATCH} <<'E'\nopen('f','w').write('q')\nE\npython3 {SCRATCH}\nrm {SCRATCH}",
    ]
)
commands = st.one_of(sed_commands(), sed_commands(), perl_commands(), python_commands(), writes)


def changed(script: str, text: str) -> str | None:
    """Return what a script makes of the file, as it is read; None: it is not known."""
    found = bare_commands(script, None)
    records = [FILE_CHANGES.of_command(command) for command in found or ()]
    if not records or not all(isinstance(record, FileChanges) for record in records):
        return None
    assert FILE_CHANGES.join is not None
    (record,) = FILE_CHANGES.join(records)
    after = file_changes._after(record.steps, {"f": KnownText.whole(text)})
    if not isinstance(after, dict):
        return None
    return repr(sorted((path, known.text.rstrip("\n")) for path, known in after.items()))


def run(script: str, text: str, folder: Path) -> str:
    for old in folder.iterdir():
        old.unlink()
    (folder / "f").write_text(text)
    subprocess.run(
        ["bash", "-c", script],
        cwd=folder,
        check=False,
        capture_output=True,
        timeout=20,
        env={"LC_ALL": "C.UTF-8", "PATH": "/usr/local/bin:/usr/bin:/bin"},
    )
    names = [path for path in sorted(folder.iterdir()) if path.suffix != ".bak"]
    return repr([(path.name, path.read_text().rstrip("\n")) for path in names])


def check(script: str, text: str, folder: Path) -> None:
    # Text behind a last line without a newline: see the law of `sed_scripts`.
    assume(text.endswith("\n") or not re.search(r"[0-9]a", script))
    claimed = changed(script, text)
    assume(claimed is not None)
    assert claimed == run(script, text, folder), script


@pytest.mark.slow
@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(commands, texts)
def test_what_a_command_is_read_to_do_to_a_file_is_what_it_does(tmp_path: Path, script: str, text: str) -> None:
    check(script, text, tmp_path)


@pytest.mark.long
@settings(max_examples=20_000, deadline=None, suppress_health_check=list(HealthCheck))
@given(commands, texts)
def test_so_it_is_with_many(tmp_path: Path, script: str, text: str) -> None:
    check(script, text, tmp_path)
