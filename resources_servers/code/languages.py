"""Languages as command templates, and which of them an image has.

Words   `{file}` stands for the program's file; commands run in the folder that it lies in. The command of Python is run
        once for all tests, with a program of ours in place of `{file}` (`fork_server.py`); it is Python 3.9 or newer.
"""

import sys

from pydantic import BaseModel, ConfigDict, Field, field_validator

FILE = "{file}"


class ProgramLanguage(BaseModel):
    """How a program of a language is made and run."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    file: str = Field(pattern=r"^[A-Za-z0-9_.-]+$")
    """Name of the file that the program is written to."""
    compile: list[str] | None = None
    """Command that makes it ready, run once; None: nothing to do."""
    run: list[str] = Field(min_length=1)
    """Command that runs it, once for each test."""

    @field_validator("file")
    @classmethod
    def _is_no_module(cls, file: str) -> str:
        name, _, ending = file.rpartition(".")
        if ending == "py" and name in sys.stdlib_module_names:
            raise ValueError(f"{file!r} hides a module of Python's, which `fork_server.py` would take the program for")
        return file

    @property
    def program(self) -> str:
        """What has to be installed."""
        return (self.compile or self.run)[0]

    def command(self, words: list[str]) -> list[str]:
        return [word.replace(FILE, self.file) for word in words]


LANGUAGES = {
    "python": ProgramLanguage(file="main.py", run=["python3", "{file}"]),
    "c": ProgramLanguage(
        file="main.c", compile=["gcc", "-O2", "-std=c17", "-o", "main", "{file}", "-lm"], run=["./main"]
    ),
    "cpp": ProgramLanguage(
        file="main.cpp", compile=["g++", "-O2", "-std=c++17", "-o", "main", "{file}"], run=["./main"]
    ),
    "java": ProgramLanguage(file="Main.java", compile=["javac", "{file}"], run=["java", "-Xss64m", "Main"]),
    "javascript": ProgramLanguage(file="main.js", run=["node", "{file}"]),
    "go": ProgramLanguage(file="main.go", compile=["go", "build", "-o", "main", "{file}"], run=["./main"]),
    "rust": ProgramLanguage(file="main.rs", compile=["rustc", "-O", "-o", "main", "{file}"], run=["./main"]),
    "ruby": ProgramLanguage(file="main.rb", run=["ruby", "{file}"]),
    "perl": ProgramLanguage(file="main.pl", run=["perl", "{file}"]),
    "bash": ProgramLanguage(file="main.sh", run=["bash", "{file}"]),
}
