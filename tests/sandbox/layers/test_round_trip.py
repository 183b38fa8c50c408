"""Random trees, random edits: view, patch and `git apply` give the kernel's merged tree."""

import shlex
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

if TYPE_CHECKING:
    from tests.sandbox.layers.conftest import LayerWorld, Listing

pytestmark = pytest.mark.sandbox

NAMES = st.sampled_from(["a", "b", "c", "sp ace", 'q"uote', "back\\s", "ü", ":(top)", "-x", "new\nline"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)
TEXTS = st.sampled_from(
    ["", "one\n", "one\ntwo\n", "one\r\ntwo\r\n", "no end", "\\000\\377\n", "caf\\351\n", "tab\t\n"]
)
MAKE = st.tuples(st.just("write"), PATHS, TEXTS)
EDITS = st.one_of(
    MAKE,
    MAKE,
    st.tuples(st.just("remove"), PATHS),
    st.tuples(st.just("link"), PATHS, st.sampled_from(["a", "../b", "/etc", ".", "a/b"])),
    st.tuples(st.just("mode"), PATHS, st.sampled_from(["755", "644"])),
    st.tuples(st.just("move"), PATHS, PATHS),
    st.tuples(st.just("folder"), PATHS),
)
Edit = tuple[str, ...]


def script(edits: list[Edit]) -> str:
    """Edits as shell, each as far as it can be done; a path through a link is left alone: all stay in the tree."""
    lines = ["cd testbed"]
    for kind, path, *rest in edits:
        where = shlex.quote(f"./{path}")
        folder = shlex.quote(f"./{path.rpartition('/')[0]}")
        tail = [shlex.quote(f"./{word}" if kind == "move" else word) for word in rest]
        lines.append(
            {
                "write": f"fresh {folder} && test ! -d {where} && rm -f {where} && printf {tail and tail[0]} >{where}",
                "remove": f"plain {folder} && rm -rf {where}",
                "link": f"fresh {folder} && rm -rf {where} && ln -s {tail and tail[0]} {where}",
                "mode": f"plain {folder} && test -f {where} && test ! -h {where} && chmod {tail and tail[0]} {where}",
                "move": f"plain {folder} && mv -T {where} {tail and tail[0]}",
                "folder": f"fresh {folder} && rm -rf {where} && mkdir {where}",
            }[kind]
            + " 2>/dev/null || true"
        )
    return "\n".join([FUNCTIONS, *lines])


FUNCTIONS = """
plain() { test -d "$1" && test "$(realpath "$1")" = "$(realpath -s "$1")"; }
fresh() { mkdir -p "$1" && plain "$1"; }
"""


def files(listing: "Listing", under: str = "") -> "Listing":
    kept = {}
    for path, (kind, mode, told) in listing.items():
        if path.startswith(under + "/") and not path.startswith(under + "/.git/") and kind in (0o100000, 0o120000):
            kept[path.removeprefix(under)] = [kind, bool(mode & 0o100) or kind == 0o120000, told]
    return kept


def given_edits(examples: int) -> "Callable[[Callable[..., None]], Callable[..., None]]":
    """The arguments of a round trip, that many times."""

    def decorated(test: "Callable[..., None]") -> "Callable[..., None]":
        drawn = given(
            image=st.lists(MAKE, max_size=6),
            second=st.lists(EDITS, max_size=4),
            edits=st.lists(EDITS, min_size=1, max_size=8),
        )
        return settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck))(drawn(test))

    return decorated


@pytest.mark.long
@given_edits(15)
def test_view_patch_and_apply_give_the_merged_tree(
    worlds: "Callable[[], LayerWorld]",
    applied: "Callable[[LayerWorld, bytes], Listing]",
    image: list[Edit],
    second: list[Edit],
    edits: list[Edit],
) -> None:
    make_round_trip(worlds(), applied, image, second, edits)


@pytest.mark.long
@pytest.mark.timeout(600)
@given_edits(60)
def test_many_times_view_patch_and_apply_give_the_merged_tree(
    worlds: "Callable[[], LayerWorld]",
    applied: "Callable[[LayerWorld, bytes], Listing]",
    image: list[Edit],
    second: list[Edit],
    edits: list[Edit],
) -> None:
    make_round_trip(worlds(), applied, image, second, edits)


def make_round_trip(
    world: "LayerWorld",
    applied: "Callable[[LayerWorld, bytes], Listing]",
    image: list[Edit],
    second: list[Edit],
    edits: list[Edit],
) -> None:
    world.image("mkdir testbed\n" + script(image) + "\ngit init -q; git add -A; git commit -qm 1 || true")
    if second:
        world.run(script(second))
        world.keep()
    world.run(script(edits))
    before, after = world.before(), world.merged()
    told = {change.path for change in world.view.changes()}
    assert told == {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
    made = world.patch()
    # A file in the place of folders without files is what git can't apply.
    assert {left.reason for left in made.left_out} <= {"in_the_way"}
    left_out = {"/" + left.path for left in made.left_out}
    assert all(before[f"/testbed{path}"][0] == 0o040000 for path in left_out)
    wanted = {path: facts for path, facts in files(after, "/testbed").items() if path not in left_out}
    assert files(applied(world, made.data)) == wanted
