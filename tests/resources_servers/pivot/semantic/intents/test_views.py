"""Claims about views of files: the same lines of the same file are the same, whatever shows them."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from paddock.types import JsonObject

Call = tuple[str, dict[str, Any]]


def view(path: str, *lines: int) -> Call:
    return "str_replace_editor", {"command": "view", "path": path} | ({"view_range": list(lines)} if lines else {})


def sh(command: str, **more: Any) -> Call:
    return "execute_bash", {"command": command, **more}


SAME = [
    (view("/w/pkg/io.py"), sh("cat /w/pkg/io.py")),
    (view("/w/pkg/io.py"), sh("cat -n /w/pkg/io.py")),
    (view("/w/pkg/io.py"), sh("cd /w/pkg && nl -ba io.py")),
    (view("/w/pkg/io.py"), sh("cd /w && cat pkg/io.py | cat -n")),
    (view("/w/pkg/io.py"), sh("sed -n '1,$p' /w/pkg/io.py")),
    (view("/w/pkg/io.py"), sh("sed -n p /w/pkg/io.py")),
    (view("/w/pkg/io.py"), sh("tail -n +1 /w/pkg/io.py")),
    (view("/w/pkg/io.py"), sh("awk '{print NR\": \"$0}' /w/pkg/io.py")),
    (view("/w/pkg/io.py"), sh("batcat --paging=never -p /w/pkg/io.py")),
    (view("/w/pkg/io.py"), sh("less /w/pkg/io.py")),
    (view("/w/pkg/io.py"), sh("grep -n '' /w/pkg/io.py")),
    (view("/w/pkg/io.py"), sh("cat < /w/pkg/io.py")),
    (view("/w/pkg/io.py"), sh("cat /w/pkg/io.py 2>/dev/null || true")),
    (view("/w/pkg/io.py"), sh("sed -n '1,150p' /w/pkg/io.py; sed -n '151,$p' /w/pkg/io.py")),
    (view("/w/.gitignore"), sh("cat /w/.gitignore")),
    (view("/w/Makefile"), sh("cat /w/Makefile")),
    (view("/w/LICENSE"), sh("cat /w/LICENSE")),
    (sh("cat /w/bin/run"), sh("less /w/bin/run")),
    (view("/w/io.py", 40, 80), sh("sed -n '40,80p' /w/io.py")),
    (view("/w/io.py", 40, 80), sh("sed -n -e 40,80p /w/io.py")),
    (view("/w/io.py", 40, 80), sh("sed -n '40,80p;81q' /w/io.py")),
    (view("/w/io.py", 40, 80), sh("sed -n '40,+40p' /w/io.py")),
    (view("/w/io.py", 40, 80), sh("sed '40,80!d' /w/io.py")),
    (view("/w/io.py", 40, 80), sh("sed -n '40,80{=;p}' /w/io.py")),
    (view("/w/io.py", 40, 80), sh("awk 'NR>=40 && NR<=80' /w/io.py")),
    (view("/w/io.py", 40, 80), sh("awk 'NR>=40&&NR<=80{print NR\": \"$0}' /w/io.py")),
    (view("/w/io.py", 40, 80), sh("awk 'NR==40,NR==80 {printf \"%4d  %s\\n\", NR, $0}' /w/io.py")),
    (view("/w/io.py", 40, 80), sh("head -80 /w/io.py | tail -41")),
    (view("/w/io.py", 40, 80), sh("head -n 80 /w/io.py | tail -n +40")),
    (view("/w/io.py", 40, 80), sh("tail -n +40 /w/io.py | head -n 41")),
    (view("/w/io.py", 40, 80), sh("cat -n /w/io.py | sed -n '40,80p'")),
    (view("/w/io.py", 40, 80), sh("nl -ba /w/io.py | sed -n 40,80p | cat")),
    (view("/w/io.py", 40, 80), sh("bat -r 40:80 /w/io.py")),
    (view("/w/io.py", 40, 80), sh("sed -n 40,60p /w/io.py && sed -n 61,80p /w/io.py")),
    (view("/w/io.py", 40, 80), sh("sed -n '40,60p;61,80p' /w/io.py")),
    (view("/w/io.py", 40, 80), sh("sed -n 38,85p /w/io.py")),
    (view("/w/io.py", 1, 30), sh("head -n 30 /w/io.py")),
    (view("/w/io.py", 1, 30), sh("cat /w/io.py | head -30")),
    (view("/w/io.py", 1, 30), sh("sed 30q /w/io.py")),
    (view("/w/io.py", 1, 10), sh("head /w/io.py")),
    (view("/w/io.py", 7, 7), sh("sed -n 7p /w/io.py")),
    (view("/w/io.py", 40, -1), sh("tail -n +40 /w/io.py")),
    (view("/w/io.py", 40, -1), sh("sed 1,39d /w/io.py")),
    (sh("tail -20 /w/io.py"), sh("cat /w/io.py | tail -n 20")),
    (view("/w/io.py"), sh("python -c \"print(open('/w/io.py').read())\"")),
    (view("/w/io.py"), sh("cd /w && python3 -c \"from pathlib import Path; print(Path('io.py').read_text())\"")),
    (view("/w/io.py"), sh("python - <<'E'\nwith open('/w/io.py', encoding='utf-8') as f:\n    print(f.read())\nE")),
    (
        view("/w/io.py"),
        sh("python3 <<'E'\nfor i, line in enumerate(open('/w/io.py'), 1):\n    print(f'{i:4}: {line}', end='')\nE"),
    ),
    (view("/w/io.py", 40, 80), sh("python -c \"print(''.join(open('/w/io.py').readlines()[39:80]))\"")),
    (view("/w/io.py", 40, 80), sh("python -c \"print(*open('/w/io.py').readlines()[39:80], sep='')\"")),
    (
        view("/w/io.py", 40, 80),
        sh("python - <<'E'\nlines = open('/w/io.py').read().split('\\n')\nprint('\\n'.join(lines[39:80]))\nE"),
    ),
    (
        view("/w/io.py", 40, 80),
        sh("python -c \"\nx = open('/w/io.py').readlines()\nfor i, l in enumerate(x[39:80]): print(i, l.rstrip())\""),
    ),
    (sh("tail -20 /w/io.py"), sh("python -c \"print(''.join(list(open('/w/io.py'))[-20:]))\"")),
    (view("/w/io.py", 7, 7), sh("python -c \"print(open('/w/io.py').readlines()[6])\"")),
    (sh("tail -n 1 /w/io.py"), sh("sed -n '$p' /w/io.py")),
    (sh("cat a.py b.py"), sh("cat b.py; cat a.py")),
    (sh("cat a.py b.py"), sh("head -n 3 a.py; echo ---; cat b.py; sed -n '4,$p' a.py")),
    (sh("cat -A Makefile"), sh("cat -vet Makefile")),
    (("read", {"filePath": "/w/io.py", "offset": 40, "limit": 41}), sh("sed -n 40,80p /w/io.py")),
    (sh("sed -n 40,80p /w/io.py"), ("read_file", {"file_path": "/w/io.py", "offset": 40, "limit": 41})),
]
DIFFERENT = [
    (sh("cat io.py"), sh("cd src && cat -n io.py")),
    (view("/w/io.py"), sh("cat /w/ios.py")),
    (view("/w/io.py"), sh("cat /w/io.py /etc/shadow")),
    (view("/w/io.py"), sh("cat -n /etc/shadow; cat /w/io.py")),
    (view("/w/io.py"), sh("cat /w/*.py")),
    (view("/w/io.py"), sh("cat /w/io.py; rm /w/io.py")),
    (view("/w/io.py"), sh("cat /w/io.py > /w/b.py")),
    (view("/w/io.py"), sh("cat /w/io.py | tee /w/b.py")),
    (view("/w/io.py"), sh("cat > /w/io.py")),
    (view("/w/io.py"), sh("cat <<E > /w/io.py\nx\nE")),
    (view("/w/io.py"), sh("cat /w/io.py &")),
    (view("/w/io.py"), sh("cat $(echo /w/io.py)")),
    (view("/w/io.py"), sh("cat /w/io.py || rm -rf /w")),
    (view("/w/io.py"), sh("LD_PRELOAD=/tmp/x.so cat /w/io.py")),
    (view("/w/io.py"), sh("cat /w/io.py", timeout=0.001)),
    (view("/w/io.py"), sh("head -n 50 /w/io.py")),
    (view("/w/io.py"), sh("head -c 100000 /w/io.py")),
    (view("/w/io.py"), sh("head -n 0 /w/io.py")),
    (view("/w/io.py"), sh("tail -n +2 /w/io.py | head -n 0")),
    (view("/w/io.py"), sh("tail -f /w/io.py")),
    (view("/w/io.py"), sh("tac /w/io.py")),
    (view("/w/io.py"), sh("cat -A /w/io.py")),
    (view("/w/io.py"), sh("cat -s /w/io.py")),
    (view("/w/io.py"), sh("wc -l /w/io.py")),
    (view("/w/io.py"), sh("cat /w/io.py | wc -l")),
    (view("/w/io.py"), sh("cat /w/io.py | grep def")),
    (view("/w/io.py"), sh("cat /w/io.py; cat /w/io.py")),
    (view("/w/io.py"), sh("head -n 50 /w/io.py; cat /w/io.py")),
    (view("/w/io.py"), sh("sed -i p /w/io.py")),
    (view("/w/io.py"), sh("sed p /w/io.py")),
    (view("/w/io.py"), sh("sed -n '/def/p' /w/io.py")),
    (view("/w/io.py"), sh("sed -n 'w /w/b.py' /w/io.py")),
    (view("/w/io.py"), sh("awk '{print $1}' /w/io.py")),
    (view("/w/io.py"), sh("awk 'NR>=1\n{print}' /w/io.py")),
    (view("/w/io.py"), sh("awk '{printNR}' /w/io.py")),
    (view("/w/io.py"), sh("awk '{print > \"/w/b.py\"}' /w/io.py")),
    (view("/w/io.py"), sh("cd /etc && cat /w/io.py")),
    (view("/w/io.py"), sh("file /w/io.py")),
    (view("/w/pkg"), sh("cat /w/pkg")),
    (view("/w/io.py"), sh("python -c \"open('/w/io.py').read()\"")),
    (view("/w/io.py"), sh("python -c \"print(open('/w/io.py', 'w').read())\"")),
    (view("/w/io.py"), sh("python -c \"print(open('/w/io.py').read()[:100])\"")),
    (view("/w/io.py"), sh("python -c \"print(len(open('/w/io.py').read()))\"")),
    (view("/w/io.py"), sh("python -c \"print(open('/w/io.py').read()); import os; os.remove('/w/io.py')\"")),
    (view("/w/io.py"), sh("python -c \"f = open('/w/io.py'); x = f.read(); print(f.read())\"")),
    (view("/w/io.py"), sh("python -c \"print(open('/w/io.py').read()); print(open('/w/b.py').read())\"")),
    (view("/w/io.py"), sh("python -c \"\nfor l in open('/w/io.py'): print('x')\"")),
    (view("/w/io.py"), sh("python -c \"\nfor l in open('/w/io.py'): print(f'{l:.3}')\"")),
    (view("/w/io.py"), sh("python -c \"\nfor l in open('/w/io.py'): print(l[:10])\"")),
    (view("/w/io.py"), sh("python -c \"\nfor l in open('/w/io.py'): print(l) if 'x' in l else None\"")),
    (view("/w/io.py"), sh("python -c \"print(eval('1')); print(open('/w/io.py').read())\"")),
    (view("/w/io.py"), sh("cat /w/io.py | python -c \"print(open('/w/io.py').read())\"")),
    (view("/w/io.py", 40, 80), sh("cat /w/io.py")),
    (view("/w/io.py", 40, 80), sh("sed -n 42,80p /w/io.py")),
    (view("/w/io.py", 40, 80), sh("sed -n 1,180p /w/io.py")),
    (view("/w/io.py", 40, 80), sh("sed -n '40p;80p' /w/io.py")),
    (view("/w/io.py", 40, 80), sh("sed -n '40,80p;80q;q' /w/io.py")),
    (view("/w/io.py", 40, 80), sh("sed -n '50q;40,80p' /w/io.py")),
    (view("/w/io.py", 40, 80), sh("sed -n 40,80p -i /w/io.py")),
    (view("/w/io.py", 40, 80), sh("sed -n 40,80p /w/a.py /w/io.py")),
    (view("/w/io.py", 40, 80), sh("sed -n 40,60p /w/io.py; sed -n 61,80p /w/a.py")),
    (view("/w/io.py", 40, 80), sh("sed -n 40,60p /w/io.py; sed -n 62,80p /w/io.py")),
    (view("/w/io.py", 40, 80), sh("head -80 /w/io.py")),
    (view("/w/io.py", 40, 80), sh("tail -41 /w/io.py")),
    (view("/w/io.py", 40, 80), sh("awk 'NR>=40 || NR<=80' /w/io.py")),
    (view("/w/io.py", 40, 80), sh("awk 'NR==80,NR==40' /w/io.py")),
    (view("/w/io.py", 40, 80), sh("awk 'NR%40==0' /w/io.py")),
    (view("/w/io.py", 40, 80), sh("sed -n 40,80p /w/io.py | head -5")),
    (view("/w/io.py", 40, 80), sh("sed -n 40,80p /w/io.py | tail -5")),
    (view("/w/io.py", 40, 80), sh(f"sed -n 40,{'8' * 5000}p /w/io.py")),
    (sh("tail -20 /w/io.py"), sh("head -20 /w/io.py")),
    (sh("tail -20 /w/io.py"), sh("tail -10 /w/io.py")),
    (sh("tail -20 /w/io.py"), sh("cat /w/io.py")),
    (sh("tail -5 a.py b.py"), sh("tail -5 a.py; tail -5 b.py")),
    (sh("cat a.py b.py"), sh("cat a.py")),
    (sh("cat a.py"), sh("cat a.py b.py")),
    (sh("cat -A Makefile"), sh("cat Makefile")),
    (sh("cat a.py && echo SUBMIT_ALL"), sh("cat a.py")),
]


@pytest.mark.parametrize(("expected", "actual"), SAME)
def test_views_of_the_same_lines_are_the_same(score: Callable[..., Any], expected: Call, actual: Call) -> None:
    assert score(expected, actual).reward == 1


@pytest.mark.parametrize(("expected", "actual"), DIFFERENT)
def test_a_view_of_something_else_is_not_the_same(score: Callable[..., Any], expected: Call, actual: Call) -> None:
    assert score(expected, actual).reward == 0


def known(path: str, lines: int) -> list[JsonObject]:
    """Return a history in which the whole of a file of so many lines is shown."""
    arguments = json.dumps({"command": f"cat {path}"})
    text = "".join(f"line {number}\n" for number in range(1, lines + 1))
    return [
        {"type": "function_call", "name": "execute_bash", "call_id": "c", "arguments": arguments},
        {"type": "function_call_output", "call_id": "c", "output": text},
    ]


@pytest.mark.parametrize(
    ("actual", "reward"),
    [
        (view("/w/io.py", 1, 500), 1),
        (sh("cat /w/io.py | head -500"), 1),
        (sh("sed -n 1,120p /w/io.py"), 1),
        (sh("tail -n 120 /w/io.py"), 1),
        (sh("sed -n 1,119p /w/io.py"), 0),
        (sh("tail -n 100 /w/io.py"), 0),
    ],
)
def test_a_known_length_ends_what_a_view_shows(score: Callable[..., Any], actual: Call, reward: float) -> None:
    assert score(view("/w/io.py"), actual, history=known("/w/io.py", 120)).reward == reward
    assert score(view("/w/io.py"), sh("head -n 500 /w/io.py")).reward == 0


def test_the_tail_of_a_head_ends_where_the_file_does(score: Callable[..., Any]) -> None:
    call = sh("head -n 100 /w/io.py | tail -n 20")
    assert score(view("/w/io.py", 81, 100), call, history=known("/w/io.py", 200)).reward == 1
    assert score(view("/w/io.py", 81, 100), call, history=known("/w/io.py", 60)).reward == 0
    assert score(view("/w/io.py", 41, 60), call, history=known("/w/io.py", 60)).reward == 1


def test_what_a_command_prints_beside_a_file_is_not_taken_for_its_text(score: Callable[..., Any]) -> None:
    history = known("/w/io.py", 3)
    history[0]["arguments"] = json.dumps({"command": "echo head; cat /w/io.py"})
    assert score(view("/w/io.py"), view("/w/io.py", 1, 500), history=history).reward == 0
