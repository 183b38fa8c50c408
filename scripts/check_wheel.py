"""Builds the wheel from a source distribution, installs it in an empty environment, imports all five plugin kinds
and the laboratory, and runs what the README and the first pages say, and more commands, in an empty folder.

A wheel with plugin folders missing builds without an error when the links in `src/paddock` were lost on the way.
"""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.support.pages import WALKED, walk  # noqa: E402 - found by the line above

PROBE = """
import importlib, importlib.resources as resources, importlib.util, paddock
for kind in ("agents", "harnesses", "models_servers", "resources_servers", "training"):
    importlib.import_module(f"paddock.{kind}")
for plugin in (
    *("agents.single_step", "agents.swe"),
    *("harnesses.gold", "harnesses.noop", "harnesses.null", "harnesses.script"),
    *("models_servers.genrm", "models_servers.openai", "models_servers.replay"),
    *("resources_servers.genrm", "resources_servers.pivot", "resources_servers.swe"),
):
    importlib.import_module(f"paddock.{plugin}")
for laboratory in ("fidelity", "wirelab"):
    importlib.import_module(f"paddock.lab.{laboratory}")
data = resources.files("paddock.resources_servers.pivot")
assert (data / "configs/pivot.yaml").is_file(), "the pivot server's configs are missing"
assert (data / "data/example.jsonl").is_file(), "the pivot server's example rows are missing"
for package, file in (
    ("resources_servers.swe", "data/example.jsonl"),
    ("agents.swe", "configs/swe_agent.yaml"),
    ("agents.swe", "prompt.jinja"),
    ("agents.swe", "prompts/root_cause.jinja"),
    ("harnesses.codex_cli", "package-lock.json"),
    ("harnesses.openhands_sdk", "requirements.lock"),
    ("sandbox.blocklist", "rules.yaml"),
    ("models_servers.genrm", "configs/genrm_model.yaml"),
    ("sandbox.keeper", "zygote.py"),
    ("configs", "demo.yaml"),
    ("configs", "recipes/one_gpu.yaml"),
    ("examples", "echo.py"),
    ("shims", "nemo_gym/__init__.py"),
    ("viewer.web", "assets/index.html"),
    ("viewer.web", "assets/vendor/preact-htm-3.1.1.js"),
    ("viewer.web", "assets/vendor/preact-htm.LICENSE"),
):
    assert resources.files("paddock").joinpath(*package.split("."), file).is_file(), f"{package} lacks {file}"
from paddock.harness import make_harness
for name in ("codeact", "codex", "opencode"):
    assert make_harness(name).prompts.system and make_harness(name).own_tools, f"{name} lacks its data"
records = (resources.files("paddock.harnesses.codex_cli") / "golden").iterdir()
assert any(file.name.endswith(".json") for file in records), "codex_cli lacks its records"
assert "site-packages" in paddock.__file__, paddock.__file__
assert importlib.util.find_spec("nemo_gym") is None, "the wheel must not stand in for NeMo-Gym: shims are put on a path"
print("wheel: ok")
"""

COMMANDS = (
    ("verify", "runs/first"),
    ("eval", "configs/swe_demo.yaml", "--agent", "gold", "--oracle", "--dry-run"),
    ("eval", "configs/genrm.yaml", "--oracle", "--dry-run"),
    ("serve", "pivot", "--dry-run"),
    ("check", "resources_server:pivot"),
)
LABORATORY = ("fidelity", "codeact", "--template", "thinking", "--scenario", "loop")
"""Needs the extra `tokenizers`."""


def run(*command: str | Path, cwd: Path) -> None:
    subprocess.run([str(part) for part in command], check=True, cwd=cwd)


@contextmanager
def scripted_model(python: Path) -> Iterator[str]:
    """The base URL of an endpoint whose model answers every question with `ok`."""
    command = [str(python), "-m", "paddock.testing.upstream"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        try:
            yield running.stdout.readline().strip()
        finally:
            running.terminate()


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run(sys.executable, "-m", "build", "--installer", "uv", "--outdir", folder / "dist", ROOT, cwd=folder)
        (wheel,) = (folder / "dist").glob("*.whl")
        run(sys.executable, "-m", "venv", "--without-pip", folder / "venv", cwd=folder)
        python = folder / "venv/bin/python"
        # A fifth of pip's time.
        install = (sys.executable, "-m", "uv", "pip", "install", "--quiet", "--python", python)
        # The versions alone: with hashes pip would want one of the wheel, and take nothing that it declares itself.
        versions = re.findall(r"^([^ #]+==[^\\\n]+)", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
        (folder / "constraints.txt").write_text("\n".join(versions))
        run(*install, "-c", folder / "constraints.txt", wheel, cwd=folder)
        run(python, "-c", PROBE, cwd=folder)
        elsewhere = folder / "elsewhere"
        elsewhere.mkdir()
        run(*install, "-c", folder / "constraints.txt", "pytest", cwd=folder)
        with scripted_model(python) as url:
            named = {"OPENAI_BASE_URL": url, "OPENAI_API_KEY": "none", "OPENAI_MODEL": "any"}
            for page in WALKED:
                n_run = walk(ROOT / page, elsewhere, python, {**os.environ, **named})
                print(f"wheel: {n_run} commands and scripts of {page}: ok")
        for command in COMMANDS:
            run(folder / "venv/bin/paddock", *command, cwd=elsewhere)
        run(*install, "-c", folder / "constraints.txt", f"{wheel}[tokenizers]", cwd=folder)
        run(folder / "venv/bin/paddock", *LABORATORY, cwd=elsewhere)


if __name__ == "__main__":
    main()
