"""Changes of files, whatever they are made with: which are the same, which are not."""

import json
from collections.abc import Callable
from typing import Any

import pytest

PATH = "/r/a.py"
TEXT = "import os\n\n\ndef run(args):\n    subprocess.check_call(args)\n    return args\n"
HISTORY = [
    {"type": "function_call", "call_id": "h", "name": "bash", "arguments": f'{{"command": "cat {PATH}"}}'},
    {"type": "function_call_output", "call_id": "h", "output": TEXT},
]
OLD, NEW = "subprocess.check_call(args)", "subprocess.run(args, check=True)"


def sh(command: str) -> tuple[str, Any]:
    return "bash", {"command": command}


def editor(old: str, new: str, path: str = PATH) -> tuple[str, Any]:
    return "str_replace_editor", {"command": "str_replace", "path": path, "old_str": old, "new_str": new}


def create(text: str, path: str = PATH) -> tuple[str, Any]:
    return "str_replace_editor", {"command": "create", "path": path, "file_text": text}


def python(*lines: str) -> tuple[str, Any]:
    return sh("python3 - <<'E'\n" + "\n".join(lines) + "\nE")


EDIT = editor(OLD, NEW)
SED = sh(f"sed -i 's/{OLD}/{NEW}/' {PATH}")
DIFF = f"--- a/a.py\n+++ b/a.py\n@@ -5,1 +5,1 @@\n-    {OLD}\n+    {NEW}\n"
SCRATCH = f"cat > /tmp/p.diff <<'E'\n{DIFF}E\n"
READ, WRITE = f"s = open('{PATH}').read()", f"open('{PATH}', 'w').write(s)"
REPLACE = f"s = s.replace({OLD!r}, {NEW!r})"

