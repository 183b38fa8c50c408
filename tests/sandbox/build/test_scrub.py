"""Real repositories with a secret that HEAD does not reach, each by another channel: found before, gone after."""

from collections.abc import Callable

import pytest

from paddock.processes.command import CommandResult
from paddock.sandbox.images.build import check_scrubbed, scrub_commands

Inside = Callable[..., CommandResult]
pytestmark = pytest.mark.sandbox

START = """
export GIT_AUTHOR_DATE=2020-01-01T00:00:00Z GIT_COMMITTER_DATE=2020-01-01T00:00:00Z
mkdir -p /testbed /srv; cd /testbed; git init -q
one() { echo "$1" >> code.py; git add -A; git commit -q -m "$1"; }
one first; one base
"""
CHANNELS = {
    "a later commit on another branch": "git checkout -q -b next; one SECRET; git checkout -q main",
    "an annotated tag": "git checkout -q --detach; one SECRET; git tag -a v2 -m SECRET; git checkout -q main",
    "a packed later commit": "git checkout -q -b next; one SECRET; git checkout -q main; git gc -q",
    "a reflog": "one SECRET; git reset -q --hard HEAD~1",
    "a packed unreachable commit": (
        "git checkout -q -b n; one SECRET; git repack -adq; git checkout -q main; git branch -qD n; rm -rf .git/logs"
    ),
    "a kept pack": "one SECRET; git repack -adq; touch .git/objects/pack/$(cd .git/objects/pack; ls | grep pack$ |"
    " sed s/.pack$/.keep/); git reset -q --hard HEAD~1; rm -rf .git/logs .git/ORIG_HEAD",
    "a stash": "echo SECRET >> code.py; git stash -q",
    "a staged and abandoned blob": "echo SECRET | git hash-object -w --stdin",
    "a staged change": "echo SECRET > new.py; git add new.py; rm new.py",
    "notes": "git notes add -m SECRET",
    "a replacement": "one SECRET; new=$(git rev-parse HEAD); git reset -q --hard HEAD~1; git replace HEAD $new;"
    " rm -rf .git/logs",
    "grafts": "one SECRET; new=$(git rev-parse HEAD); git reset -q --hard HEAD~1; rm -rf .git/logs .git/ORIG_HEAD;"
    " echo $(git rev-parse HEAD) $new > .git/info/grafts",
    "a remote with its fetched branches": (
        "git clone -q /testbed /srv/up; cd /srv/up; one SECRET; cd /testbed; git remote add up /srv/up;"
        " git fetch -q up; rm -rf /srv/up"
    ),
    "FETCH_HEAD alone": (
        "git clone -q /testbed /srv/up; cd /srv/up; one SECRET; cd /testbed; git fetch -q /srv/up; rm -rf /srv/up"
    ),
    "alternates": (
        "mv /testbed /srv/full; cd /srv/full; git checkout -q -b next; one SECRET; git checkout -q main;"
        " git clone -q --shared /srv/full /testbed; cd /testbed; git remote remove origin"
    ),
    "another worktree of ours": "git worktree add -q -b next /srv/next; cd /srv/next; one SECRET; cd /testbed",
    "being a worktree of another": (
        "mv /testbed /srv/full; cd /srv/full; git checkout -q -b next; one SECRET; git worktree add -q /testbed main"
    ),
    "a detached HEAD below a branch": "git checkout -q -b next; one SECRET; git checkout -q --detach HEAD~1",
    "a submodule's store": (
        "mkdir /srv/sub; cd /srv/sub; git init -q; one subbase; git checkout -q -b next; one SECRET;"
        " git checkout -q main; cd /testbed; git -c protocol.file.allow=always submodule add -q /srv/sub sub;"
        " git commit -q -m sub; rm -rf /srv/sub"
    ),
    "a repository in the tree": (
        "mkdir vendored; cd vendored; git init -q; one vbase; one SECRET; git reset -q --hard HEAD~1; cd .."
    ),
    "a bare copy elsewhere": (
        "git checkout -q -b next; one SECRET; git clone -q --bare . /opt/copy.git; git checkout -q main;"
        " git branch -qD next; rm -rf .git/logs; git gc -q --prune=now"
    ),
    "a merge in progress": (
        "git checkout -q -b next; one SECRET; git checkout -q main; one ours; git merge -q next || true;"
        " git checkout -q -f HEAD -- code.py; git branch -qD next"
    ),
}
AFTER = """
cd /testbed
git fsck --full --strict 2>&1 | grep -v ^notice || true
git cat-file --batch-all-objects --batch --buffer | grep -a SECRET && echo LEAK
for folder in */.git; do git -C "$(dirname $folder)" log --all -p 2>/dev/null | grep SECRET && echo LEAK; done
grep -rIl SECRET /testbed /srv /opt && echo LEAK
git for-each-ref | wc -l
"""


