"""How far `semantic` agrees with `executed`: `python -m benchmarks pivot_executed`.

Work    pairs of actions on a small repository of made-up files, drawn from families: reads, searches, listings and
        edits, each asked for by many means, about the same thing or about a neighbour of it. Both comparators judge
        each pair; `executed` is taken as the truth.
Figures precision (of what `semantic` accepts, how much is executed alike), recall (of what is executed alike, how much
        it accepts), both over all pairs and by the two means; and the pairs in which they disagree.
Env     `PIVOT_PAIRS`: how many pairs (default 1,000).
"""

import asyncio
import json
import os
import random
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

from paddock.resources_servers.pivot import semantic
from paddock.resources_servers.pivot.executed.comparator import ExecutedComparator
from paddock.resources_servers.pivot.executed.options import ExecutedOptions
from paddock.resources_servers.pivot.semantic import SemanticOptions
from paddock.resources_servers.pivot.task import read_expected
from paddock.sandbox import SandboxSettings
from paddock.sandbox.runtime_choice import open_provider
from paddock.testing.sandboxes import WORKDIR, repository_image, sandbox_home, store_of
from paddock.types.responses import call_item, make_response

PAIRS = int(os.environ.get("PIVOT_PAIRS", "1000"))
_NAMES = ("ledger", "journal", "posting", "balance")
_SHOWN = 60


def _source(name: str, size: int) -> str:
    lines = [f'"""The {name} of a small shop."""', "", f"LIMIT_{name.upper()} = 3", ""]
    for number in range(size):
        lines += ["", f"def {name}_{number}(amount):", f"    total = amount + {number}", "    return total - 1", ""]
    return "\n".join(lines) + "\n"


FILES = {f"shop/{name}.py": _source(name, 6 + 4 * index) for index, name in enumerate(_NAMES)} | {
    "README.md": "# Shop\n\nA ledger, a journal.\n",
    "tests/test_ledger.py": "def test_ledger():\n    assert True\n",
}


class Act(NamedTuple):
    """One way to do something."""

    means: str
    tool: str
    arguments: dict[str, Any]


def _sh(means: str, command: str) -> Act:
    return Act(means, "bash", {"command": command})


def _editor(means: str, **arguments: Any) -> Act:
    return Act(means, "str_replace_editor", arguments)


def reads(draw: random.Random) -> list[Act]:
    path = f"shop/{draw.choice(_NAMES)}.py"
    full, first = f"{WORKDIR}/{path}", draw.choice([1, 5, 10])
    last = first + draw.choice([5, 20])
    return [
        _sh("cat", f"cat {path}"),
        _sh("cat -n", f"cd {WORKDIR} && cat -n {path}"),
        _editor("view", command="view", path=full),
        _editor("view range", command="view", path=full, view_range=[first, last]),
        _sh("sed -n", f"sed -n '{first},{last}p' {path}"),
        _sh("head | tail", f"head -n {last} {path} | tail -n +{first}"),
        _sh("cat -n | sed", f"cat -n {full} | sed -n '{first},{last}p'"),
        _sh("head", f"head -{last} {path}"),
        Act("read_file", "read_file", {"file_path": full, "offset": first, "limit": last - first + 1}),
        _sh("python", f"python3 -c \"print(open('{path}').read())\""),
    ]


def searches(draw: random.Random) -> list[Act]:
    name = draw.choice(_NAMES)
    pattern = draw.choice([f"def {name}_1", f"LIMIT_{name.upper()}", "total = amount"])
    where = draw.choice(["shop", "."])
    return [
        _sh("grep -rn", f"grep -rn '{pattern}' {where}"),
        _sh("grep -rnE", f'cd {WORKDIR} && grep -rnE "{pattern}" {where}'),
        _sh("grep -rnF", f"grep -rnF -- '{pattern}' {where} 2>/dev/null"),
        _sh("grep --include", f"grep -rn --include='*.py' '{pattern}' {where}"),
        _sh("git grep", f"git grep -n '{pattern}' -- {where}"),
        _sh("find -exec grep", f"find {where} -name '*.py' -exec grep -n '{pattern}' {{}} +"),
        _sh("grep -l", f"grep -rl '{pattern}' {where}"),
        _sh("grep -c", f"grep -rc '{pattern}' {where}"),
        _sh("grep -i", f"grep -rni '{pattern}' {where}"),
        _sh("grep | head", f"grep -rn '{pattern}' {where} | head -20"),
        Act("grep tool", "grep", {"pattern": pattern, "path": f"{WORKDIR}/{where}"}),
    ]


def edits(draw: random.Random) -> list[Act]:
    path, number = f"shop/{draw.choice(_NAMES)}.py", draw.randrange(6)
    full, old, new = f"{WORKDIR}/{path}", f"    total = amount + {number}\n", f"    total = amount * {number}\n"
    line = FILES[path][: FILES[path].index(old)].count("\n") + 1
    body = f"s = s.replace('amount + {number}\\\\n', 'amount * {number}\\\\n')"
    return [
        _editor("str_replace", command="str_replace", path=full, old_str=old, new_str=new),
        _sh("sed -i", f"sed -i 's/amount + {number}$/amount * {number}/' {path}"),
        _sh("sed -i line", f"cd {WORKDIR} && sed -i '{line}s/+/*/' {path}"),
        _sh("sed -i all", f"sed -i 's/amount +/amount */' {path}"),
        _sh("python", f"python3 - <<'E'\np = '{path}'\ns = open(p).read()\n{body}\nopen(p, 'w').write(s)\nE"),
        _editor("str_replace other", command="str_replace", path=full, old_str=old, new_str=new.replace("*", "-")),
        _sh("git checkout", f"git checkout {path}"),
        _editor("insert", command="insert", path=full, insert_line=line, new_str="    # checked"),
    ]


