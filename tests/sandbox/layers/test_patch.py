"""The patch is what the agent did to the files, whatever it did to git, and applies to the image's tree."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from tests.sampling import few

from paddock.sandbox.layers import OmittedPath, PatchLimits

if TYPE_CHECKING:
    from tests.sandbox.layers.conftest import LayerWorld, Listing

pytestmark = pytest.mark.sandbox
Applied = Callable[["LayerWorld", bytes], "Listing"]

REPOSITORY = r"""
mkdir testbed && cd testbed && git init -q
mkdir -p pkg/sub docs build
printf 'one\ntwo\nthree\n' >pkg/a.py; printf 'b\n' >pkg/b.py; printf 'x\r\ny\r\n' >pkg/crlf.txt
printf 'no newline' >pkg/end.txt; printf '\000\001\377bin' >pkg/blob.bin; : >pkg/empty.py
printf 'caf\351\n' >pkg/latin.txt
printf 's\n' >pkg/sub/s.py; ln -s a.py pkg/link; printf '#!/bin/sh\n' >run.sh; chmod 755 run.sh
printf 'build/\n*.log\n!keep.log\n' >.gitignore
printf '*\n!in.txt\n' >docs/.gitignore; printf 'd\n' >docs/kept.md
printf 'tracked although ignored\n' >forced.log; printf '[core]\n\tautocrlf = input\n' >>.git/config
git add -A && git add -f forced.log docs && git commit -qm base
printf 'product\n' >build/out.o; printf 'mine.txt\n' >>.git/info/exclude
"""


def files(listing: "Listing", under: str = "") -> "Listing":
    """What git keeps of a tree: files and links without `.git`, by mode as git has it."""
    kept = {}
    for path, (kind, mode, told) in listing.items():
        if path.startswith(under) and "/.git/" not in path + "/" and kind in (0o100000, 0o120000):
            kept[path.removeprefix(under)] = [kind, bool(mode & 0o100) or kind == 0o120000, told]
    return kept


@pytest.fixture
def repository(world: "LayerWorld") -> "LayerWorld":
    world.image(REPOSITORY)
    return world


def round_trip(world: "LayerWorld", applied: Applied) -> bytes:
    made = world.patch()
    assert made.left_out == []
    assert made.litter_files == 0
    assert files(applied(world, made.data)) == files(world.merged(), "/testbed")
    return made.data


EDITS = {
    "an_edit": "printf 'one\n2\nthree\n' >pkg/a.py",
    "many": "printf 'n\n' >pkg/n.py; rm pkg/b.py; mv pkg/a.py pkg/moved.py; chmod +x pkg/sub/s.py; chmod 644 run.sh",
    "chmod_only": "chmod 755 pkg/a.py; chmod 600 pkg/b.py",
    "line_ends": r"printf 'x\r\nz\r\n' >pkg/crlf.txt; printf 'no newline\n' >pkg/end.txt; printf 'b' >pkg/b.py",
    "binary_and_empty": r"""printf '\000\002\377other' >pkg/blob.bin; : >pkg/b.py; : >pkg/e2.py
        printf '\000' >n.bin; rm pkg/empty.py""",
    "latin": r"printf 'th\351\n' >pkg/latin.txt; printf '\377\376' >pkg/utf16",
    "odd_names": r"""printf 1 >"$(printf 'caf\351')"; printf 1 >"$(printf 'a\nb\t')"; printf 1 >' sp '
        printf 1 >'"q"'; printf 1 >'b\s'
        printf 1 >'ünï'; printf 1 >':(top)x'; printf 1 >-n; printf 1 >'{a => b}'; mkdir 'a b'; printf 1 >'a b/ b c'""",
    "folder_for_file": "rm pkg/a.py && mkdir pkg/a.py && printf 1 >pkg/a.py/x",
    "file_for_folder": "rm -rf pkg/sub && printf 1 >pkg/sub",
    "link_for_folder": "rm -rf pkg/sub && ln -s ../docs pkg/sub",
    "link_for_file": "ln -sf b.py pkg/a.py",
    "file_for_link": "rm pkg/link && printf 'a.py' >pkg/link",
    "folder_for_link": "rm pkg/link && mkdir pkg/link && printf 1 >pkg/link/x",
    "links_turned": "ln -sfn /etc/passwd pkg/link; ln -s nowhere dangling; ln -s . self",
    "package_made_again": "rm -rf pkg && mkdir -p pkg/sub && printf 's\n' >pkg/sub/s.py && printf 'n\n' >pkg/n.py",
    "everything_removed": "git rm -rq --cached . && rm -rf pkg docs run.sh .gitignore forced.log",
    "tracked_but_ignored": "printf 'more\n' >>forced.log; printf 'more\n' >>docs/kept.md",
    "untracked_not_ignored": "printf 1 >keep.log; printf 1 >docs/in.txt; mkdir -p new/deep; printf 1 >new/deep/f",
    "committed": "printf 'c\n' >pkg/c.py; rm pkg/b.py; git add .; git commit -qm x; printf 'd\n' >d.py; git add d.py",
    "git_removed": "rm -rf .git; printf 'c\n' >pkg/a.py",
    "git_made_new": "rm -rf .git; git init -q; git add -A; git commit -qm mine; printf 'c\n' >pkg/a.py",
    "stashed_and_popped": "printf 'c\n' >pkg/a.py; git stash -q; git stash pop -q",
    "touched_only": "find . -name '*.py' -exec touch {} +",
    "large": "seq 200000 >seq; seq 200000 | sort >pkg/a.py",
    "attributes": r"printf '* -text diff=x filter=x\n*.py binary\n' >.gitattributes; printf 1 >pkg/a.py",
}
QUICK = ["many", "line_ends", "binary_and_empty", "odd_names", "folder_for_link", "link_for_folder", "links_turned"]
QUICK += ["package_made_again", "tracked_but_ignored", "committed", "git_made_new", "touched_only", "attributes"]


@pytest.mark.slow
@pytest.mark.parametrize("edit", few(EDITS, QUICK, pytest.mark.long))
def test_the_patch_gives_exactly_the_agents_tree(repository: "LayerWorld", applied: Applied, edit: str) -> None:
    repository.run("cd testbed; " + EDITS[edit])
    assert bool(round_trip(repository, applied)) == (edit != "touched_only")


def test_an_edit_reads_as_git_writes_it(repository: "LayerWorld") -> None:
    repository.run(r"cd testbed; printf 'one\n2\nthree\n' >pkg/a.py; printf 'x\r\nz\r\n' >pkg/crlf.txt")
    data = repository.patch().data
    assert b"diff --git a/pkg/a.py b/pkg/a.py\nindex " in data
    assert b"@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n" in data
    assert b" x\r\n-y\r\n+z\r\n" in data
    assert all(len(line.split()[1]) == 82 for line in data.splitlines() if line.startswith(b"index "))


def test_a_reset_leaves_nothing(repository: "LayerWorld", applied: Applied) -> None:
    repository.run(
        "cd testbed; printf 1 >pkg/a.py; rm -rf pkg/sub; printf 1 >new; git add -A; git reset -q --hard; git clean -fdq"
    )
    assert round_trip(repository, applied) == b""


def test_a_rename_is_a_removal_and_an_addition(repository: "LayerWorld") -> None:
    repository.run("cd testbed; mv pkg/a.py pkg/z.py")
    data = repository.patch().data
    assert b"rename" not in data
    assert b"deleted file mode" in data
    assert b"new file mode" in data


def test_an_image_of_layers_is_the_base(repository: "LayerWorld", applied: Applied) -> None:
    repository.run(
        "cd testbed; rm -rf pkg/sub; mkdir pkg/sub; printf 'second\n' >pkg/sub/t.py; rm pkg/b.py;"
        "git add -A; git commit -qm 2"
    )
    repository.keep()
    repository.run("cd testbed; printf 'more\n' >>pkg/sub/t.py; printf 'b again\n' >pkg/b.py; rm -rf docs")
    data = round_trip(repository, applied)
    assert b"pkg/sub/s.py" not in data


def test_litter_is_left_out_and_counted(repository: "LayerWorld") -> None:
    repository.run(
        "cd testbed; mkdir -p pkg/__pycache__ x.egg-info .pytest_cache/v node_modules/m docs/api build/lib.linux/pkg;"
        "for f in pkg/__pycache__/a.pyc x.egg-info/PKG-INFO .pytest_cache/v/c node_modules/m/i.js build/more.o e.log"
        " mine.txt docs/api/i.html pkg/sub/t.log .pkg.swp pkg/fast.so build/lib.linux/pkg/x.py; do printf 1 >$f; done;"
        "rm build/out.o; printf 'in\n' >in.py"
    )
    made = repository.patch()
    assert made.data.count(b"diff --git") == 1
    assert b"b/in.py" in made.data
    assert made.litter_files == 13
    assert made.left_out == []


def test_litter_that_git_tracks_is_no_litter(world: "LayerWorld", applied: Applied) -> None:
    world.image(
        "mkdir -p testbed/x.egg-info; cd testbed; git init -q; printf 1 >x.egg-info/PKG-INFO;"
        "git add -A; git commit -qm 1"
    )
    world.run("cd testbed; printf 2 >x.egg-info/PKG-INFO")
    assert b"PKG-INFO" in round_trip(world, applied)


def test_an_image_may_say_that_litter_is_none(world: "LayerWorld", applied: Applied) -> None:
    world.image("mkdir testbed; cd testbed; git init -q; printf '!*.orig\n' >.gitignore; git add -A; git commit -qm 1")
    world.run("cd testbed; printf 2 >case.orig")
    assert b"case.orig" in round_trip(world, applied)


@pytest.mark.slow
@pytest.mark.parametrize("version", [2, 3, 4])
def test_any_form_of_the_index_is_read(world: "LayerWorld", version: int) -> None:
    world.image(
        "mkdir testbed; cd testbed; git init -q; printf '*.log\n' >.gitignore; printf 1 >a.log; printf 1 >b.log;"
        f"git add -f .; git commit -qm 1; git add -f b.log; git update-index --index-version {version}"
    )
    world.run("cd testbed; printf 2 >a.log; printf 2 >c.log")
    made = world.patch()
    assert b"a/a.log" in made.data
    assert (made.litter_files, b"c.log" in made.data) == (1, False)


def test_a_split_index_is_read(world: "LayerWorld") -> None:
    world.image(
        "mkdir testbed; cd testbed; git init -q; printf '*.log\n' >.gitignore; printf 1 >a.log; git add -f .;"
        "git commit -qm 1; git update-index --split-index; printf 1 >b.log; git add -f b.log;"
        "ls .git | grep -q sharedindex"
    )
    world.run("cd testbed; printf 2 >a.log; printf 2 >b.log; printf 2 >c.log")
    made = world.patch()
    assert (made.data.count(b"diff --git"), made.litter_files) == (2, 1)


def test_a_callers_patterns_are_for_files_that_git_does_not_track(repository: "LayerWorld") -> None:
    repository.run("cd testbed; printf 1 >keep.log; printf 1 >new.py; mkdir t; printf 1 >t/x.py; printf 1 >pkg/a.py")
    made = repository.patch(exclude=("*.py", "keep.log"))
    assert made.data.count(b"diff --git") == 1
    assert b"pkg/a.py" in made.data
    assert made.litter_files == 3


@pytest.mark.parametrize("git", ["true", "printf 'gitdir: ../elsewhere\n' >.git"])
def test_without_a_repository_everything_is_untracked(world: "LayerWorld", applied: Applied, git: str) -> None:
    world.image(f"mkdir -p testbed/out; cd testbed; printf 'out/\n' >.gitignore; printf 1 >out/f; printf 1 >a; {git}")
    world.run("cd testbed; printf 2 >out/f; printf 2 >a; printf 2 >b")
    made = world.patch()
    assert (made.data.count(b"diff --git"), made.litter_files) == (2, 1)


def test_ignore_rules_of_the_agent_judge_nothing(repository: "LayerWorld") -> None:
    repository.run(
        "cd testbed; printf '*\n' >.gitignore; printf '*\n' >pkg/.gitignore; printf '*\n' >>.git/info/exclude;"
        "printf '!*.log\n' >docs/.gitignore; git config core.excludesFile /testbed/.gitignore;"
        "printf 1 >new.py; printf 1 >x.log"
    )
    made = repository.patch()
    changed = [line.split()[3] for line in made.data.splitlines() if line.startswith(b"diff --git")]
    assert changed == [b"b/.gitignore", b"b/docs/.gitignore", b"b/new.py", b"b/pkg/.gitignore"]
    assert made.litter_files == 1


def test_nothing_that_an_agent_configures_is_run(repository: "LayerWorld") -> None:
    """Filters, diff drivers, fsmonitor, hooks, aliases, includes, a git of its own: a marker would tell."""
    marked = repository.home / "marked"
    marked.mkdir()
    marked.chmod(0o777)
    marker = marked / "ran"
    repository.run(
        f"""cd testbed; hit="sh -c 'touch {marker}'"
        for key in core.fsmonitor core.pager core.sshCommand core.askPass diff.external diff.evil.textconv \\
            diff.evil.command filter.evil.clean filter.evil.smudge filter.evil.process alias.diff-tree gpg.program
        do git config $key "$hit"; done
        printf '* filter=evil diff=evil\n' >.gitattributes; cp .gitattributes .git/info/attributes
        mkdir hooks bin; printf "#!/bin/sh\n$hit" >bin/git; chmod 755 bin/git
        for hook in post-index-change reference-transaction pre-commit; do cp -p bin/git hooks/$hook; done
        printf 'changed\n' >pkg/a.py; printf 1 >new.py
        git config filter.evil.required true; git config core.hooksPath /testbed/hooks; git config include.path ../x
        git config core.attributesFile /testbed/.gitattributes; git status || git diff || true"""
    )
    assert marker.exists()
    marker.unlink()
    made = repository.patch()
    assert b"+changed" in made.data
    assert not marker.exists()


def test_surroundings_of_the_host_do_not_matter(repository: "LayerWorld", monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "GIT_DIR": "/nonexistent",
        "GIT_INDEX_FILE": "/nonexistent",
        "GIT_EXTERNAL_DIFF": "false",
        "GIT_DIFF_OPTS": "-u0",
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "core.quotePath",
        "GIT_CONFIG_VALUE_0": "false",
    }.items():
        monkeypatch.setenv(name, value)
    repository.run(
        r"cd testbed; printf 'one\n2\nthree\n' >pkg/a.py; printf 1 >ü; printf 1 >forced.log; printf 1 >x.log"
    )
    made = repository.patch()
    assert b"--- a/pkg/a.py\n+++ b/pkg/a.py\n@@ -1,3 +1,3 @@" in made.data
    assert b'"b/\\303\\274"' in made.data
    assert (made.data.count(b"diff --git"), made.litter_files) == (3, 1)


def test_git_folders_are_no_part_of_it_at_any_depth(repository: "LayerWorld", applied: Applied) -> None:
    repository.run(
        "cd testbed; mkdir -p vendor/lib; cd vendor/lib; git init -q; printf 1 >f; git add f; git commit -qm 1;"
        "cd ../..;"
        "mkdir wt; printf 'gitdir: /elsewhere\n' >wt/.git; printf 1 >wt/g"
    )
    data = round_trip(repository, applied)
    assert b".git/" not in data
    assert data.count(b"diff --git") == 2


@pytest.mark.slow
def test_links_out_of_the_tree_carry_nothing_in(repository: "LayerWorld", applied: Applied) -> None:
    secret = repository.home / "secret"
    secret.write_text("the host's secret")
    repository.run(
        f"cd testbed; ln -sf {secret} pkg/a.py; rm -rf pkg/sub; ln -s {repository.home} pkg/sub;"
        "rm -rf .git; ln -s / .git"
    )
    data = round_trip(repository, applied)
    assert b"the host" not in data
    assert str(secret).encode() in data


def test_the_root_swapped_for_a_link_is_a_removal(repository: "LayerWorld") -> None:
    repository.run("cp -a testbed other; rm -rf testbed; ln -s other testbed")
    made = repository.patch()
    assert made.data.count(b"deleted file mode") == made.data.count(b"diff --git") == 14


def test_what_git_cannot_carry_is_left_out_and_told(repository: "LayerWorld", applied: Applied) -> None:
    repository.run(
        "cd testbed; mkfifo pipe; rm pkg/b.py; mkfifo pkg/b.py; mkdir .GIT 'git~1' pkg/x; printf 1 >.GIT/c;"
        "printf 1 >'git~1/c'; ln -s a .gitmodules; printf 1 >pkg/x/.Git;"
        "/usr/bin/python3 -c \"import socket; socket.socket(socket.AF_UNIX).bind('sock')\""
    )
    made = repository.patch()
    assert {(left.path, left.reason) for left in made.left_out} == {
        ("pipe", "special"),
        ("sock", "special"),
        ("pkg/b.py", "special"),
        (".GIT/c", "name"),
        ("git~1/c", "name"),
        ("pkg/x/.Git", "name"),
        (".gitmodules", "name"),
    }
    assert set(files(repository.before(), "/testbed")) - set(files(applied(repository, made.data))) == {"/pkg/b.py"}


def test_large_files_are_left_out_and_told(repository: "LayerWorld", applied: Applied) -> None:
    repository.run("cd testbed; truncate -s 1T huge; truncate -s 3M big pkg/a.py; truncate -s 900K z; printf 1 >small")
    made = repository.patch(limits=PatchLimits(file_mib=2, total_mib=0.5))
    assert made.left_out == [
        OmittedPath(path="big", reason="file_too_large", size_bytes=3 << 20),
        OmittedPath(path="huge", reason="file_too_large", size_bytes=1 << 40),
        OmittedPath(path="pkg/a.py", reason="file_too_large", size_bytes=3 << 20),
        OmittedPath(path="z", reason="patch_too_large", size_bytes=900 << 10),
    ]
    assert set(files(applied(repository, made.data))) - set(files(repository.before(), "/testbed")) == {"/small"}


def test_what_stands_in_the_way_of_something_kept_is_left_out(world: "LayerWorld", applied: Applied) -> None:
    world.image(
        "mkdir -p testbed/d; cd testbed; git init -q; printf 'build/\n' >.gitignore; truncate -s 3M d/big f;"
        "mkdir build; printf 1 >build/o; git add -A; git commit -qm 1"
    )
    world.run("cd testbed; rm -rf d build f; printf 1 >d; printf 1 >build; mkdir f; printf 1 >f/x; printf 1 >ok")
    made = world.patch(limits=PatchLimits(file_mib=2))
    assert [(left.path, left.reason) for left in made.left_out] == [
        ("d/big", "file_too_large"),
        ("f", "file_too_large"),
        ("build", "in_the_way"),
        ("d", "in_the_way"),
        ("f/x", "in_the_way"),
    ]
    assert "/ok" in applied(world, made.data)


def test_nothing_stays_behind(repository: "LayerWorld") -> None:
    scratch = repository.home / "scratch"
    scratch.mkdir()
    repository.run("cd testbed; printf 1 >new")
    repository.patch(scratch=scratch)
    assert list(scratch.iterdir()) == []