SEEN = [
    SED,
    sh(f"sed -i 's/{OLD}/{NEW}/g' {PATH}"),
    sh(f"sed -i -E 's|subprocess\\.check_call\\((.*)\\)|subprocess.run(\\1, check=True)|' {PATH}"),
    sh("cd /r && sed -i '5s/check_call(args)/run(args, check=True)/' a.py"),
    sh(f"sed -i '5c\\    {NEW}' {PATH}"),
    sh(f"sed -i -e '5d' -e '4s/x/x/' {PATH} && sed -i '4a\\    {NEW}' {PATH}"),
    sh(f"sed -i '/check_call/c\\    {NEW}' {PATH}"),
    sh(f"sed -i '/check_call/d' {PATH} && sed -i '/def run/a \\    {NEW}' {PATH}"),
    sh(f"sed -i '/check_call/d' {PATH} && sed -i '/return/i \\    {NEW}' {PATH}"),
    sh(f"sed -i '/check_call/d' {PATH} && sed -i '4,4c\\def run(args):\\n    {NEW}' {PATH}"),
    sh(f"sed -i '/def run/,$s/check_call(args)/run(args, check=True)/' {PATH}"),
    sh(f"perl -pi -e 's/check_call\\((\\w+)\\)/run($1, check=True)/' {PATH}"),
    python(READ, REPLACE, WRITE),
    python(
        "from pathlib import Path",
        f"p = Path('{PATH}')",
        "s = p.read_text()",
        f"assert {OLD!r} in s",
        f"p.write_text(s.replace({OLD!r}, {NEW!r}, 1))",
        "print('done')",
    ),
    python(READ, f"if {OLD!r} not in s:", "    print('none')", "    raise SystemExit('none')", REPLACE, WRITE),
    python(READ, f"if {OLD!r} in s:", f"    {REPLACE}", f"    {WRITE}", "else:", "    print('none')", "print('end')"),
    python(
        f"with open('{PATH}') as f:", "    s = f.read()", REPLACE, f"with open('{PATH}', 'w') as f:", "    f.write(s)"
    ),
    sh(f"{SCRATCH}cd /r && patch -p1 < /tmp/p.diff"),
    sh(f"{SCRATCH}cd /r && git apply /tmp/p.diff && rm /tmp/p.diff"),
    sh(f"cd /r && patch -p1 <<'E'\n{DIFF}E"),
    sh(f"cat > /tmp/fix.py <<'E'\n{READ}\n{REPLACE}\n{WRITE}\nE\npython3 /tmp/fix.py"),
    sh(f"cat > {PATH} <<'E'\n{TEXT.replace(OLD, NEW)}E"),
    editor(OLD, NEW + "  # fails loudly"),
    editor(OLD, "subprocess.run( args, check = True )"),
    editor("    " + OLD, f"    # a comment\n    {NEW}"),
    editor(OLD, NEW + "  "),
]
UNSEEN = [
    SED,
    sh(f"sed -i.bak 's/{OLD}/{NEW}/' {PATH}"),
    sh(f"perl -pi -e 's/subprocess\\.check_call\\(args\\)/{NEW}/' {PATH}"),
    python(READ, REPLACE, WRITE),
]
NOT_SEEN_SAME = [
    sh(f"sed -i 's/{OLD}/{NEW}/' /r/b.py"),
    sh(f"sed -i '/args/c\\    {NEW}' {PATH}"),
    sh(f"sed -i '/check_call/a \\    {NEW}' {PATH}"),
    sh(f"sed -i '/check_call/d' {PATH} && sed -i '/def run/a     {NEW}' {PATH}"),
    sh(f"sed -i '/check_call/d' {PATH} && sed -i '/def/i \\    {NEW}' {PATH}"),
    sh(f"sed -i 's/{OLD}/{NEW}/' {PATH} /r/b.py"),
    sh(f"sed 's/{OLD}/{NEW}/' {PATH}"),
    sh(f"sed -i '4s/{OLD}/{NEW}/' {PATH}"),
    sh(f"sed -i.save 's/{OLD}/{NEW}/' {PATH}"),
    sh(f"sed -i 's/{OLD}/{NEW}/w /r/out' {PATH}"),
    sh(f"sed -i 's/{OLD}/{NEW}/e' {PATH}"),
    sh(f"sed -i -n 's/{OLD}/{NEW}/p' {PATH}"),
    sh(f"sed -i 's/{OLD}/{NEW}/' {PATH} && sed -i 's/run(args, check=True)/check_call(args)/' {PATH}"),
    sh(f"sed -i 's/{OLD}/{NEW}/' {PATH} && git checkout {PATH}"),
    sh(f"sed -i 's/{OLD}/{NEW}/' {PATH} && rm /r/b.py"),
    sh(f"sed -i 's/{OLD}/{NEW}/' {PATH} && chmod 600 {PATH}"),
    sh(f"sed -i 's/{OLD}/{NEW}/' {PATH}; > /r/b.py"),
    sh(f"sed -i 's/{OLD}/{NEW}/' {PATH} || true > /r/b.py"),
    sh(f"cd /s && sed -i 's/{OLD}/{NEW}/' a.py"),
    sh(f"sed -i 's/{OLD}/{NEW}/' /r/s/../b/../../a.py"),
    sh(f"perl -pi -e 's/check_call/system(\"ls\")/e' {PATH}"),
    sh(f"perl -pi -e 's/check_call\\(args\\)/run(args, check=True)/; unlink $0' {PATH}"),
    python("import os", READ, REPLACE, WRITE, "os.system('ls')"),
    python(READ, REPLACE, WRITE, "open('/r/b.py', 'w').write('x')"),
    python(READ, WRITE, REPLACE),
    python(f"open('{PATH}', 'w').write(open('{PATH}').read().replace({OLD!r}, {NEW!r}))"),
    python(READ, "assert 'nothing like it' in s", REPLACE, WRITE),
    python(READ, REPLACE, "eval(s)", WRITE),
    python(READ, f"if {OLD!r} in s:", f"    {REPLACE}", WRITE, "open('/r/b.py', 'w').write('x')"),
    python(READ, f"if {OLD!r} in s:", f"    {REPLACE}", f"    {WRITE}", "else:", "    open('/r/b.py', 'w').write('x')"),
    python(READ, f"if {OLD!r} not in s:", "    print('none')", REPLACE.replace("run", "Popen"), WRITE),
    python(READ, f"if {OLD!r} in s:", "    raise SystemExit", REPLACE, WRITE),
    python(READ, f"if {OLD!r} not in s:", "    raise SystemExit(open('/r/b.py', 'w').write('x'))", REPLACE, WRITE),
    python(READ, REPLACE, f"open('{PATH}', 'r+').write(s)"),
    sh(f"python3 - <<E\n{READ}\ns = s.replace('$A', '`id`')\n{WRITE}\nE"),
    sh(f"{SCRATCH}cd /r && patch -R -p1 < /tmp/p.diff"),
    sh(f"{SCRATCH}cd /r && patch -p0 < /tmp/p.diff"),
    sh(f"{SCRATCH}echo >> /tmp/p.diff\ncd /r && patch -p1 < /tmp/p.diff"),
    sh(SCRATCH),
    create(TEXT.replace(OLD, NEW)),
    editor(OLD, NEW + "  # noqa"),
    editor(OLD, NEW + "\n    print(args)"),
    editor(OLD, NEW.replace("args", "'args'")),
]


