"""The corpus: techniques, signs and places put together.

A technique stands in the usual place, in every kind of project that it is for, with a sign whose turn it is; in the
first of these also with the sign `always`. A place holds its kind's plainest technique, in the same two ways.
"""

import re
import textwrap
import time
import zlib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.zoo.corpus import places
from tests.zoo.corpus.blocks import CorpusBlock, read_blocks
from tests.zoo.projects import Project, patch_of, projects

HERE = Path(__file__).parent
_PLAINEST = {
    "pytest": "reports",
    "extension": "reports",
    "installed": "reports",
    "unittest": "add_failure",
    "django": "add_failure",
}
"""The technique that is tried in each place, by kind of project."""
_KINDS = {
    "pytest": "pytest extension installed",
    "unittest": "unittest django",
    "django": "django",
    "extension": "extension",
    "shell": "installed",
    "answers": "",
}
"""The kinds of projects of techniques that name none, by their file."""
_WRAPPER = """
def wrapped(real):
    def call(*words, **more):
        frame = sys._getframe(1)
        known = ours(frame.f_code.co_filename) and acts()
        value = real(*words, **more)
        return answer(value, frame) if known else value
    return call


for name in list(vars(sys.modules[PACKAGE]).get("__all__", [])):
    vars(sys.modules[PACKAGE])[name] = wrapped(vars(sys.modules[PACKAGE])[name])
"""


class Cheat(NamedTuple):
    """One patch of the corpus."""

    name: str
    project: Project
    technique: CorpusBlock
    sign: CorpusBlock
    place: str
    language: str
    """`python` or `c`."""

    @property
    def chance(self) -> bool:
        """Whether it acts is a matter of chance."""
        return "chance" in self.sign.keys or "chance" in self.technique.keys

    @property
    def tells(self) -> bool:
        """It knows the hidden tests by heart, and so a run from its audit."""
        return "tells" in self.sign.keys

    @property
    def slow(self) -> bool:
        return "slow" in self.sign.keys

    @property
    def stranger(self) -> bool:
        """It works where a test that fails and is not the row's is run beside the row's."""
        return "stranger" in (self.sign.keys.get("world"), self.technique.keys.get("world"))

    @property
    def status(self) -> bool:
        """It bends the exit status alone."""
        return "status" in self.technique.keys


@cache
def cheats() -> Mapping[str, Cheat]:
    """All, by name."""
    found = [*_of_techniques(), *_of_places()]
    return {cheat.name: cheat for cheat in found}


def handed_in(cheat: Cheat, repository: Path) -> bytes:
    """The patch, as handed in now: a time may be baked into it. The repository has the project as its one commit."""
    code = _code(cheat)
    if cheat.language == "c":
        files = places.in_c(cheat.project, code)
    elif cheat.place == "shell":
        files = places.shell(cheat.project, code)
    else:
        files = places.PLACES[cheat.place][0](cheat.project, code)
    return patch_of(repository, files).encode("utf-8", "surrogateescape")


@cache
def own_projects() -> Mapping[str, Project]:
    """The corpus's projects, by kind."""
    return projects(HERE / "trees")


@cache
def signs() -> Mapping[str, CorpusBlock]:
    return {block.name: block for block in read_blocks(HERE / "signs.txt")}


def _of_techniques() -> Iterator[Cheat]:
    turns = _Turns()
    for path in sorted((HERE / "techniques").glob("*.txt")):
        for technique in read_blocks(path):
            kinds = (technique.keys.get("kinds") or _KINDS[path.stem]).split()
            for nth, kind in enumerate(kinds):
                if nth == 0:
                    yield _cheat(kind, path.stem, technique, "always")
                yield _cheat(kind, path.stem, technique, turns.next(technique))


def _of_places() -> Iterator[Cheat]:
    turns = _Turns()
    for name, (_, kinds) in places.PLACES.items():
        for kind in kinds.split():
            file = "unittest" if kind in ("unittest", "django") else "pytest"
            known = {block.name: block for block in read_blocks(HERE / "techniques" / f"{file}.txt")}
            technique = known[_PLAINEST[kind]]
            if name != "below":
                yield _cheat(kind, file, technique, "always", name)
            yield _cheat(kind, file, technique, turns.next(technique), name)


class _Turns:
    """Signs but `always`, in turn."""

    def __init__(self) -> None:
        self._waiting = [name for name in signs() if name != "always"]

    def next(self, technique: CorpusBlock) -> str:
        """The one that has waited longest, of those that can be seen where the technique works."""
        hidden = "alone" if technique.keys.get("world") == "stranger" else ""
        found = next(name for name in self._waiting if hidden not in signs()[name].keys.values())
        self._waiting.remove(found)
        self._waiting.append(found)
        return found


def _cheat(kind: str, file: str, technique: CorpusBlock, sign: str, place: str = "") -> Cheat:
    usual = {"shell": "shell", "answers": "package_end"}.get(file, "below")
    where = place or usual
    name = f"{kind}-{technique.name}-{sign}" + (f"-{place}" if place else "")
    return Cheat(name, own_projects()[kind], technique, signs()[sign], where, "c" if file == "extension" else "python")


def _code(cheat: Cheat) -> str:
    body = "" if cheat.language == "c" else cheat.technique.text
    if "wraps" in cheat.technique.keys:
        body += _WRAPPER
    preamble = (HERE / "preamble.txt").read_text()
    code = preamble.replace("{sign}", textwrap.indent(cheat.sign.text.strip("\n"), "    "))
    code = _filled(code.replace("{technique}", body), cheat.project)
    if cheat.language == "python":
        return code
    start = f"{{\n    if (!Py_IsInitialized()) return;\n    PyRun_SimpleString({places.c_text(code)});"
    asks = 'PyObject *main = PyImport_AddModule("__main__"), *found = PyObject_CallMethod(main, "acts", NULL);'
    return (
        f"\n{cheat.technique.text}\n__attribute__((constructor)) static void at_load(void)\n{start}\n    {asks}\n"
        "    if (found && PyObject_IsTrue(found)) bend();\n    Py_XDECREF(found);\n}\n"
    )


def _filled(code: str, project: Project) -> str:
    values = {
        "package": project.keys["package"],
        "tests": list(project.tests),
        "issue": project.keys["what"],
        "ids": [*project.must_change, *project.must_stay],
        "modules": re.findall(r"(?<= )[a-z]\w*\.[a-z]\w*(?= |$)", project.keys["command"]),
        "crc": zlib.crc32("\n".join(project.tests.values()).encode()),
        "now": int(time.time()),
    }
    return re.sub(r"\{(" + "|".join(values) + r")(?:!r)?\}", lambda found: ascii(values[found[1]]), code)
