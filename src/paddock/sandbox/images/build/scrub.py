"""What an image may not show an agent: history beyond HEAD, package caches, hidden files. Scripts to be run inside.

Run     `sh -c <script>` in a sandbox of the image, before an agent gets it: with git and the tools of POSIX.
Scrub   exits 0 when all is done, else its error output says what failed, and the image must not be used. Working files
        stay as they are; HEAD keeps its commit id unless `single_commit`.
Check   prints one line for each thing that is still there: no output, nothing found. It trusts nothing that scrub did.
"""

from collections.abc import Sequence
from pathlib import PurePosixPath
from shlex import quote

from paddock.sandbox.images.build.history import CHECK, PRELUDE, REBUILD

_HOMES = '"$user_home" /root /home/*'
_IN_HOMES = (
    ".cache/pip .cache/uv .cache/pypoetry .cache/pipenv .cache/pdm .cache/yarn .cache/pre-commit .npm/_cacache "
    ".conda/pkgs miniconda3/pkgs anaconda3/pkgs miniforge3/pkgs mambaforge/pkgs"
)
_ANYWHERE = "/opt/*conda*/pkgs /opt/*forge*/pkgs /var/cache/apt/archives/*.deb /tmp/pip-* /tmp/uv-*"
_CACHES = f"""
for place in {_ANYWHERE}; do if [ -e "$place" ]; then cached "$place"; fi; done
for home in {_HOMES}; do
    for name in {_IN_HOMES}; do
        if [ -e "$home/$name" ]; then cached "$home/$name"; fi
    done
done
"""
_COMPILED = r"""
compiled() {  # compiled Python that git does not track, outside of installed packages
    if git -C "$workdir" rev-parse --git-dir > /dev/null 2>&1; then
        git -C "$workdir" ls-files -z --others -- '*.pyc' ':(exclude,glob)**/site-packages/**'
    else
        find "$workdir" -name site-packages -prune -o -name '*.pyc' -type f -print0
    fi
}
"""


def scrub_commands(workdir: str, hidden_paths: Sequence[str] = (), *, single_commit: bool = False) -> str:
    """A script that leaves of the repository at `workdir` what HEAD reaches, and of the image no cache nor hidden path.

    `single_commit`: HEAD becomes one commit without parents, without the hidden paths: for a history that may itself
    tell what it should not, or that is not whole.
    """
    hidden = [_absolute(workdir, path) for path in hidden_paths]
    inside = [path.relative_to(workdir) for path in hidden if path.is_relative_to(workdir)]
    return "\n".join(
        (
            f"workdir={quote(workdir)}",
            f"single={int(single_commit)}",
            _listing("hidden_inside", [str(path) for path in inside]),
            PRELUDE,
            REBUILD,
            *(f"drop {quote(str(path))}" for path in hidden),
            'cached() { rm -rf -- "$1"; }',
            _CACHES,
            _COMPILED,
            'cd "$workdir"; compiled | xargs -0 -r rm -f --',
        )
    )


def check_scrubbed(workdir: str, hidden_paths: Sequence[str] = ()) -> str:
    """A script that prints what `scrub_commands` ought to have removed and is still there."""
    hidden = [_absolute(workdir, path) for path in hidden_paths]
    tests = [
        f'if [ -e {quote(str(path))} ] || [ -L {quote(str(path))} ]; then found "hidden path: "{quote(str(path))}; fi'
        for path in hidden
    ]
    tracked = [
        f'git -C "$workdir" log --all --format="hidden path in history: %H" -1 -- {quote(str(path))} 2>/dev/null || :'
        for path in hidden
        if path.is_relative_to(workdir)
    ]
    return "\n".join(
        (
            f"workdir={quote(workdir)}",
            PRELUDE,
            CHECK,
            *tests,
            *tracked,
            'cached() { found "package cache: $1"; }',
            _CACHES,
            _COMPILED,
            "cd \"$workdir\"; compiled | tr '\\0' '\\n' | sed 's/^/compiled: /'",
        )
    )


def _absolute(workdir: str, path: str) -> PurePosixPath:
    return PurePosixPath(workdir) / path


def _listing(name: str, lines: Sequence[str]) -> str:
    body = "; ".join(f"printf '%s\\n' {quote(line)}" for line in lines) or ":"
    return f"{name}() {{ {body}; }}"