REMOVALS = [
    ("rm /r/a.py /r/b.py", "rm -rf /r/a.py /r/b.py"),
    ("rm /r/a.py /r/b.py", "rm -r --force /r/b.py /r/a.py"),
    ("rm /r/a.py /r/b.py", "python3 -c 'import os; [os.remove(p) for p in \"/r/a.py /r/b.py\".split()]'"),
    ("rm /r/a.py", "python3 -c 'import os; os.unlink(\"/r/a.py\")'"),
    ("rm /r/a.py", "python - <<'E'\nfrom pathlib import Path\nPath('/r/a.py').unlink(missing_ok=True)\nE"),
    (
        "rm -f /r/a.py /r/b.py",
        "python - <<'E'\nimport os\nfor p in '/r/a.py', '/r/b.py':\n    if os.path.exists(p):\n        os.remove(p)\nE",
    ),
]
OTHER_REMOVALS = [
    ("rm /r/a.py", "rm -rf /r/a.py /r/b.py"),
    ("rm /r/a.py", "rm -rf /r"),
    ("rm /r/build", "rm -rf /r/build"),
    ("rm /r/.cache", "rm -rf /r/.cache"),
    ("rm /r/x.egg-info", "rm -rf /r/x.egg-info"),
    ("rm /r/a.py", "rm -rf /r/a.py/"),
    ("rm /r/a.py", "rm -rf /r/*.py"),
    ("rm /r/a.py", "rm -ri /r/a.py"),
    ("rm /r/a.py", "python3 -c 'import os; [os.remove(p) for p in \"/r/a.py /r/b.py\".split()]'"),
    ("rm /r/a.py", "python3 -c 'import os; [os.remove(p) for p in os.listdir(\"/r\")]'"),
    ("rm /r/a.py", "python3 -c 'import os; [os.remove(\"/r/a.py\") for p in []]'"),
    ("rm /r/a.py", "python3 -c 'import shutil; shutil.rmtree(\"/r/a.py\")'"),
    ("rm /r/a.py", "python3 - <<'E'\nimport os\nif os.path.exists('/r/b.py'):\n    os.remove('/r/a.py')\nE"),
    ("rm /r/a.py", "python3 - <<'E'\nimport os\nif not os.path.exists('/r/a.py'):\n    os.remove('/r/a.py')\nE"),
    ("rm /r/a.py", "python3 - <<'E'\nimport os\nif os.path.exists('/r/a.py'):\n    open('/r/a.py', 'w').write('')\nE"),
]


