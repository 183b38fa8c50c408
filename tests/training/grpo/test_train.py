"""Claims about what surrounds a run: whose its folder is, which devices its processes have, how rows are sampled."""

import json
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml

from paddock.errors import ConfigError, InfraError, PaddockError
from paddock.training.grpo.loop_records import RunResult
from paddock.training.grpo.read_config import RunConfig, read_config
from paddock.training.grpo.rows import n_rows_of
from paddock.training.grpo.run_lock import CONFIG, claim
from paddock.training.grpo.train import row_settings, train

AGENT = {
    "resources_server": {"type": "resources_servers", "name": "pivot"},
    "model_server": {"type": "models_servers", "name": "policy_model"},
}
TREE: dict[str, Any] = {
    "grpo": {"num_prompts_per_step": 2, "num_generations_per_prompt": 4},
    "policy": {"model_name": "model", "generation": {"val_temperature": 0.0, "max_new_tokens": 16}},
    "env": {
        "nemo_gym": {
            "pivot": {"resources_servers": {"pivot": {"comparator": "compat"}}},
            "agent": {"agents": {"single_step": AGENT}},
            "policy_model": {"models_servers": {"vllm": {"api_key": "xyzzy-1", "launch": {"dtype": "float32"}}}},
        }
    },
}


@pytest.fixture
def read(tmp_path: Path) -> Any:
    """The config with overrides."""
    rows = tmp_path / "rows.jsonl"
    rows.write_text("{}\n")
    config = tmp_path / "run.yaml"
    config.write_text(yaml.safe_dump({**TREE, "data": {"train": {"data_path": str(rows)}}}))

    def read(*overrides: str) -> RunConfig:
        return read_config(config, overrides)

    return read


def begin_run(folder: Path, read: RunConfig) -> None:
    """Claimed, and something was done."""
    claim(read, folder, resume=False)
    (folder / "metrics.jsonl").write_text("{}\n")


def test_a_folder_is_claimed_once_and_gone_on_with_by_the_same_run(tmp_path: Path, read: Any) -> None:
    begin_run(tmp_path, read())
    with pytest.raises(ConfigError, match="holds a run already"):
        claim(read(), tmp_path, resume=False)
    claim(read(), tmp_path, resume=True)
    claim(read("grpo.max_num_steps=3", "logger.progress_every_s=1"), tmp_path, resume=True)
    claim(read("grpo.async_grpo.max_generation_failures=3", "checkpointing.keep_top_k=9"), tmp_path, resume=True)


def test_a_run_goes_on_with_its_teachers_on_another_machine(tmp_path: Path, read: Any) -> None:
    def by_teacher(model: str, **server: Any) -> RunConfig:
        block = {"enabled": True, "teacher_model_by_agent_name": {"agent": model}, "servers": {model: server}}
        config: RunConfig = read(f"on_policy_distillation={json.dumps(block)}")
        return config

    begin_run(tmp_path, by_teacher("big", base_url="http://node-1:8100"))
    claim(by_teacher("big", base_url="http://node-2:8100", api_key="xyzzy-2", timeout_s=60), tmp_path, resume=True)
    assert "xyzzy" not in (tmp_path / CONFIG).read_text()
    with pytest.raises(ConfigError, match="on_policy_distillation"):
        claim(by_teacher("other", base_url="http://node-1:8100"), tmp_path, resume=True)


@pytest.mark.parametrize(
    "override",
    [
        "grpo.seed=7",
        "policy.optimizer.kwargs.lr=0.5",
        "env.nemo_gym.pivot.resources_servers.pivot.comparator=layered",
        "checkpointing.enabled=false",
        "checkpointing.checkpoint_dir=elsewhere",
    ],
)
def test_another_run_does_not_go_on_with_it(tmp_path: Path, read: Any, override: str) -> None:
    begin_run(tmp_path, read())
    with pytest.raises(ConfigError, match=override.partition("=")[0].rpartition(".")[2]):
        claim(read(override), tmp_path, resume=True)


