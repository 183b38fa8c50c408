"""Finds the files that a config names: other configs and data files.

Law     an absolute path is itself. Any other is looked for beside the naming file, then in the working directory, then
        in the installed package, whose plugin folders are `resources_servers/...`, `models_servers/...` and so on, last
        in NeMo-Gym's package, where PADDOCK_NEMO_GYM_PYTHON names one.
Errors  ConfigError that lists the places tried and the nearest name that exists.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

from paddock.config.nemo_gym import package_folder
from paddock.config.problems import nearest
from paddock.errors import ConfigError

PACKAGE = Path(__file__).parents[1]
_SHIPPED = "*/*/configs/*.yaml"


def search_paths(path: str | Path, *, beside: Path | None = None, cwd: str | Path | None = None) -> list[Path]:
    """The paths that `path` may mean, in the order in which they are tried."""
    wanted = Path(path).expanduser()
    if wanted.is_absolute():
        return [wanted]
    roots = [*([beside] if beside else []), Path(cwd) if cwd is not None else Path.cwd(), PACKAGE]
    return list(dict.fromkeys(root / wanted for root in roots))


def nemo_gym_paths(path: str | Path) -> list[Path]:
    """Where `path` is in NeMo-Gym's package, if there is one; a file of ours in its place comes first."""
    folder = package_folder()
    return [folder / path] if folder is not None and not Path(path).is_absolute() else []


def find_file(path: str | Path, *, beside: Path | None = None, cwd: str | Path | None = None) -> Path:
    """The first existing file that `path` means."""
    candidates = [*search_paths(path, beside=beside, cwd=cwd), *nemo_gym_paths(path)]
    file = next((candidate for candidate in candidates if candidate.is_file()), None)
    if file is None:
        raise not_found(path, candidates)
    return file


def find_folder(path: str | Path) -> Path:
    """The first existing folder that `path` means, absolute."""
    candidates = search_paths(path)
    folder = next((candidate for candidate in candidates if candidate.is_dir()), None)
    if folder is None:
        raise ConfigError(f"no folder `{path}`; tried: {', '.join(map(str, candidates))}", kind="file_not_found")
    return folder.resolve()


def not_found(path: str | Path, candidates: Iterable[Path]) -> ConfigError:
    """The error that says where `path` was looked for."""
    listed = list(candidates)
    close = nearest(str(path), _neighbours(Path(path), listed))
    hint = f"; nearest existing: `{close}`" if close else ""
    inside = next((file for folder in listed if folder.is_dir() for file in sorted(folder.glob("*.yaml"))), None)
    if inside is not None:
        hint = f": a folder of that name holds `{Path(path) / inside.name}`"
    return ConfigError(f"no file `{path}`{hint}; tried: {', '.join(map(str, listed))}", kind="file_not_found")


def _neighbours(wanted: Path, candidates: list[Path]) -> Iterator[str]:
    """Names of the same form as `wanted` that exist."""
    for candidate in candidates:
        if candidate.parent.is_dir():
            files = (file for file in candidate.parent.iterdir() if file.suffix == wanted.suffix and file.is_file())
            yield from sorted(str(wanted.with_name(file.name)) for file in files)
    yield from sorted(str(file.relative_to(PACKAGE)) for file in PACKAGE.glob(_SHIPPED))