@pytest.mark.parametrize(("expected", "actual"), REMOVALS)
def test_files_are_removed_whatever_removes_them(score: Callable[..., Any], expected: str, actual: str) -> None:
    for first, second in ((expected, actual), (actual, expected)):
        found = score(sh(first), sh(second), cwd="/r")
        assert found.reward == 1.0, found.detail


@pytest.mark.parametrize(("expected", "actual"), OTHER_REMOVALS)
def test_what_removes_more_or_may_not_is_another_removal(score: Callable[..., Any], expected: str, actual: str) -> None:
    assert score(sh(expected), sh(actual), cwd="/r").reward == 0.0


def past(*steps: tuple[str, str]) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    for number, (command, output) in enumerate(steps):
        call = {"call_id": str(number), "name": "bash", "arguments": json.dumps({"command": command})}
        items += [
            {"type": "function_call", **call},
            {"type": "function_call_output", "call_id": str(number), "output": output},
        ]
    return items


NUMBERED = "".join(f"{number:6}\t{line}\n" for number, line in enumerate(TEXT.splitlines(), 1))
WHOLE_WRITE = sh(f"cat > {PATH} <<'E'\n{TEXT.replace(OLD, NEW)}E")
MADE = (f"cat > {PATH} <<'E'\n{TEXT.replace('args', 'words')}E", "")
SHOWN = [
    past((f"cat > {PATH} <<'E'\n{TEXT}E", "")),
    past(MADE, (f"sed -i 's/words/args/' {PATH}", "")),
    past(
        MADE,
        (f"python3 - <<'E'\ns = open('{PATH}').read()\ns = s.replace('words', 'args')\n{WRITE}\nprint('ok')\nE", "ok"),
    ),
    past((f"cat > {PATH} <<'E'\n{TEXT}E\npython3 {PATH}", "Traceback (most recent call last):\nNameError")),
    past((f"cat > {PATH} <<'E'\n{TEXT}E", ""), (f"mkdir -p /r/x && touch /r/x/b.py && python3 {PATH}", "Error")),
    past((f"nl -ba {PATH} | sed -n '1,240p'", NUMBERED)),
    past((f"cat -n {PATH} | head -n 50", NUMBERED)),
    past((f"cat -n {PATH} | head -n 50", f"<returncode>0</returncode>\n<output>\n{NUMBERED}</output>")),
    past(
        (f"nl -ba {PATH} | sed -n '1,240p'", NUMBERED.replace(OLD, "")),
        (f"sed -i '/def run/a \\    {OLD}' {PATH}", ""),
        (f"sed -i '6d' {PATH}", ""),
    ),
]
NOT_SHOWN = [
    past((f"cat > {PATH} <<'E'\n{TEXT}E\npython3 {PATH}", f"bash: line 1: {PATH}: Is a directory")),
    past((f"python3 /r/b.py && cat > {PATH} <<'E'\n{TEXT}E", "Traceback (most recent call last):\nNameError")),
    past((f"cat > {PATH} <<'E'\n{TEXT}E\ncp /r/b.py {PATH}", "")),
    past((f"cat > {PATH} <<'E'\n{TEXT}E", f"bash: {PATH}: Permission denied")),
    past((f"cat > {PATH} <<'E'\n{TEXT}E", "<returncode>1</returncode>\n<output>\n</output>")),
    past((f"cat > {PATH} <<'E'\n{TEXT}E", ""), (f"git checkout {PATH}", "")),
    past((f"cat > {PATH} <<'E'\n{TEXT}E", ""), (f"rm {PATH}", "")),
    past((f"nl -ba {PATH} | sed -n '1,6p'", NUMBERED)),
    past((f"nl -ba {PATH} | grep -v '^$'", NUMBERED)),
    past((f"nl -ba {PATH} | sed -n '1,240p'; ls", NUMBERED)),
    past((f"nl -ba {PATH} | sed -n '1,240p'", NUMBERED + "... 40 lines left out")),
    past((f"nl -ba {PATH} | sed -n '1,240p'", NUMBERED + "     7")),
    past((f"sed -n '1,240p' {PATH} | cat -n", NUMBERED)),
]


