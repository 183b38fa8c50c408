"""Claims about the example notebook: it runs as it is, offline, and shows verdicts with their reasons."""

from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

read: Any = nbformat.read  # it has no types
NOTEBOOK = Path(__file__).parents[2] / "examples" / "pivot.ipynb"


def executed(folder: Path) -> Any:
    """The notebook after a run in `folder`."""
    notebook = read(NOTEBOOK, as_version=4)
    client = NotebookClient(notebook, timeout=30, kernel_name="python3", resources={"metadata": {"path": str(folder)}})
    return client.execute()


def shown(notebook: Any) -> list[str]:
    """What the code cells showed, as HTML where there is any."""
    data = (output.get("data", {}) for cell in notebook.cells for output in cell.get("outputs", []))
    return [item.get("text/html", item.get("text/plain", "")) for item in data if item]


def test_the_notebook_is_committed_without_outputs() -> None:
    notebook = read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    assert all(not cell.outputs and cell.execution_count is None for cell in notebook.cells if cell.cell_type == "code")


@pytest.mark.cli
def test_the_notebook_runs_and_says_why_a_reward_is_0(tmp_path: Path) -> None:
    html = shown(executed(tmp_path))
    rewards = [text for text in html if "<th" in text and ">reward<" in text]
    assert [">1<" in text for text in rewards] == [True, False, False, False]
    assert "expected a call" in rewards[1]
    assert ">expected<" in rewards[3]
    assert list(tmp_path.iterdir()) == []