def files(draw: random.Random) -> list[Act]:
    name = draw.choice(["notes.txt", "shop/extra.py"])
    text = draw.choice(["a = 1\n", "a = 1\nb = 2\n"])
    return [
        _editor("create", command="create", path=f"{WORKDIR}/{name}", file_text=text),
        _sh("heredoc", f"cat > {name} <<'E'\n{text}E"),
        _sh("tee", f"tee {name} <<'E'\n{text}E"),
        _sh("printf", f"printf '{text.encode('unicode_escape').decode()}' > {name}"),
        _sh("append", f"cat >> {name} <<'E'\n{text}E"),
        _sh("touch", f"touch {name}"),
        _sh("rm", "rm README.md"),
        _sh("rm -f", f"rm -f {WORKDIR}/README.md"),
        _sh("git rm", "git rm -q README.md"),
        _sh("mkdir", "mkdir -p out && chmod 755 out"),
        _sh("mkdir -m", "mkdir -p -m 755 out"),
    ]


def listings(draw: random.Random) -> list[Act]:
    where = draw.choice(["shop", "tests", "."])
    return [
        _sh("ls", f"ls {where}"),
        _sh("ls -la", f"ls -la {WORKDIR}/{where}"),
        _sh("ls -1", f"cd {where} && ls -1"),
        _sh("find", f"find {where} -maxdepth 1"),
        _sh("find -name", f"find {where} -name '*.py'"),
        _sh("find -type f", f"find {where} -type f -name '*.py'"),
        _sh("git ls-files", f"git ls-files {where}"),
    ]


FAMILIES: tuple[Callable[[random.Random], list[Act]], ...] = (reads, searches, edits, files, listings)


def _pairs(count: int) -> list[tuple[str, Act, Act]]:
    """Draw pairs; most about the same thing, some about two things of one family."""
    draw = random.Random(11)
    pairs: list[tuple[str, Act, Act]] = []
    while len(pairs) < count:
        family = draw.choice(FAMILIES)
        seed = draw.randrange(40)
        first = draw.choice(family(random.Random(seed)))
        second = draw.choice(family(random.Random(seed if draw.random() < 0.7 else draw.randrange(40))))
        if first != second:
            pairs.append((family.__name__, first, second))
    return pairs


def _known_files() -> list[dict[str, Any]]:
    """A history in which each file was shown once."""
    items: list[dict[str, Any]] = [{"type": "message", "role": "user", "content": f"The repository is in {WORKDIR}."}]
    for number, (path, text) in enumerate(FILES.items()):
        call = call_item("bash", json.dumps({"command": f"cat {WORKDIR}/{path}"}), f"c{number}")
        items += [call, {"type": "function_call_output", "call_id": f"c{number}", "output": text}]
    return items


async def _compare(pairs: list[tuple[str, Act, Act]]) -> dict[str, Any]:
    agree: Counter[tuple[bool, bool]] = Counter()
    by_family: dict[str, Counter[tuple[bool, bool]]] = {}
    disagreements: Counter[tuple[str, str, str, bool]] = Counter()
    shown: list[dict[str, Any]] = []
    params, options = {"input": _known_files()}, SemanticOptions(cwd=WORKDIR)
    with sandbox_home() as home:
        image = repository_image(store_of(home), "shop", FILES)
        provider = await open_provider(SandboxSettings(home=home))
        try:
            comparator = ExecutedComparator(provider, ExecutedOptions(max_cached_results=10_000))
            for family, first, second in pairs:
                action = {"type": "function_call", "name": first.tool, "arguments": json.dumps(first.arguments)}
                expected = read_expected({"expected_action": action})
                response = make_response([call_item(second.tool, json.dumps(second.arguments))], {}, model="m")
                task = {"snapshot": {"image": image, "workdir": WORKDIR}, "cwd": WORKDIR}
                truth = await comparator.compare(expected, response, task, params, options)
                if truth.extras["judged_by"] != "executed":
                    continue
                claim = semantic.compare(expected, response, params, options)
                outcome = (claim.reward == 1.0, truth.reward == 1.0)
                agree[outcome] += 1
                by_family.setdefault(family, Counter())[outcome] += 1
                if outcome[0] != outcome[1]:
                    disagreements[family, first.means, second.means, outcome[0]] += 1
                    if outcome[0] and len(shown) < _SHOWN:
                        shown.append({"expected": first.arguments, "actual": second.arguments, "why": truth.detail})
        finally:
            await provider.close()
    return {
        "all": _figures(agree),
        **{family: _figures(counts) for family, counts in sorted(by_family.items())},
        "disagreements": [
            {"family": family, "expected": first, "actual": second, "semantic": claims, "pairs": count}
            for (family, first, second, claims), count in disagreements.most_common(_SHOWN)
        ],
        "wrongly accepted": shown,
    }


def _figures(counts: Counter[tuple[bool, bool]]) -> dict[str, Any]:
    both, claimed, alike = counts[True, True], counts[True, False], counts[False, True]
    return {
        "pairs": counts.total(),
        "alike": both + alike,
        "precision": both / max(1, both + claimed),
        "recall": both / max(1, both + alike),
    }


def run() -> dict[str, Any]:
    return asyncio.run(_compare(_pairs(PAIRS)))
