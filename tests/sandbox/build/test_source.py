"""Claims about where a recipe's tree comes from: only a commit's files are read, and nothing of a repository runs."""

import asyncio
import os
import shutil
import subprocess
import tarfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import NamedTuple

import pytest
from pydantic import ValidationError

from paddock.errors import InfraError, RowError
from paddock.sandbox.images import GitSource, ImageStore, Recipe
from paddock.sandbox.images.build import build_image
from paddock.sandbox.images.build.index import Index, PipConfig
from paddock.sandbox.images.build.source import fetch_source
from paddock.sandbox.images.build.stage import cache, new_stage
from paddock.sandbox.settings import PAYLOAD_ID

WHO = {f"GIT_{role}_{what}": "a@b" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
ATTRIBUTES = "*.bin filter=x diff=x\n*.txt export-ignore\n*.sub export-subst\n*.id ident\n"
FILES = {".gitattributes": ATTRIBUTES, "a.txt": "text\n", "b.bin": "raw\n", "c.sub": "$Format:%H$\n", "d/e": "deep\n"}
HOOKS = ("post-checkout", "post-merge", "pre-auto-gc", "reference-transaction", "post-index-change", "pre-receive")


def git(folder: Path, *words: str) -> str:
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1", **WHO}
    return subprocess.run(
        ["git", *words], cwd=folder, env=env, check=True, capture_output=True, text=True
    ).stdout.strip()


class Planted(NamedTuple):
    """A repository and the file that appears when something of it has run."""

    folder: Path
    marker: Path

    @property
    def command(self) -> str:
        return f"sh -c 'touch {self.marker}; cat' planted"

    def setting(self, *pairs: tuple[str, str]) -> None:
        for key, value in pairs:
            git(self.folder, "config", "--add", key, value)

    def hooks(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        for name in HOOKS:
            (folder / name).write_text(f"#!/bin/sh\ntouch {self.marker}\n")
            (folder / name).chmod(0o755)

    def lose_objects(self) -> None:
        """The tree's blobs are elsewhere, as in a partial clone."""
        for line in git(self.folder, "ls-tree", "-r", "HEAD").splitlines():
            blob = line.split()[2]
            (self.folder / ".git/objects" / blob[:2] / blob[2:]).unlink()


@pytest.fixture
def planted(tmp_path: Path) -> Planted:
    folder = tmp_path / "theirs" / "repository"
    folder.mkdir(parents=True)
    for name, text in FILES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "one")
    git(folder, "tag", "v1")
    (folder / "later.py").write_text("later\n")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "two")
    return Planted(folder, tmp_path / "marker")


@pytest.fixture
def store(tmp_path: Path) -> ImageStore:
    return ImageStore(tmp_path / "store", payload_id=PAYLOAD_ID)


Fetch = Callable[..., dict[str, str]]


@pytest.fixture
def fetch(store: ImageStore, tmp_path: Path) -> Fetch:
    """The files of a commit, by path."""

    def one(repository: str | Path, commit: str = "v1", allowed: Sequence[Path] = (tmp_path,)) -> dict[str, str]:
        recipe = Recipe(python="3.11", git=GitSource(repository=str(repository), commit=commit))
        index = Index(PipConfig(["http://127.0.0.1:9"], None), cache(store, "sdists"))
        with new_stage(store) as stage:
            given = stage.folder("given")
            archive = asyncio.run(fetch_source(recipe, index, stage, given, local_repositories=allowed))
            with tarfile.open(archive) as packed:
                return {
                    one.name.removeprefix("tree/"): file.read().decode()
                    for one in packed
                    if one.isfile() and (file := packed.extractfile(one))
                }

    return one


def filters(planted: Planted) -> None:
    planted.setting(*((f"filter.x.{kind}", planted.command) for kind in ("smudge", "clean", "process")))
    planted.setting(("filter.x.required", "true"))


def lazy(planted: Planted) -> None:
    planted.setting(
        ("core.repositoryFormatVersion", "1"),
        ("extensions.partialClone", "origin"),
        ("remote.origin.url", str(planted.folder)),
        ("remote.origin.promisor", "true"),
        ("remote.origin.partialCloneFilter", "blob:none"),
        ("remote.origin.uploadpack", planted.command),
    )