def section(name: str, script: str) -> str:
    return f"echo '== {name}'\n({script})\n"


def told(output: str) -> dict[str, str]:
    """Output by section."""
    parts = output.split("== ")[1:]
    return {name: body.strip() for name, _, body in (part.partition("\n") for part in parts)}


@pytest.mark.parametrize("channel", CHANNELS)
def test_what_head_does_not_reach_is_found_and_then_gone(channel: str, inside: Inside) -> None:
    head = "cd /testbed; GIT_NO_REPLACE_OBJECTS=1 git rev-parse HEAD; cat code.py"
    script = (
        section("make", START + CHANNELS[channel])
        + section("before", head)
        + section("found", check_scrubbed("/testbed"))
        + section("scrub", scrub_commands("/testbed"))
        + section("left", check_scrubbed("/testbed"))
        + section("after", head)
        + section("search", AFTER)
    )
    done = inside(script)
    parts = told(done.output)
    assert done.code == 0, done.output
    assert parts["found"], "the check must see it"
    assert parts["scrub"] == ""
    assert parts["left"] == ""
    assert parts["after"] == parts["before"]
    assert parts["search"] == "1", "one branch, no leak, no damage"


def test_a_clean_repository_has_no_finding_and_keeps_its_history_status_and_settings(
    inside: Inside,
) -> None:
    look = (
        "cd /testbed; git log --format='%H %s'; git status --porcelain; cat .git/info/exclude;"
        " git config core.autocrlf; git symbolic-ref HEAD"
    )
    change = (
        "git config core.autocrlf input; git branch -m work; echo '*.log' > .git/info/exclude; echo x >> code.py;"
        " touch a.log new.py; rm -rf .git/logs"
    )
    script = (
        section("make", START + change)
        + section("found", check_scrubbed("/testbed"))
        + section("before", look)
        + section("scrub", scrub_commands("/testbed"))
        + section("after", look)
    )
    parts = told(inside(script).output)
    assert parts["found"] == ""
    assert parts["after"] == parts["before"]
    assert "refs/heads/work" in parts["after"]
    assert "M code.py\n?? new.py\n*.log\ninput" in parts["after"]


def test_one_commit_may_replace_a_history_and_leaves_hidden_files_out_of_it(
    inside: Inside,
) -> None:
    make = START + "mkdir hidden; echo SECRET > hidden/test.py; one tests; echo SECRET > gone.py; one more;"
    make += "git rm -q gone.py; one last"
    hidden = ["/testbed/hidden"]
    script = (
        section("make", make)
        + section("kept", scrub_commands("/testbed", hidden) + "\n" + check_scrubbed("/testbed", hidden))
        + section("scrub", scrub_commands("/testbed", hidden, single_commit=True))
        + section("left", check_scrubbed("/testbed", hidden))
        + section("log", "cd /testbed; git log --format='%an %s'; git status --porcelain; git ls-files")
        + section("search", AFTER)
    )
    parts = told(inside(script).output)
    assert "hidden path in history" in parts["kept"]
    assert parts["left"] == ""
    assert parts["log"] == "Paddock base\ncode.py"
    assert parts["search"] == "1"


