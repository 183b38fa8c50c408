"""Other forms of an expert's command that looks or runs something, and near misses of it, by rules over its text.

Law     `forms_of` returns acts that are the same to a reader, or nearly so; which of them are alike, execution says. A
        command that no rule reads has only the forms that any command has (`any_forms`).
"""

import re
import shlex
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.pivot_executed import program_forms
from benchmarks.pivot_executed.pairs import Act, Neighbours, editor, miss, misses, shell
from paddock.shell import effects

_PATH = r"[\w./@+-]+"
_READS = tuple(
    re.compile(pattern)
    for pattern in (
        rf"(?:nl -ba|cat -n) (?P<path>{_PATH}) \| sed -n ['\"](?P<first>\d+),(?P<last>\d+)p['\"]",
        rf"sed -n ['\"](?P<first>\d+),(?P<last>\d+)p['\"] (?P<path>{_PATH})",
        rf"(?:cat|nl -ba|cat -n) (?P<path>{_PATH})",
        rf"head -(?:n ?)?(?P<last>\d+) (?P<path>{_PATH})",
    )
)
_SEARCH = re.compile(
    r"grep (?P<flags>(?:-[a-zA-Z]+(?: ?\d+)? )*)(?:'(?P<pattern>[^'/]+)'|\"(?P<plain>[^\"$`\\/]+)\")"
    rf"(?P<where>(?: {_PATH})+)"
)
_FIND = re.compile(rf"find (?P<where>{_PATH})(?P<type> -type f)? -name (?P<quote>['\"]?)(?P<name>[\w.*?-]+)(?P=quote)")
_LIST = re.compile(rf"ls(?P<flags>(?: -[a-zA-Z]+)*)(?: (?P<where>{_PATH}))?")
OTHER = "other commands"
_CD = re.compile(r"^cd /testbed && ")


def forms_of(command: str, near: Neighbours) -> tuple[str, list[Act]]:
    """Return the family of a command, and other acts of that family."""
    bare = _CD.sub("", command.strip())
    rules: tuple[tuple[str, Sequence[re.Pattern[str]], Callable[[dict[str, Any], Neighbours], list[Act]]], ...] = (
        ("reads", _READS, _reads),
        ("searches", [_SEARCH], _searches),
        ("file searches", [_FIND], _finds),
        ("listings", [_LIST], _listings),
        ("programs", [program_forms.RUN], program_forms.runs),
        ("tests", [program_forms.TESTS], program_forms.tests),
        ("removals", [program_forms.REMOVE], program_forms.removals),
        ("diffs", [program_forms.DIFF], program_forms.diffs),
    )
    for family, patterns, rule in rules:
        for pattern in patterns:
            if (match := pattern.fullmatch(bare)) is not None:
                return family, [*rule(match.groupdict(), near), *any_forms(bare, near.workdir)]
    return OTHER, any_forms(bare, near.workdir)


def any_forms(command: str, workdir: str) -> list[Act]:
    """Return forms and near misses that every command has; those of pipes where it is a simple one that looks."""
    acts = [shell("cd &&", f"cd {workdir} && {command}"), miss("and touch", f"{command}\ntouch seen.txt")]
    if "<<" in command or "\n" in command:
        return acts
    if not set(";&|") & set(command):
        acts += [
            shell("2>&1", f"{command} 2>&1"),
            shell("|| true", f"{command} || true"),
            shell("timeout", f"timeout 100 {command}"),
        ]
        if effects(command).reads_only:
            acts += [
                shell("| cat", f"{command} | cat"),
                miss("| head -1", f"{command} | head -1"),
                shell("| head -200", f"{command} | head -n 200"),
                miss("> /dev/null", f"{command} > /dev/null"),
            ]
    return acts


def _reads(found: dict[str, Any], near: Neighbours) -> list[Act]:
    path, last = found["path"], int(found.get("last") or 0)
    first = int(found.get("first") or 1)
    full = f"{near.workdir}/{path.removeprefix(near.workdir + '/').removeprefix('./')}"
    whole = [
        shell("cat", f"cat {path}"),
        shell("nl -ba", f"nl -ba {full}"),
        editor("view", command="view", path=full),
        shell("python", f"python3 -c \"print(open('{path}').read())\""),
    ]
    others = [miss("cat other", f"cat {other}") for other in near.paths if other != path][:2]
    if not last:
        return [*whole, miss("head", f"head -n 30 {path}"), miss("tail", f"tail -n +4 {path}"), *others]
    size = last - first + 1
    return [
        *whole[:3],
        *_ranges("", path, full, first, last),
        *_ranges(" wider", path, full, max(1, first - 3), last + 2)[:3],
        *misses(_ranges(" moved", path, full, first + 2, last + 2)[:4]),
        *misses(_ranges(" shorter", path, full, first, max(first, last - 1))[:4]),
        *misses(_ranges(" far wider", path, full, first, last + size + 12)[:3]),
        *(
            one
            for act in others
            for one in misses(_ranges(" other", act.arguments["command"][4:], "", first, last)[:2])
        ),
    ]


