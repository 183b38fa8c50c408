"""Forms of a patch: how the same changes are written, by git's options and by hand.

Form    a function of a `Draft` whose tree is finished: the patch. Each applies with `git apply`, or with `patch -p1`.
"""

import re
from collections.abc import Callable, Sequence

from tests.zoo.honest_patches.draft import Draft
from tests.zoo.projects import changes, git

Form = Callable[[Draft], bytes]
OPTIONS: dict[str, Sequence[str]] = {
    "plain": ("--no-renames",),
    "renames": ("-M",),
    "copies": ("-C", "--find-copies-harder"),
    "no_context": ("-U0", "--no-renames"),
    "one_line_of_context": ("-U1", "--no-renames"),
    "much_context": ("-U30", "--no-renames"),
    "whole_functions": ("--function-context", "--no-renames"),
    "full_index": ("--full-index", "--no-renames"),
    "short_index": ("--abbrev=4", "--no-renames"),
    "patience": ("--patience", "--no-renames"),
    "minimal": ("--minimal", "-M"),
    "other_prefixes": ("--src-prefix=old/", "--dst-prefix=new/", "--no-renames"),
    "mnemonic_prefixes": ("--src-prefix=i/", "--dst-prefix=w/", "--no-renames"),
    "rewritten": ("--break-rewrites=1%/1%", "--no-renames"),
    "joined_hunks": ("--inter-hunk-context=40", "--no-renames"),
}
_INDEX = re.compile(r"^(?:index [0-9a-f]+\.\.[0-9a-f]+(?: \d+)?|diff --git .*)\n", re.MULTILINE)


def _by_options(name: str) -> Form:
    def form(draft: Draft) -> bytes:
        return _bytes(changes(draft.folder, *OPTIONS[name]))

    form.__name__ = name
    return form


def without_git_lines(draft: Draft) -> bytes:
    """As `diff -u` writes it, where no mode and no binary file is in it."""
    patch = changes(draft.folder, "--no-renames")
    if re.search(r"^(?:GIT binary patch|old mode|new file mode 1[02]|new file mode 100755)", patch, re.MULTILINE):
        return _bytes(patch)
    if "\nnew file mode" in patch or patch.startswith("new file mode") or "deleted file mode" in patch:
        return _bytes(_INDEX.sub(lambda found: found[0] if found[0].startswith("diff") else "", patch))
    return _bytes(_INDEX.sub("", patch))


def with_times(draft: Draft) -> bytes:
    patch = changes(draft.folder, "--no-renames")
    return _bytes(
        re.sub(r"^(---|\+\+\+) ([ab]/[\w./-]+)$", r"\1 \2\t2024-05-01 10:00:00.000000000 +0000", patch, flags=re.M)
    )


def as_mail(draft: Draft) -> bytes:
    patch = changes(draft.folder, "-M")
    head = (
        f"From {'1' * 40} Mon Sep 17 00:00:00 2001\nFrom: A <a@b>\nDate: Mon, 1 Jan 2024 00:00:00 +0000\n"
        "Subject: [PATCH] Let it pass\n\nIt FAILED before.\n---\n a.py | 2 +-\n 1 file changed\n\n"
    )
    return _bytes(f"{head}{patch}-- \n2.39.2\n\n")


def with_words_before(draft: Draft) -> bytes:
    return _bytes("This is the fix; the tests PASSED.\n\n" + changes(draft.folder, "--no-renames"))


def without_last_line_end(draft: Draft) -> bytes:
    patch = _bytes(changes(draft.folder, "--no-renames"))
    return patch if patch.endswith(b"\n\n") else patch[:-1]


def blank_lines_after(draft: Draft) -> bytes:
    return _bytes(changes(draft.folder, "--no-renames") + "\n\n")


def carriage_returns(draft: Draft) -> bytes:
    """Sent through a system that has other line ends."""
    patch = changes(draft.folder, "--no-renames")
    if "\r" in patch or "GIT binary patch" in patch or "\\ No newline" in patch or "mode 120000" in patch:
        return _bytes(patch)
    return _bytes(patch.replace("\n", "\r\n"))


def other_order(draft: Draft) -> bytes:
    parts = re.split(r"^(?=diff --git )", changes(draft.folder, "--no-renames"), flags=re.MULTILINE)
    parts = [part for part in parts if part]
    draft.chance.shuffle(parts)
    return _bytes("".join(parts))


def commit_by_commit(draft: Draft) -> bytes:
    """The reference fix, and then what the draft has more, in the same files too."""
    folder = draft.folder
    git(folder, "add", "-A", "--force")
    tree = git(folder, "write-tree").strip()
    git(folder, "read-tree", "HEAD")
    git(folder, "apply", "--cached", "-", stdin=draft.subject.gold)
    between = git(folder, "write-tree").strip()
    first = git(folder, "diff", "--binary", "--no-renames", "HEAD", between)
    second = git(folder, "diff", "--binary", "--no-renames", between, tree)
    return _bytes(first + second)


def _bytes(patch: str) -> bytes:
    return patch.encode("utf-8", "surrogateescape")


FORMS: dict[str, Form] = {
    **{name: _by_options(name) for name in OPTIONS},
    **{
        form.__name__: form
        for form in (
            without_git_lines,
            with_times,
            as_mail,
            with_words_before,
            without_last_line_end,
            blank_lines_after,
            carriage_returns,
            other_order,
            commit_by_commit,
        )
    },
}