def test_a_shallow_history_stays_shallow_and_whole(inside: Inside) -> None:
    make = (
        START + "one third; mv /testbed /srv/full; git clone -q --depth 2 file:///srv/full /testbed; rm -rf /srv/full"
    )
    look = "cd /testbed; git log --format=%s; git fsck --full 2>&1 | grep -v ^notice"
    script = (
        section("make", make)
        + section("scrub", scrub_commands("/testbed"))
        + section("left", check_scrubbed("/testbed"))
        + section("look", look)
    )
    parts = told(inside(script).output)
    assert parts["left"] == ""
    assert parts["look"] == "third\nbase"


def test_a_history_that_is_not_whole_fails_loudly_unless_it_becomes_one_commit(
    inside: Inside,
) -> None:
    make = START + "rm -f .git/objects/$(git rev-parse HEAD~1 | sed 's|^..|&/|')"
    script = (
        section("make", make)
        + section("scrub", f"({scrub_commands('/testbed')}) 2>&1; echo code $?")
        + section("one", scrub_commands("/testbed", single_commit=True))
        + section("left", check_scrubbed("/testbed"))
    )
    parts = told(inside("set +e\n" + script).output)
    assert "code 0" not in parts["scrub"]
    assert parts["left"] == ""


def test_caches_hidden_paths_and_compiled_tests_go_and_tracked_and_installed_files_stay(
    inside: Inside,
) -> None:
    make = START + (
        "mkdir -p /root/.cache/pip/x /root/.cache/uv /home/u/.npm/_cacache /opt/miniconda3/pkgs/p"
        " /opt/miniconda3/lib tests/__pycache__ env/site-packages/__pycache__ /root/r2e;"
        " echo SECRET > /root/r2e/test.py; ln -s /root/r2e r2e_tests;"
        " touch tests/__pycache__/test_a.cpython-39.pyc env/site-packages/__pycache__/b.pyc tracked.pyc run_tests.sh;"
        " git add -f tracked.pyc; git commit -q -m pyc; rm -rf .git/logs"
    )
    hidden = ["r2e_tests", "/testbed/run_tests.sh", "/root/r2e"]
    script = (
        section("make", make)
        + section("found", check_scrubbed("/testbed", hidden))
        + section("scrub", scrub_commands("/testbed", hidden))
        + section("left", check_scrubbed("/testbed", hidden))
        + section("files", "cd /testbed; find . -name .git -prune -o -type f -print | sort; ls /opt/miniconda3 /root")
    )
    parts = told(inside(script).output)
    for sign in (
        "/root/.cache/pip",
        "/root/.cache/uv",
        "_cacache",
        "pkgs",
        "test_a",
        "r2e_tests",
        "run_tests",
        "/root/r2e",
    ):
        assert sign in parts["found"]
    assert parts["left"] == ""
    assert parts["files"].split() == [
        "./code.py",
        "./env/site-packages/__pycache__/b.pyc",
        "./tracked.pyc",
        "/opt/miniconda3:",
        "lib",
        "/root:",
    ]


def test_a_tree_without_a_repository_is_no_error(inside: Inside) -> None:
    script = "mkdir /testbed; touch /testbed/x.pyc\n" + section("scrub", scrub_commands("/testbed", ["gone"]))
    done = inside(script + section("left", check_scrubbed("/testbed", ["gone"])))
    assert told(done.output) == {"scrub": "", "left": ""}


@pytest.mark.parametrize("tool", ["find", "sort", "cut", "grep"])
@pytest.mark.parametrize("script", [check_scrubbed, scrub_commands])
def test_a_tool_that_does_not_work_is_no_clean_repository(
    tool: str, script: Callable[[str], str], inside: Inside
) -> None:
    broken = f"mkdir /broken; printf 'exit 127' > /broken/{tool}; chmod +x /broken/{tool}; PATH=/broken:$PATH"
    done = inside(f"{START}one SECRET; git reset -q --hard HEAD~1\n{broken}\n(set +e\n{script('/testbed')}\n)")
    assert done.code != 0, done.output
