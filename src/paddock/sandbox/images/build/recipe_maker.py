"""Making a recipe: from a source and what it is known to need, to exact pins that are closed under dependencies.

Sources `name==version`, a source distribution of the index, whose sha256 is looked up; or `REPOSITORY@COMMIT`.
Pins    either what uv resolves for the image's Python, from wheels alone and as of a day (requirements, requirement
        files, the source's own `build-system.requires` and `setup_requires`; of a distribution that has a wheel its
        dependencies too), or what an environment of this machine has installed, as it is.
Hashes  of all pins; of none where no index states one of some pin, which is said.
Trust   no project's code runs: metadata of wheels, the text of `pyproject.toml` and of `setup.cfg` are read.
Errors  RowError: nothing of that name or version, requirements that contradict each other or have no wheel.
        InfraError: an index or a repository that does not answer.
"""

import configparser
import importlib.util
import json
import platform
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

from paddock.errors import InfraError, RowError, describe
from paddock.processes.command import run
from paddock.sandbox.images.build.base import Progress
from paddock.sandbox.images.build.hashes import with_hashes
from paddock.sandbox.images.build.index import Index, PipConfig, normalize, split_pin
from paddock.sandbox.images.build.local import ANYWHERE
from paddock.sandbox.images.build.source import fetch_source
from paddock.sandbox.images.build.stage import cache, new_stage
from paddock.sandbox.images.recipe import GitSource, Recipe
from paddock.sandbox.images.store import ImageStore

BUILD_REQUIRES = ("setuptools", "wheel")
"""What a tree without `build-system.requires` is built with (PEP 518)."""
SETUPTOOLS = "setuptools.build_meta"
"""What builds a tree that names no backend (PEP 517); its older form has a suffix."""
GLIBC = "2_36"
"""Of the base layer."""
_LIST = (
    "import json, importlib.metadata as metadata, sys;"
    "print(json.dumps({'python': '%d.%d' % sys.version_info[:2],"
    " 'pins': sorted({one.metadata['Name'] + '==' + one.version for one in metadata.distributions()})}))"
)


class RecipeNeeds(NamedTuple):
    """What the environment of a recipe has to have."""

    requirements: Sequence[str] = ()
    """Requirements as pip reads them."""
    files: Sequence[Path] = ()
    """Requirement files."""
    before: str | None = None
    """Only what the index had before this day (YYYY-MM-DD); None: all that it has."""
    environment: str | None = None
    """Interpreter of an environment whose packages are taken as they are; the others are empty then."""


async def make_recipe(
    store: ImageStore,
    source: str,
    python: str | None,
    needs: RecipeNeeds,
    *,
    install: str | None,
    env: dict[str, str],
    progress: Progress | None = None,
) -> Recipe:
    """The recipe; `python`: minor version of the image's, None: the environment's. `progress` is told where its pins
    have no hashes."""
    index = Index(await PipConfig.read(), cache(store, "sdists"))
    installed: list[str] | None = None
    if needs.environment is not None:
        its_python, installed = await _installed(needs.environment)
        python = python or its_python
    if python is None:
        raise RowError("which Python? Name its minor version, such as 3.11, or an environment", kind="recipe")
    bare = await _source(source, python, index)
    with new_stage(store) as stage:
        # Who has typed a path allows it.
        given = await fetch_source(bare, index, stage, stage.folder("given"), local_repositories=ANYWHERE)
        requires = _build_requires(given)
    own = split_pin(bare.sdist)[0] if bare.sdist else None
    if installed is None:
        wanted = [*needs.requirements, *requires]
        if bare.sdist and await _has_wheel(bare.sdist, index):
            wanted.append(bare.sdist)
        installed = await _resolved(wanted, needs, python, index.config)
    pins = [pin for pin in installed if own is None or normalize(split_pin(pin)[0]) != normalize(own)]
    try:
        pins = await with_hashes(pins, python, index)
    except (RowError, InfraError) as error:
        if progress:
            progress(f"its pins have no hashes: {error.message}")
    return bare.model_copy(update={"pip": pins, "install": install, "env": env})


async def _source(source: str, python: str, index: Index) -> Recipe:
    repository, at, commit = source.rpartition("@")
    if at:
        try:
            return Recipe(python=python, git=GitSource(repository=repository, commit=commit))
        except ValidationError as error:
            raise RowError(f"REPOSITORY@COMMIT: {describe(error)}", kind="recipe") from None
    path = await index.sdist(source)
    return Recipe(python=python, sdist=source, sdist_sha256=path.parent.name)


