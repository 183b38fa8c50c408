"""How an image is built where no registry is: a Debian base, one Python, one source tree, pinned requirements.

Tree    the source lies at `workdir`, committed to a git repository of its own (fixed author and date), with an empty
        commit on top (official eval scripts print the last commit); build products are ignored in `.git/info/exclude`.
Pins    `pip` is closed under dependencies and exact: it is installed with `--no-deps` from wheels, without a network.
        With hashes nothing but the files that these are of is installed.
Venv    at `/opt/venv`, on the image's PATH; images with one Python and the same pins share it as a layer.
"""

from typing import Self

from pydantic import Field, model_validator

from paddock.types import Record

HASH = "--hash=sha256:"


class GitSource(Record):
    """A commit of a repository; what came after it is not copied."""

    repository: str = Field(pattern=r"^[^-\x00-\x1f\x7f][^\x00-\x1f\x7f]*$")
    """An https, http or ssh URL; or a path on this machine or a file:// URL, where the operator allows its folder
    (`local_repositories`)."""
    commit: str = Field(pattern=r"^[^-+^:\s][^:\s]*$")
    """A full id or a ref's name; of a repository on this machine any name that git knows."""


class Recipe(Record):
    """What an instance's image is made of."""

    python: str = Field(pattern=r"^3\.\d+$")
    """Minor version. Debian's own where a Debian suite has it (3.11, 3.9), else a copy of an installed one."""
    sdist: str | None = None
    """`name==version`: a source distribution of the package index."""
    sdist_sha256: str | None = None
    git: GitSource | None = None
    pip: list[str] = []
    """`name==version` each, or `name==version --hash=sha256:HEX`, with one hash for each file that may be taken: all or
    none of them."""
    install: str | None = None
    """Shell command run in the tree with the environment active, after the commit."""
    env: dict[str, str] = {}
    """For `install`, and in the image; pins are installed without it."""
    workdir: str = "/testbed"

    @model_validator(mode="after")
    def _single_source(self) -> Self:
        if (self.sdist is None) == (self.git is None):
            raise ValueError("needs exactly one of sdist and git")
        if self.sdist is not None and self.sdist_sha256 is None:
            raise ValueError("sdist needs sdist_sha256: the index may not be trusted to say the same for ever")
        return self

    @model_validator(mode="after")
    def _all_or_none(self) -> Self:
        bare = [pin for pin in self.pip if HASH not in pin]
        if 0 < len(bare) < len(self.pip):
            raise ValueError(f"pip: {bare[0]!r} has no {HASH}..., and others have: either all or none")
        return self

    @property
    def is_hashed(self) -> bool:
        """Whether every pin has hashes."""
        return all(HASH in pin for pin in self.pip)