@pytest.mark.parametrize(
    "override",
    [
        "policy.logprob_chunk_size=64",
        "policy.sequence_packing.enabled=true",
        "policy.dynamic_batching.enabled=true",
        "policy.dtensor_cfg.activation_checkpointing=true",
    ],
)
def test_a_run_that_found_no_memory_goes_on_with_less(tmp_path: Path, read: Any, override: str) -> None:
    begin_run(tmp_path, read())
    claim(read(override), tmp_path, resume=True)


def test_a_run_of_the_version_before_goes_on_where_new_settings_are_defaults(tmp_path: Path, read: Any) -> None:
    begin_run(tmp_path, read())
    stored = orjson.loads((tmp_path / CONFIG).read_bytes())
    groups = stored["train"]["paddock"]["groups"]
    groups["max_age_retries"] = groups.pop("max_retries")
    for block, key in (("policy", "logprob_chunk_size"), ("policy", "dtensor_cfg"), ("grpo", "use_dynamic_sampling")):
        del stored["train"][block][key]
    (tmp_path / CONFIG).write_bytes(orjson.dumps(stored))
    claim(read(), tmp_path, resume=True)
    for override in (
        "grpo.use_dynamic_sampling=true",
        "policy.dtensor_cfg.lora_cfg.enabled=true",
        "paddock.groups.max_retries=4",
        "policy.generation.vllm={max_concurrency: 3}",
    ):
        with pytest.raises(ConfigError, match=override.partition("=")[0]):
            claim(read(override), tmp_path, resume=True)


def test_a_run_that_never_came_to_anything_leaves_its_folder_to_the_next(tmp_path: Path, read: Any) -> None:
    claim(read("policy.model_name=misspelt"), tmp_path, resume=False)
    (tmp_path / "metrics.jsonl").write_text("")
    claim(read(), tmp_path, resume=False)
    begin_run(tmp_path, read())
    claim(read(), tmp_path, resume=True)


def test_other_rows_are_not_gone_on_with(tmp_path: Path, read: Any) -> None:
    begin_run(tmp_path, read())
    (tmp_path / "rows.jsonl").write_text('{"a": 1}\n')
    with pytest.raises(ConfigError, match=r"data\.train\.data_path"):
        claim(read(), tmp_path, resume=True)


def test_rows_that_are_not_there_leave_no_trace(tmp_path: Path, read: Any) -> None:
    config = read()
    (tmp_path / "rows.jsonl").unlink()
    with pytest.raises(ConfigError, match=r"^data\.train\.data_path: no file .*rows\.jsonl"):
        claim(config, tmp_path, resume=False)
    assert not (tmp_path / CONFIG).exists()


@pytest.mark.parametrize("resume", [False, True])
@pytest.mark.parametrize("name", ["rollouts.jsonl", "run.json", CONFIG])
def test_a_folder_of_something_else_is_not_touched(tmp_path: Path, read: Any, name: str, resume: bool) -> None:
    out = tmp_path / "collected"
    out.mkdir()
    (out / name).write_text('{"reward": 1}\n')
    with pytest.raises(ConfigError, match=r"another folder \(--out\)"):
        claim(read(), out, resume=resume)
    assert [path.name for path in out.iterdir()] == [name]


def test_checkpoints_in_a_folder_of_their_own_are_of_one_run(tmp_path: Path, read: Any) -> None:
    shared = f"checkpointing.checkpoint_dir={tmp_path / 'shared'}"
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    claim(read(shared), first, resume=False)
    claim(read(shared), first, resume=True)
    for resume in (False, True):
        with pytest.raises(ConfigError, match=rf"of the run in {first}.*null for one below --out"):
            claim(read(shared), second, resume=resume)
        assert not list(second.iterdir()), "a refused run has taken no folder"
    claim(read(shared, "checkpointing.enabled=false"), second, resume=False)


def test_checkpoints_of_nobody_knows_whom_are_not_gone_on_from(tmp_path: Path, read: Any) -> None:
    (tmp_path / "shared" / "step_3").mkdir(parents=True)
    with pytest.raises(ConfigError, match="of another run"):
        claim(read(f"checkpointing.checkpoint_dir={tmp_path / 'shared'}"), tmp_path, resume=False)


