"""Pairs on a small repository of made-up files.

Draw    from families: reads, searches, listings and edits, each asked for by many means, about the same thing or about
        a neighbour of it.
"""

import json
import random
from collections.abc import Callable
from typing import Any

from benchmarks.pivot_executed.pairs import Act, ActionPair, Start, editor, shell
from paddock.testing.sandboxes import WORKDIR
from paddock.types.responses import call_item

_NAMES = ("ledger", "journal", "posting", "balance")


def _source(name: str, size: int) -> str:
    lines = [f'"""The {name} of a small shop."""', "", f"LIMIT_{name.upper()} = 3", ""]
    for number in range(size):
        lines += ["", f"def {name}_{number}(amount):", f"    total = amount + {number}", "    return total - 1", ""]
    return "\n".join(lines) + "\n"


FILES = {f"shop/{name}.py": _source(name, 6 + 4 * index) for index, name in enumerate(_NAMES)} | {
    "README.md": "# Shop\n\nA ledger, a journal.\n",
    "tests/test_ledger.py": "def test_ledger():\n    assert True\n",
}


def reads(draw: random.Random) -> list[Act]:
    path = f"shop/{draw.choice(_NAMES)}.py"
    full, first = f"{WORKDIR}/{path}", draw.choice([1, 5, 10])
    last = first + draw.choice([5, 20])
    return [
        shell("cat", f"cat {path}"),
        shell("cat -n", f"cd {WORKDIR} && cat -n {path}"),
        editor("view", command="view", path=full),
        editor("view range", command="view", path=full, view_range=[first, last]),
        shell("sed -n", f"sed -n '{first},{last}p' {path}"),
        shell("head | tail", f"head -n {last} {path} | tail -n +{first}"),
        shell("cat -n | sed", f"cat -n {full} | sed -n '{first},{last}p'"),
        shell("head", f"head -{last} {path}"),
        Act("read_file", "read_file", {"file_path": full, "offset": first, "limit": last - first + 1}),
        shell("python", f"python3 -c \"print(open('{path}').read())\""),
    ]


def searches(draw: random.Random) -> list[Act]:
    name = draw.choice(_NAMES)
    pattern = draw.choice([f"def {name}_1", f"LIMIT_{name.upper()}", "total = amount"])
    where = draw.choice(["shop", "."])
    return [
        shell("grep -rn", f"grep -rn '{pattern}' {where}"),
        shell("grep -rnE", f'cd {WORKDIR} && grep -rnE "{pattern}" {where}'),
        shell("grep -rnF", f"grep -rnF -- '{pattern}' {where} 2>/dev/null"),
        shell("grep --include", f"grep -rn --include='*.py' '{pattern}' {where}"),
        shell("git grep", f"git grep -n '{pattern}' -- {where}"),
        shell("find -exec grep", f"find {where} -name '*.py' -exec grep -n '{pattern}' {{}} +"),
        shell("grep -l", f"grep -rl '{pattern}' {where}"),
        shell("grep -c", f"grep -rc '{pattern}' {where}"),
        shell("grep -i", f"grep -rni '{pattern}' {where}"),
        shell("grep | head", f"grep -rn '{pattern}' {where} | head -20"),
        Act("grep tool", "grep", {"pattern": pattern, "path": f"{WORKDIR}/{where}"}),
    ]


def edits(draw: random.Random) -> list[Act]:
    path, number = f"shop/{draw.choice(_NAMES)}.py", draw.randrange(6)
    full, old, new = f"{WORKDIR}/{path}", f"    total = amount + {number}\n", f"    total = amount * {number}\n"
    line = FILES[path][: FILES[path].index(old)].count("\n") + 1
    body = f"s = s.replace('amount + {number}\\\\n', 'amount * {number}\\\\n')"
    return [
        editor("str_replace", command="str_replace", path=full, old_str=old, new_str=new),
        shell("sed -i", f"sed -i 's/amount + {number}$/amount * {number}/' {path}"),
        shell("sed -i line", f"cd {WORKDIR} && sed -i '{line}s/+/*/' {path}"),
        shell("sed -i all", f"sed -i 's/amount +/amount */' {path}"),
        shell("python", f"python3 - <<'E'\np = '{path}'\ns = open(p).read()\n{body}\nopen(p, 'w').write(s)\nE"),
        editor("str_replace other", command="str_replace", path=full, old_str=old, new_str=new.replace("*", "-")),
        shell("git checkout", f"git checkout {path}"),
        editor("insert", command="insert", path=full, insert_line=line, new_str="    # checked"),
    ]


def files(draw: random.Random) -> list[Act]:
    name = draw.choice(["notes.txt", "shop/extra.py"])
    text = draw.choice(["a = 1\n", "a = 1\nb = 2\n"])
    return [
        editor("create", command="create", path=f"{WORKDIR}/{name}", file_text=text),
        shell("heredoc", f"cat > {name} <<'E'\n{text}E"),
        shell("tee", f"tee {name} <<'E'\n{text}E"),
        shell("printf", f"printf '{text.encode('unicode_escape').decode()}' > {name}"),
        shell("append", f"cat >> {name} <<'E'\n{text}E"),
        shell("touch", f"touch {name}"),
        shell("rm", "rm README.md"),
        shell("rm -f", f"rm -f {WORKDIR}/README.md"),
        shell("git rm", "git rm -q README.md"),
        shell("mkdir", "mkdir -p out && chmod 755 out"),
        shell("mkdir -m", "mkdir -p -m 755 out"),
    ]


def listings(draw: random.Random) -> list[Act]:
    where = draw.choice(["shop", "tests", "."])
    return [
        shell("ls", f"ls {where}"),
        shell("ls -la", f"ls -la {WORKDIR}/{where}"),
        shell("ls -1", f"cd {where} && ls -1"),
        shell("find", f"find {where} -maxdepth 1"),
        shell("find -name", f"find {where} -name '*.py'"),
        shell("find -type f", f"find {where} -type f -name '*.py'"),
        shell("git ls-files", f"git ls-files {where}"),
    ]


FAMILIES: tuple[Callable[[random.Random], list[Act]], ...] = (reads, searches, edits, files, listings)


def made_up_pairs(count: int, image: str) -> list[ActionPair]:
    """Draw pairs; most about the same thing, some about two things of one family."""
    draw = random.Random(11)
    start = Start(image, WORKDIR, _known_files())
    pairs: list[ActionPair] = []
    while len(pairs) < count:
        family = draw.choice(FAMILIES)
        seed = draw.randrange(40)
        first = draw.choice(family(random.Random(seed)))
        second = draw.choice(family(random.Random(seed if draw.random() < 0.7 else draw.randrange(40))))
        if first != second:
            pairs.append(ActionPair(family.__name__, first, second, start))
    return pairs


def _known_files() -> list[dict[str, Any]]:
    """A history in which each file was shown once."""
    items: list[dict[str, Any]] = [{"type": "message", "role": "user", "content": f"The repository is in {WORKDIR}."}]
    for number, (path, text) in enumerate(FILES.items()):
        call = call_item("bash", json.dumps({"command": f"cat {WORKDIR}/{path}"}), f"c{number}")
        items += [call, {"type": "function_call_output", "call_id": f"c{number}", "output": text}]
    return items