async def _has_wheel(pin: str, index: Index) -> bool:
    name, version = split_pin(pin)
    wheels = (file.name.split("-") for file in await index.files(name) if file.name.endswith(".whl"))
    return any(normalize(parts[0]) == normalize(name) and parts[1] == version for parts in wheels)


async def _resolved(requirements: Sequence[str], needs: RecipeNeeds, python: str, config: PipConfig) -> list[str]:
    if importlib.util.find_spec("uv") is None:
        raise InfraError("closing pins needs uv: pip install 'paddock[recipes]'", kind="uv_missing", retryable=False)
    with tempfile.NamedTemporaryFile("w", suffix=".in") as file:
        file.write("\n".join(requirements))
        file.flush()
        first, *others = config.indexes
        words = [
            sys.executable,
            "-m",
            "uv",
            "pip",
            "compile",
            file.name,
            *map(str, needs.files),
            "--python-version",
            python,
        ]
        words += [
            "--python-platform",
            f"{platform.machine()}-manylinux_{GLIBC}",
            "--only-binary",
            ":all:",
            "--no-config",
        ]
        words += ["--quiet", "--no-header", "--no-annotate", "--index-url", first]
        words += [word for url in others for word in ("--extra-index-url", url)]
        # As pip does: the best version of all indexes.
        words += ["--index-strategy", "unsafe-best-match"]
        words += ["--exclude-newer", needs.before] if needs.before else []
        done = await run(words, env={"SSL_CERT_FILE": config.cert} if config.cert else {})
    if done.code:
        raise RowError(f"these requirements can't be resolved for Python {python}:\n{done.tail}", kind="requirements")
    return sorted(line for line in done.output.splitlines() if "==" in line)


async def _installed(interpreter: str) -> tuple[str, list[str]]:
    """The minor version of an environment's interpreter, and pins of its packages."""
    done = await run([interpreter, "-I", "-c", _LIST])
    try:
        listing = json.loads(done.output.strip().rsplit("\n", 1)[-1])
        return listing["python"], listing["pins"]
    except (ValueError, KeyError, IndexError):
        raise InfraError(f"{interpreter} can't list its packages:\n{done.tail}", kind="environment") from None


def _build_requires(archive: Path) -> list[str]:
    files = _top_files(archive, ("pyproject.toml", "setup.cfg"))
    try:
        system = tomllib.loads(files.get("pyproject.toml", b"").decode()).get("build-system", {})
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise RowError(f"the source's pyproject.toml can't be read: {error}", kind="recipe") from None
    requires = [requirement for requirement in system.get("requires", BUILD_REQUIRES) if isinstance(requirement, str)]
    if str(system.get("build-backend", SETUPTOOLS)).startswith(SETUPTOOLS):
        # Before 70.1 setuptools asks for it when it is already at work.
        requires += ["wheel", *_setup_requires(files.get("setup.cfg", b""))]
    return list(dict.fromkeys(requires))


def _setup_requires(text: bytes) -> list[str]:
    """What setuptools asks for before it looks at anything else, one requirement a line or between semicolons."""
    parser = configparser.RawConfigParser()
    try:
        parser.read_string(text.decode())
        lines = parser.get("options", "setup_requires", fallback="").strip()
    except (UnicodeDecodeError, configparser.Error) as error:
        raise RowError(f"the source's setup.cfg can't be read: {error}", kind="recipe") from None
    # As setuptools splits its lists: lines where there are several, else semicolons (then none is a marker's).
    words = (line.split(" #")[0].strip() for line in (lines.splitlines() if "\n" in lines else lines.split(";")))
    return [word for word in words if word and not word.startswith("#")]


def _top_files(archive: Path, names: Sequence[str]) -> dict[str, bytes]:
    """The bytes of those files at the top of the archive's only folder that are there."""
    contents = {}
    if archive.suffix == ".zip":
        with zipfile.ZipFile(archive) as opened:
            for path in opened.namelist():
                if name := _top_name(path, names):
                    contents[name] = opened.read(path)
        return contents
    with tarfile.open(archive) as packed:
        for member in packed:
            name = _top_name(member.name, names)
            if name and member.isfile() and (file := packed.extractfile(member)):
                contents[name] = file.read()
    return contents


def _top_name(path: str, names: Sequence[str]) -> str | None:
    parts = Path(path).parts
    return parts[1] if len(parts) == 2 and parts[1] in names else None
