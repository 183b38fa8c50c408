"""Claims about the demonstrations: what their rollouts export is what NeMo-RL takes, group by group."""

from pathlib import Path

import pytest
import yaml

from paddock.cli import main

ROOT = Path(__file__).parents[3]
MODEL = "tests.training.nemo_rl.sample_results:WordCountServer"


@pytest.fixture(autouse=True)
def endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the demonstrations' configs name, and a scripted model takes the place of."""
    monkeypatch.chdir(ROOT)
    for name in ("BASE_URL", "API_KEY", "MODEL"):
        monkeypatch.setenv(f"OPENAI_{name}", "none")


@pytest.mark.slow
@pytest.mark.parametrize(("config", "results"), [("demo", 40), ("genrm", 24)])
def test_the_rollouts_of_a_demonstration_are_accepted(
    config: str, results: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = {"policy_model": {"models_servers": {MODEL: {"turn_store": {"folder": str(tmp_path / "turns")}}}}}
    (tmp_path / "model.yaml").write_text(yaml.safe_dump(model))
    files = [f"configs/{config}.yaml", str(tmp_path / "model.yaml"), "~policy_model.models_servers.openai"]
    run = str(tmp_path / "run")
    if config == "genrm":
        files.append(f"+genrm.resources_servers.genrm.state_dir={tmp_path / 'state'}")
    assert main(["eval", *files, "--repeats", "4", "--limit", "10", "--out", run]) == 0
    capsys.readouterr()
    assert main(["samples", "check", run]) == 0
    assert capsys.readouterr().out == f"{results} results, 0 of them masked: accepted\n"
