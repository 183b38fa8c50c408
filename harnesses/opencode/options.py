"""Options of OpenCode's profiles."""

from pydantic import BaseModel, ConfigDict, Field


class OpenCodeOptions(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    shell: str = Field(min_length=1)
    """The program that runs commands, in the sandbox."""
    bash_timeout_ms: int = Field(gt=0)
    """Of a command whose call names none."""
    output_lines: int = Field(gt=0)
    """Of a command's output that are shown; the whole of a longer one is saved in `output_folder`."""
    output_bytes: int = Field(gt=0)
    """Likewise."""
    output_folder: str = Field(pattern="^/")
    """In the sandbox, outside of the repository."""
    read_lines: int = Field(gt=0)
    """Of a file, where a call does not say how many."""
    read_bytes: int = Field(gt=0)
    """Of a file, in one call."""
    line_chars: int = Field(gt=0)
    """Of a line that is shown; the rest is cut."""
    search_matches: int = Field(gt=0)
    """Of `grep` and `glob`."""