def _ranges(note: str, path: str, full: str, first: int, last: int) -> list[Act]:
    size = last - first + 1
    python = f"print(''.join(open('{path}').readlines()[{first - 1}:{last}]))"
    acts = [
        shell(f"sed -n{note}", f"sed -n '{first},{last}p' {path}"),
        shell(f"nl | sed{note}", f"nl -ba {path} | sed -n '{first},{last}p'"),
        shell(f"head | tail{note}", f"head -n {last} {path} | tail -n {size}"),
        shell(f"awk{note}", f"awk 'NR>={first} && NR<={last}' {path}"),
        shell(f"tail | head{note}", f"tail -n +{first} {path} | head -n {size}"),
        shell(f"cat -n | sed{note}", f"cat -n {path} | sed -n '{first},{last}p'"),
        shell(f"python{note}", f"python3 -c {shlex.quote(python)}"),
    ]
    if full:
        acts.insert(1, editor(f"view range{note}", command="view", path=full, view_range=[first, last]))
        acts.insert(1, Act(f"read_file{note}", "read_file", {"file_path": full, "offset": first, "limit": size}))
    return acts


def _searches(found: dict[str, Any], near: Neighbours) -> list[Act]:
    own, pattern, where = found["flags"].strip(), found["pattern"] or found["plain"], found["where"].strip()
    quoted = shlex.quote(pattern)
    letters = [letter for letter in own if letter.isalpha()]
    recursive = bool({"r", "R"} & set(letters))
    acts = [
        shell("grep, flags turned", f"grep {''.join(f'-{one} ' for one in reversed(letters))}{quoted} {where}"),
        shell("grep -e", f"grep {own} -e {quoted} {where}"),
        shell("grep 2>/dev/null", f"grep {own} {quoted} {where} 2>/dev/null"),
        shell("grep -E", f"grep {own} -E {quoted} {where}"),
        shell("git grep", f"git grep -n {quoted} -- {where}"),
        miss("grep -l", f"grep {own} -l {quoted} {where}"),
        miss("grep -c", f"grep {own} -c {quoted} {where}"),
        miss("grep -i", f"grep {own} -i {quoted} {where}"),
        miss("grep -w", f"grep {own} -w {quoted} {where}"),
        shell("grep | head", f"grep {own} {quoted} {where} | head -20"),
        miss("grep shorter", f"grep {own} {shlex.quote(pattern[:-2] or pattern)} {where}"),
        miss("grep last word", f"grep {own} {shlex.quote(pattern.split()[-1])} {where}"),
        *(miss("grep other", f"grep {own} {shlex.quote(one)} {where}") for one in near.patterns[:2] if one != pattern),
        Act("grep tool", "grep", {"pattern": pattern, "path": f"{near.workdir}/{where.removeprefix('./')}"}),
    ]
    if recursive:
        above = where.rsplit("/", 1)[0] if "/" in where else "."
        acts += [
            shell("find -exec grep", f"find {where} -type f -exec grep -nH {quoted} {{}} +"),
            miss("grep --include", f"grep {own} --include='*.py' {quoted} {where}"),
            miss("grep above", f"grep {own} {quoted} {above}"),
        ]
    elif " " not in where:
        acts += [
            shell("awk", f"awk '/{pattern}/ {{print FNR\":\"$0}}' {where}"),
            miss("sed", f"sed -n '/{pattern}/p' {where}"),
            shell("cat | grep", f"cat {where} | grep {own} {quoted}"),
            *(miss("grep elsewhere", f"grep {own} {quoted} {other}") for other in near.paths[:2] if other != where),
        ]
    return acts


def _finds(found: dict[str, Any], near: Neighbours) -> list[Act]:
    where, name, kind = found["where"], found["name"], found["type"] or ""
    return [
        shell("find quoted", f'find {where}{kind} -name "{name}"'),
        shell("find -type f", f"find {where} -type f -name '{name}'"),
        shell("find, name first", f"find {where} -name '{name}'{kind} -print"),
        shell("find from ./", f"find ./{where.removeprefix('./')}{kind} -name '{name}'"),
        miss("find -iname", f"find {where}{kind} -iname '{name}'"),
        miss("find -path", f"find {where}{kind} -path '*/{name}'"),
        miss("git ls-files", f"git ls-files -- '{where}/**/{name}'"),
        miss("find -maxdepth", f"find {where} -maxdepth 1{kind} -name '{name}'"),
        miss("find wider", f"find {where}{kind} -name '*{name[:-1]}*'"),
        miss("find from .", f"find .{kind} -name '{name}'"),
        shell("find | grep", f"find {where}{kind} | grep '{name.strip('*')}'"),
        miss("find -type d", f"find {where} -type d -name '{name}'"),
    ]


def _listings(found: dict[str, Any], near: Neighbours) -> list[Act]:
    flags, where = found["flags"], found["where"] or "."
    beside = [path.rsplit("/", 1)[0] for path in near.paths if "/" in path][:2]
    return [
        shell("ls -1", f"ls -1{flags} {where}"),
        shell("ls -la", f"ls -la {where}"),
        shell("ls", f"ls {where}"),
        shell("ls whole path", f"ls{flags} {near.workdir}/{where.removeprefix('./')}"),
        shell("ls whole path /", f"ls{flags} {near.workdir}/{where.removeprefix('./')}/"),
        shell("find", f"find {where} -maxdepth 1"),
        miss("ls -R", f"ls -R {where}"),
        miss("ls *.py", f"ls {where}/*.py"),
        miss("git ls-files", f"git ls-files {where}"),
        editor("view folder", command="view", path=f"{near.workdir}/{where.removeprefix('./')}"),
        *(miss("ls other", f"ls{flags} {other}") for other in beside if other != where),
    ]