def included(planted: Planted) -> None:
    more = planted.folder / ".git" / "more"
    more.write_text(f'[filter "x"]\n\tsmudge = "{planted.command}"\n[core]\n\tfsmonitor = "{planted.command}"\n')
    planted.setting(("include.path", "more"), ("includeIf.gitdir:/.path", str(more)))


def hooked(planted: Planted) -> None:
    planted.hooks(planted.folder / ".git" / "hooks")


def hooked_elsewhere(planted: Planted) -> None:
    planted.hooks(planted.folder.parent / "hooks")
    planted.setting(("core.hooksPath", str(planted.folder.parent / "hooks")))


PLANTS: dict[str, Callable[[Planted], None]] = {
    "core.fsmonitor": lambda one: one.setting(("core.fsmonitor", one.command)),
    "filter": filters,
    "hooks": hooked,
    "core.hooksPath": hooked_elsewhere,
    "core.sshCommand": lambda one: one.setting(("core.sshCommand", one.command)),
    "core.gitProxy": lambda one: one.setting(("core.gitProxy", one.command)),
    "remote.uploadpack": lambda one: one.setting(
        ("remote.origin.url", str(one.folder)), ("remote.origin.uploadpack", one.command)
    ),
    "remote.promisor": lazy,
    "include.path": included,
    "diff.external": lambda one: one.setting(
        ("diff.external", one.command), ("diff.x.command", one.command), ("diff.x.textconv", one.command)
    ),
    "tar.command": lambda one: one.setting(("tar.x.command", one.command), ("tar.tar.gz.command", one.command)),
    "core.alternateRefsCommand": lambda one: one.setting(("core.alternateRefsCommand", one.command)),
    "credential.helper": lambda one: one.setting(("credential.helper", f"!{one.command}")),
    "uploadpack.packObjectsHook": lambda one: one.setting(("uploadpack.packObjectsHook", one.command)),
    "core.pager": lambda one: one.setting(*((f"core.{key}", one.command) for key in ("pager", "editor", "askPass"))),
    "gpg.program": lambda one: one.setting(("gpg.program", one.command), ("log.showSignature", "true")),
    "alias": lambda one: one.setting(("alias.rev-parse", f"!{one.command}"), ("alias.fetch", f"!{one.command}")),
    "gc": lambda one: one.setting(("gc.auto", "1"), ("gc.recentObjectsHook", one.command), ("core.worktree", "/")),
}


@pytest.mark.parametrize("plant", PLANTS.values(), ids=PLANTS)
def test_nothing_that_a_repository_configures_runs(
    plant: Callable[[Planted], None], planted: Planted, fetch: Fetch
) -> None:
    plant(planted)
    assert fetch(planted.folder) == FILES
    assert not planted.marker.exists()


def test_nothing_of_all_that_runs_by_a_url_of_a_file(planted: Planted, fetch: Fetch) -> None:
    for plant in PLANTS.values():
        plant(planted)
    assert fetch(planted.folder.as_uri()) == FILES
    assert not planted.marker.exists()


@pytest.mark.parametrize("url", ["folder", "command"])
def test_missing_objects_are_asked_of_nobody(url: str, planted: Planted, fetch: Fetch) -> None:
    lazy(planted)
    if url == "command":
        planted.setting(("remote.origin.url", f"ext::{planted.command}"), ("protocol.ext.allow", "always"))
    planted.lose_objects()
    with pytest.raises(RowError) as caught:
        fetch(planted.folder, "main")
    assert caught.value.kind == "no_such_commit"
    assert not planted.marker.exists()


def test_commands_that_the_tree_itself_names_do_not_run(planted: Planted, fetch: Fetch) -> None:
    """A submodule's settings come with the tree."""
    text = f'[submodule "s"]\n\tpath = s\n\turl = ext::{planted.command}\n\tupdate = !touch {planted.marker}\n'
    (planted.folder / ".gitmodules").write_text(text)
    git(planted.folder, "update-index", "--add", "--cacheinfo", f"160000,{git(planted.folder, 'rev-parse', 'v1')},s")
    git(planted.folder, "add", "-A")
    git(planted.folder, "commit", "-q", "-m", "three")
    planted.setting(("submodule.recurse", "true"), ("fetch.recurseSubmodules", "true"))
    assert fetch(planted.folder, "main")[".gitmodules"] == text
    assert not planted.marker.exists()