def test_a_secret_is_not_stored(tmp_path: Path, read: Any) -> None:
    claim(read("+policy.generation.vllm.api_key=xyzzy-2"), tmp_path, resume=False)
    assert "xyzzy" not in (tmp_path / CONFIG).read_text()


def test_rows_are_sampled_as_training_and_validation_say(tmp_path: Path, read: Any) -> None:
    settings = row_settings(read("policy.generation.temperature=0.8").config, tmp_path)
    assert settings.sampling == {"temperature": 0.8, "top_p": 1.0, "max_output_tokens": 16}
    assert settings.validation_sampling == {"temperature": 0.0, "top_p": 1.0, "max_output_tokens": 16}


def test_rows_that_make_no_step_are_refused(tmp_path: Path, read: Any) -> None:
    assert n_rows_of(read("grpo.max_num_epochs=2").config) == 1
    with pytest.raises(ConfigError, match=r"1 row .*num_prompts_per_step \(2\)"):
        n_rows_of(read().config)


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("policy.model_name=/no/where", "policy.model_name: there is no folder /no/where"),
        ("policy.model_name=runs/made/model", "policy.model_name: there is no folder runs/made/model"),
        ("grpo.num_prompts_per_step=9", "num_prompts_per_step"),
        ("data.train.data_path=nowhere.jsonl", "data.train.data_path: no file"),
    ],
)
def test_a_mistake_is_said_before_a_folder_is_made(tmp_path: Path, read: Any, override: str, said: str) -> None:
    out = tmp_path / "out"
    with pytest.raises(ConfigError, match=said):
        train(read(override), out, resume=False)
    assert not out.exists()


def test_what_a_recipe_says_of_its_source_does_not_make_another_run(tmp_path: Path, read: Any) -> None:
    begin_run(tmp_path, read("+paddock.recipe.source=a guide"))
    claim(read("+paddock.recipe.source=a better guide"), tmp_path, resume=True)


@pytest.mark.parametrize(("failures", "starts"), [(0, [False]), (1, [False, True]), (2, [False, True, True])])
def test_a_machines_failure_is_gone_on_after_as_often_as_is_said(
    tmp_path: Path, read: Any, monkeypatch: pytest.MonkeyPatch, failures: int, starts: list[bool]
) -> None:
    seen: list[bool] = []

    def once(*_: Any, resume: bool, **__: Any) -> RunResult:
        seen.append(resume)
        if len(seen) <= failures:
            raise InfraError("the process of engines on m2 died", kind="process_died")
        return RunResult("steps", 1, 1, 1, {}, 0, 0.0, checkpoint=None, best=None, exported=None)

    monkeypatch.setattr("paddock.training.grpo.train._train_once", once)
    (tmp_path / "model").mkdir()
    made = read("paddock.restart=2", f"policy.model_name={tmp_path / 'model'}", "grpo.num_prompts_per_step=1")
    assert train(made, tmp_path / "out", resume=False) == 0
    assert seen == starts


def test_after_that_it_is_raised_and_a_mistake_at_once(
    tmp_path: Path, read: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors: list[PaddockError] = [InfraError("a", kind="process_died"), InfraError("b", kind="process_died")]
    wrong = ConfigError("c", kind="placement")

    def once(*_: Any, **__: Any) -> None:
        raise errors.pop(0) if errors else wrong

    monkeypatch.setattr("paddock.training.grpo.train._train_once", once)
    (tmp_path / "model").mkdir()
    made = read("paddock.restart=1", f"policy.model_name={tmp_path / 'model'}", "grpo.num_prompts_per_step=1")
    with pytest.raises(InfraError, match="b"):
        train(made, tmp_path / "out", resume=False)
    with pytest.raises(ConfigError, match="c"):
        train(made, tmp_path / "out", resume=False)
    with pytest.raises(ConfigError, match="goes on from checkpoints"):
        read("paddock.restart=1", "checkpointing.enabled=false")