PART = past((f"nl -ba {PATH} | sed -n '4,6p'", "".join(NUMBERED.splitlines(keepends=True)[3:6])))


@pytest.mark.parametrize(
    "actual",
    [
        python(READ, f"s = s.replace({OLD!r}, {NEW!r})", WRITE),
        sh(f"sed -i 's/{OLD}/{NEW}/' {PATH}"),
        editor(OLD, NEW),
    ],
)
def test_of_a_file_that_is_known_in_part_a_long_text_stands_once(score: Callable[..., Any], actual: Any) -> None:
    expected = sh(f"sed -i '5s/check_call(args)/run(args, check=True)/' {PATH}")
    found = score(expected, actual, history=PART)
    assert found.reward == 1.0, found.detail


@pytest.mark.parametrize(
    "actual",
    [
        python(READ, "s = s.replace('check_call(args)', 'run(args, check=True)')", WRITE),
        sh(f"sed -i 's/check_call(args)/run(args, check=True)/' {PATH}"),
        python(READ, f"s = s.replace({OLD!r}, 'run(args)')", WRITE),
        python(READ, "s = s.replace('args', 'words')", WRITE),
        sh(f"sed -i '6s/{OLD}/{NEW}/' {PATH}"),
    ],
)
def test_of_a_file_that_is_known_in_part_a_short_one_may_stand_elsewhere(
    score: Callable[..., Any], actual: Any
) -> None:
    expected = sh(f"sed -i '5s/check_call(args)/run(args, check=True)/' {PATH}")
    assert score(expected, actual, history=PART).reward == 0.0


@pytest.mark.parametrize("history", SHOWN)
def test_what_a_shell_wrote_or_showed_to_its_end_is_known_whole(score: Callable[..., Any], history: Any) -> None:
    found = score(EDIT, WHOLE_WRITE, history=history)
    assert found.reward == 1.0, found.detail
    assert score(EDIT, sh(f"cat > {PATH} <<'E'\n{TEXT}E"), history=history).reward == 0.0


@pytest.mark.parametrize("history", NOT_SHOWN)
def test_what_failed_or_may_be_cut_is_not(score: Callable[..., Any], history: Any) -> None:
    assert score(EDIT, WHOLE_WRITE, history=history).reward == 0.0


@pytest.mark.parametrize("actual", SEEN)
def test_of_a_file_that_was_seen_the_text_that_results_decides(score: Callable[..., Any], actual: Any) -> None:
    found = score(EDIT, actual, history=HISTORY)
    assert found.reward == 1.0, found.detail
    assert score(actual, EDIT, history=HISTORY).reward == 1.0


@pytest.mark.parametrize("actual", UNSEEN)
def test_of_a_file_that_was_not_seen_the_texts_that_are_replaced_decide(score: Callable[..., Any], actual: Any) -> None:
    for other in (EDIT, SED):
        found = score(other, actual)
        assert found.reward == 1.0, found.detail


@pytest.mark.parametrize("actual", NOT_SEEN_SAME)
@pytest.mark.parametrize("history", [HISTORY, []])
def test_another_change_scores_0(score: Callable[..., Any], actual: Any, history: Any) -> None:
    for expected in (EDIT, SED):
        if history or actual != create(TEXT.replace(OLD, NEW)):
            assert score(expected, actual, history=history).reward == 0.0