@pytest.mark.parametrize("repository", ["ext::sh -c 'touch {}'", "fd::7", "git://127.0.0.1/x", "testgit::x"])
def test_kinds_of_repositories_that_run_commands_are_refused(repository: str, tmp_path: Path, fetch: Fetch) -> None:
    with pytest.raises(RowError, match=r"git\.repository: .* is of a kind that is not read") as caught:
        fetch(repository.format(tmp_path / "marker"))
    assert caught.value.kind == "repository_refused"
    assert not (tmp_path / "marker").exists()


@pytest.mark.parametrize(
    ("repository", "commit"),
    [
        ("--upload-pack=touch marker", "a"),
        ("-x", "a"),
        ("https://a.example/\nx", "a"),
        ("/x", "--upload-pack=touch marker"),
        ("/x", "-x"),
        ("/x", "a:refs/heads/b"),
        ("/x", "^a"),
        ("", "a"),
    ],
)
def test_names_that_git_would_take_for_something_else_are_refused(repository: str, commit: str) -> None:
    with pytest.raises(ValidationError):
        GitSource(repository=repository, commit=commit)


def test_an_ssh_host_that_is_an_option_is_no_host(tmp_path: Path, fetch: Fetch) -> None:
    with pytest.raises(RowError):
        fetch(f"ssh://-oProxyCommand=touch%20{tmp_path}/marker/x")
    assert not (tmp_path / "marker").exists()


@pytest.mark.parametrize("by_url", [False, True], ids=["path", "url"])
def test_a_repository_of_this_machine_must_be_allowed(by_url: bool, planted: Planted, fetch: Fetch) -> None:
    name = planted.folder.as_uri() if by_url else str(planted.folder)
    elsewhere = planted.folder.parent.with_name("their")  # a prefix of the name, not of the path
    for allowed in ((), (elsewhere,), (planted.folder / "d",)):
        with pytest.raises(RowError, match=r"local_repositories: \[FOLDER\].*--local-repository FOLDER") as caught:
            fetch(name, allowed=allowed)
        assert (caught.value.kind, name in caught.value.message) == ("repository_refused", True)
    assert fetch(name, allowed=(planted.folder,)) == FILES


async def test_an_image_is_refused_before_anything_is_made(planted: Planted, store: ImageStore) -> None:
    recipe = Recipe(python="3.11", git=GitSource(repository=str(planted.folder), commit="v1"))
    with pytest.raises(RowError, match=r"git\.repository: .* lies on this machine"):
        await build_image(store, "test/refused", recipe)
    assert not store.home.exists()


def linked(planted: Planted, inside: Path) -> None:
    (inside / "repository").symlink_to(planted.folder)


def git_file(planted: Planted, inside: Path) -> None:
    (inside / "repository").mkdir()
    (inside / "repository" / ".git").write_text(f"gitdir: {planted.folder / '.git'}\n")


def climbing(planted: Planted, inside: Path) -> None:
    (inside / "repository").mkdir()
    (inside / "repository" / ".git").write_text("gitdir: ../../theirs/repository/.git\n")


def borrowed(planted: Planted, inside: Path) -> None:
    git(inside, "clone", "-q", "--shared", str(planted.folder), "repository")


def worktree(planted: Planted, inside: Path) -> None:
    git(planted.folder, "worktree", "add", "-q", str(inside / "repository"), "v1")


def objects(planted: Planted, inside: Path) -> None:
    shutil.copytree(planted.folder, inside / "repository")
    shutil.rmtree(inside / "repository/.git/objects")
    (inside / "repository/.git/objects").symlink_to(planted.folder / ".git/objects")


WAYS_OUT = [linked, git_file, climbing, borrowed, worktree, objects]


@pytest.mark.parametrize("way", WAYS_OUT)
def test_no_link_leads_out_of_what_is_allowed(
    way: Callable[[Planted, Path], None], planted: Planted, tmp_path: Path, fetch: Fetch
) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    way(planted, inside)
    with pytest.raises(RowError, match=r"is read from .*/theirs/repository") as caught:
        fetch(inside / "repository", allowed=(inside,))
    assert caught.value.kind == "repository_refused"
    assert fetch(inside / "repository", allowed=(inside, planted.folder)) == FILES


