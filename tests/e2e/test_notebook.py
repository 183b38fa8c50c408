"""Claims about the example notebooks: they run as they are, offline, and show verdicts with their reasons."""

from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from tests.e2e.conftest import HOME

from paddock.sandbox.settings import HOME_VARIABLE

read: Any = nbformat.read  # it has no types
EXAMPLES = Path(__file__).parents[2] / "examples"


def executed(name: str, folder: Path, timeout_s: int = 30) -> Any:
    """The notebook after a run in `folder`."""
    notebook = read(EXAMPLES / name, as_version=4)
    resources = {"metadata": {"path": str(folder)}}
    client = NotebookClient(notebook, timeout=timeout_s, kernel_name="python3", resources=resources)
    return client.execute()


def shown(notebook: Any) -> list[str]:
    """What the code cells showed, as HTML where there is any."""
    data = (output.get("data", {}) for cell in notebook.cells for output in cell.get("outputs", []))
    return [item.get("text/html", item.get("text/plain", "")) for item in data if item]


@pytest.mark.parametrize("name", [path.name for path in sorted(EXAMPLES.glob("*.ipynb"))])
def test_a_notebook_is_committed_without_outputs(name: str) -> None:
    notebook = read(EXAMPLES / name, as_version=4)
    nbformat.validate(notebook)
    assert all(not cell.outputs and cell.execution_count is None for cell in notebook.cells if cell.cell_type == "code")


@pytest.mark.cli
def test_the_notebook_runs_and_says_why_a_reward_is_0(tmp_path: Path) -> None:
    html = shown(executed("pivot.ipynb", tmp_path))
    rewards = [text for text in html if "<th" in text and ">reward<" in text]
    assert [">1<" in text for text in rewards] == [True, False, False, False]
    assert "expected a call" in rewards[1]
    assert ">expected<" in rewards[3]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.cli
def test_a_policy_learns_from_the_loss_of_its_rollouts(tmp_path: Path) -> None:
    texts = shown(executed("loss.ipynb", tmp_path, timeout_s=120))
    assert texts[-1] == "True"
    assert "('<|im_end|>', 1, 0.0)" in texts[1]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.cli
@pytest.mark.sandbox
@pytest.mark.slow
@pytest.mark.usefixtures("demo_rows")
def test_a_repository_is_worked_on_by_hand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(HOME_VARIABLE, str(HOME))
    html = shown(executed("swe.ipynb", tmp_path, timeout_s=240))
    assert html[-1] == "[0.0, 1.0, 0.0]"
    assert list(tmp_path.iterdir()) == []