UNSEEN_OTHERS = [
    (SED, sh(f"sed -i '5s/{OLD}/{NEW}/' {PATH}")),
    (sh(f"sed -i 's/foo/bar/' {PATH}"), editor("foo", "bar")),
    (sh(f"sed -i 's/foo/bar/' {PATH}"), sh(f"sed -i 's/foo/bar/g' {PATH}")),
    (sh(f"sed -i 's/a.*b/x/' {PATH}"), sh(f"sed -i 's/a.b/x/' {PATH}")),
    (sh(f"cat >> {PATH} <<'E'\nx\nE"), sh(f"cat > {PATH} <<'E'\nx\nE")),
    (sh("rm -rf build"), sh("rm build")),
    (sh("rm a.py"), sh("git rm a.py")),
    (sh("mv a.py b.py"), sh("cp a.py b.py")),
    (editor("x = 1", "x = 2"), editor("x = 1", "x = 2  # rest of the line")),
    (editor("x  # a", "x  # b"), editor("x  # a", "x  # c")),
    (create("# a\n"), create("# b\n")),
    (create("a  \n", "/r/a.md"), create("a\n", "/r/a.md")),
    (create('x = """a  \n"""\n'), create('x = """a\n"""\n')),
    (create('"""Say a."""\n'), create('"""Say b."""\n')),
    (create('{"a": 1}\n', "/r/a.json"), create('{"a": true}\n', "/r/a.json")),
    (create('{"a": [1, 2]}\n', "/r/a.json"), create('{"a": [2, 1]}\n', "/r/a.json")),
    (create("a(`x\ny`);\n", "/r/a.js"), create("a(`x\n\ny`);\n", "/r/a.js")),
    (create("// @ts-ignore\na();\n", "/r/a.ts"), create("// @ts-ignore\n\na();\n", "/r/a.ts")),
    (create("//go:build linux\npackage a\n", "/r/a.go"), create("//go:build linux\n\npackage a\n", "/r/a.go")),
    (create("#define A \\\n1\n", "/r/a.c"), create("#define A \\\n\n1\n", "/r/a.c")),
    (create("a\nb\n", "/r/a.rb"), create("a\n\nb\n", "/r/a.rb")),
]


@pytest.mark.parametrize(("expected", "actual"), UNSEEN_OTHERS)
def test_what_the_file_decides_is_not_the_same_where_it_is_not_known(
    score: Callable[..., Any], expected: Any, actual: Any
) -> None:
    assert score(expected, actual).reward == 0.0


LOOKS = [
    (create("x = 'a'\n"), create('x = "a"  # the first\n')),
    (create("if a:\n    b\n"), create("if a:\n  b\n")),
    (editor("    return x + 1", "    return x + 2"), editor("    return x + 1", "    return  x + 2")),
    (create("a: 1\n", "/r/a.yaml"), create("a: 1 \n\n", "/r/a.yaml")),
    (create('{"a": 1, "b": [true]}\n', "/r/a.json"), create('{\n"b": [true],\n"a": 1}', "/r/a.json")),
    (create("// one\n{}\n", "/r/a.json"), create("// one \n{}\n", "/r/a.json")),
    (create("a();\nb();\n", "/r/a.js"), create("a();\n\nb();\n", "/r/a.js")),
    (sh("rm a.py"), sh("rm -f ./a.py")),
    (sh("echo 'a = 1' >> a.py"), sh("cat >> a.py <<'E'\na = 1\nE")),
    (sh("> a.py"), sh("truncate -s 0 a.py")),
    (
        sh("sed -i '3a\\x = 1' a.py"),
        ("str_replace_editor", {"command": "insert", "path": "a.py", "insert_line": 3, "new_str": "x = 1"}),
    ),
]


@pytest.mark.parametrize(("expected", "actual"), LOOKS)
def test_looks_and_means_make_no_difference(score: Callable[..., Any], expected: Any, actual: Any) -> None:
    found = score(expected, actual)
    assert found.reward == 1.0, found.detail


@pytest.mark.parametrize(("expected", "actual"), LOOKS[:7])
def test_looks_make_one_where_they_are_set_to_count(score: Callable[..., Any], expected: Any, actual: Any) -> None:
    assert score(expected, actual, edit_looks_count=True).reward == 0.0