def test_a_home_folder_of_nobody_names_the_field(fetch: Fetch) -> None:
    with pytest.raises(RowError, match=r"git\.repository: '~nosuchuser/x' names a home folder of a user") as caught:
        fetch("~nosuchuser/x")
    assert caught.value.kind == "repository_refused"


def test_a_commit_has_every_name_that_git_knows(planted: Planted, fetch: Fetch) -> None:
    full = git(planted.folder, "rev-parse", "v1")
    for commit in (full, full[:9], "HEAD~1", "main^", "refs/tags/v1"):
        assert fetch(planted.folder, commit) == FILES
    git(planted.folder, "pack-refs", "--all")
    git(planted.folder, "gc", "-q")
    git(planted.folder, "checkout", "-q", "v1")
    assert fetch(planted.folder, "HEAD") == fetch(planted.folder, "v1") == FILES
    bare = planted.folder.with_name("bare.git")
    git(planted.folder, "clone", "-q", "--bare", ".", str(bare))
    shallow = planted.folder.with_name("shallow")
    git(planted.folder, "clone", "-q", "--depth=1", "-b", "main", planted.folder.as_uri(), str(shallow))
    assert fetch(bare, full) == FILES
    assert fetch(shallow, "main") == {**FILES, "later.py": "later\n"}


def test_another_users_repository_can_be_read(planted: Planted, fetch: Fetch) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give files away")
    subprocess.run(["chown", "-R", f"{PAYLOAD_ID}:{PAYLOAD_ID}", planted.folder], check=True)
    assert fetch(planted.folder) == FILES


@pytest.mark.parametrize("what", ["nothing", "no repository", "a pipe for a HEAD", "wrong objects"])
def test_a_folder_without_a_repository_is_the_rows_fault(what: str, planted: Planted, fetch: Fetch) -> None:
    git_folder = planted.folder / ".git"
    if what == "nothing":
        shutil.rmtree(planted.folder)
    elif what == "no repository":
        shutil.rmtree(git_folder)
    elif what == "a pipe for a HEAD":
        (git_folder / "HEAD").unlink()
        os.mkfifo(git_folder / "HEAD")
    else:
        for line in git(planted.folder, "ls-tree", "-r", "v1").splitlines():
            path = git_folder / "objects" / line.split()[2][:2] / line.split()[2][2:]
            path.chmod(0o600)
            path.write_bytes(b"x")
    with pytest.raises(RowError) as caught:
        fetch(planted.folder)
    assert caught.value.kind == "no_such_commit"


def test_the_callers_own_repository_variables_change_nothing(
    planted: Planted, fetch: Fetch, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY"):
        monkeypatch.setenv(name, "/nowhere")
    assert fetch(planted.folder) == FILES


class Dumb(SimpleHTTPRequestHandler):
    """A repository as files, for a client with a password."""

    asked: list[str] = []

    def do_GET(self) -> None:
        if "Authorization" in self.headers:
            Dumb.asked.append(self.path)
            return super().do_GET()
        self.send_response(401)
        self.send_header("WWW-Authenticate", 'Basic realm="x"')
        self.end_headers()
        return None

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def over_http(planted: Planted) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Dumb, directory=str(planted.folder.parent)))
    thread = Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_the_operators_own_credentials_reach_a_url(
    planted: Planted, over_http: str, fetch: Fetch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server is a dumb one, which can't be fetched from in part: it is seen that it was asked with a password."""
    git(planted.folder, "update-server-info")
    Dumb.asked.clear()
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("GIT_CONFIG_GLOBAL", raising=False)
    with pytest.raises((RowError, InfraError)):
        fetch(f"{over_http}/repository/.git")
    assert Dumb.asked == []
    helper = "!f() { echo username=a; echo password=b; }; f"
    (tmp_path / ".gitconfig").write_text(f'[credential]\n\thelper = "{helper}"\n')
    with pytest.raises(RowError):
        fetch(f"{over_http}/repository/.git")
    assert any(path.startswith("/repository/.git/info/refs") for path in Dumb.asked)
