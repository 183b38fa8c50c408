"""Claims about our environments in NeMo-RL: set up by its own names, in a package that has nothing else of it."""

import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from paddock.errors import ConfigError
from paddock.training.nemo_rl.install import spinup_gym_actor, use_actor, use_shim

ROOT = Path(__file__).parents[3]
FILES = {
    "nemo_rl/environments/nemo_gym.py": "def spinup_nemo_gym_actor():\n    return 'theirs'\n",
    "nemo_rl/algorithms/grpo.py": "from nemo_rl.environments.nemo_gym import spinup_nemo_gym_actor\n",
    "nemo_rl/distributed/ray_actor_environment_registry.py": "ACTOR_ENVIRONMENT_REGISTRY = {}\n",
    "nemo_rl/distributed/virtual_cluster.py": "class PY_EXECUTABLES:\n    SYSTEM = 'this one'\n",
}


@pytest.fixture
def nemo_rl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in [name for name in sys.modules if name.partition(".")[0] in ("nemo_rl", "nemo_gym")]:
        del sys.modules[name]


def module(name: str) -> ModuleType:
    return importlib.import_module(name)


def test_what_makes_their_actor_makes_ours_in_modules_of_before_and_after(nemo_rl: Path) -> None:
    grpo = module("nemo_rl.algorithms.grpo")
    (nemo_rl / "nemo_rl" / "lazy.py").write_text("def __getattr__(name):\n    raise ImportError(name)\n")
    module("nemo_rl.lazy")
    (nemo_rl / "later.py").write_text(FILES["nemo_rl/algorithms/grpo.py"])
    use_actor()
    assert grpo.spinup_nemo_gym_actor is spinup_gym_actor
    assert module("later").spinup_nemo_gym_actor is spinup_gym_actor
    sys.modules.pop("later")
    use_actor()
    assert grpo.spinup_nemo_gym_actor is spinup_gym_actor, "a second time changes nothing"


def test_their_actor_runs_where_the_shim_is(nemo_rl: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "shims")
    use_shim()
    registry = module("nemo_rl.distributed.ray_actor_environment_registry").ACTOR_ENVIRONMENT_REGISTRY
    assert registry == {"nemo_rl.environments.nemo_gym.NemoGym": "this one"}


def test_another_nemo_gym_is_not_taken_for_ours(nemo_rl: Path) -> None:
    with pytest.raises(ConfigError, match="PYTHONPATH"):
        use_shim()
    (nemo_rl / "nemo_gym").mkdir()
    (nemo_rl / "nemo_gym" / "__init__.py").write_text("")
    importlib.invalidate_caches()
    with pytest.raises(ConfigError, match=r"is the one in .*: put the folder `shims`"):
        use_shim()
    assert module("nemo_rl.distributed.ray_actor_environment_registry").ACTOR_ENVIRONMENT_REGISTRY == {}


def test_without_nemo_rl_it_is_said() -> None:
    with pytest.raises(ConfigError, match=r"nemo_rl\.environments\.nemo_gym"):
        use_actor()


@pytest.mark.slow
def test_a_script_of_theirs_runs_with_ours_in_it(nemo_rl: Path) -> None:
    script = nemo_rl / "examples" / "run.py"
    script.parent.mkdir()
    script.write_text("import sys, beside; from nemo_rl.algorithms.grpo import *; print(sys.argv[1:], beside.here,")
    script.write_text(script.read_text() + " spinup_nemo_gym_actor.__name__)\n")
    (script.parent / "beside.py").write_text("here = 1\n")
    module = "paddock.training.nemo_rl"
    command: list[str | Path] = [sys.executable, "-m", module, "--actor", script, "--config", "x.yaml"]
    ran = subprocess.run(command, env={"PYTHONPATH": str(nemo_rl)}, capture_output=True, text=True, timeout=100)
    assert ran.stdout == "['--config', 'x.yaml'] 1 spinup_gym_actor\n", ran.stderr
