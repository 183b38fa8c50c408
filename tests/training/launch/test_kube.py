"""Claims about what is written for Kubernetes: which pods with what, and nothing secret. Against the published schemas
where these are given, as files that are not this project's:

    PADDOCK_KUBERAY_CRD          ray.io_rayjobs.yaml of ray-project/kuberay
    PADDOCK_KUBERNETES_OPENAPI   swagger.json of kubernetes/kubernetes
"""

import json
import os
import shlex
import subprocess
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
import yaml
from tests.training.launch.commands import HIDDEN
from tests.training.launch.test_resolve import resolved

from paddock.errors import ConfigError
from paddock.training.launch.kube_groups import node_groups
from paddock.training.launch.plan import LaunchHost, LaunchPlan, PlanInputs, plan, plan_text

CRD = os.environ.get("PADDOCK_KUBERAY_CRD")
OPENAPI = os.environ.get("PADDOCK_KUBERNETES_OPENAPI")
SITE = {
    "executor": "kuberay",
    "CONTAINER": "registry/paddock:1",
    "kube_claim": "shared",
    "kube_secret": "paddock",
    "kube_namespace": "science",
    "kube_sandbox_selector": "pool=cpu,zone=a",
    "SANDBOX_NODES": "2",
    "SBATCH_NUM_NODES": "3",
    "SLURM_TIME_LIMIT": "1:0:0",
    "memory": "64G",
    "cpus_per_task": "8",
    "sandbox_settings": "serve.yaml",
    "env": "HF_TOKEN",
}
AGENT = "env.nemo_gym.swe.agents.swe"
INPUTS = PlanInputs(["grpo.seed=1"], gpus=8, reads=["JUDGE_KEY", "MODEL_PATH"], agents=[AGENT])


def make_plan(folder: Path, command: dict[str, Any] | None = None, inputs: PlanInputs = INPUTS) -> LaunchPlan:
    host = LaunchHost(folder, Path("/package"), {"HF_TOKEN": HIDDEN, "JUDGE_KEY": HIDDEN})
    given = {"EXP_NAME": "e", "PADDOCK_VLLM_PYTHON": "/env/python", **SITE, **(command or {})}
    return plan(resolved(given), inputs, host)


def objects(made: LaunchPlan) -> dict[str, Any]:
    """The manifests by kind."""
    texts = [text for path, text in made.files.items() if path.suffix == ".yaml"]
    return {one["kind"]: one for text in texts for one in yaml.safe_load_all(text)}


def pods(job: dict[str, Any]) -> list[dict[str, Any]]:
    cluster = job["spec"]["rayClusterSpec"]
    return [group["template"]["spec"] for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"])]


def test_a_job_has_a_pod_for_each_node_and_ends_its_cluster(tmp_path: Path) -> None:
    job = objects(make_plan(tmp_path))["RayJob"]
    assert job["metadata"]["name"] == "e"
    assert job["metadata"]["namespace"] == "science"
    spec = job["spec"]
    assert (spec["shutdownAfterJobFinishes"], spec["activeDeadlineSeconds"], spec["backoffLimit"]) == (True, 3600, 3)
    assert spec["rayClusterSpec"]["authOptions"] == {"mode": "token"}
    (workers,) = spec["rayClusterSpec"]["workerGroupSpecs"]
    assert [workers[key] for key in ("replicas", "minReplicas", "maxReplicas")] == [2, 2, 2], "and the head"
    for pod in pods(job):
        (container,) = pod["containers"]
        assert container["resources"]["limits"] == {"cpu": "8", "memory": "64Gi", "nvidia.com/gpu": "8"}
        assert container["workingDir"] == str(tmp_path)


def test_labels_of_a_recipe_are_those_of_groups(tmp_path: Path) -> None:
    inputs = INPUTS._replace(labels={"role=policy": 16, "role=engines": 8})
    cluster = objects(make_plan(tmp_path, {}, inputs))["RayJob"]["spec"]["rayClusterSpec"]
    assert cluster["headGroupSpec"]["labels"] == {"role": "policy"}
    assert [(group["replicas"], group["labels"]["role"]) for group in cluster["workerGroupSpecs"]] == [
        (1, "policy"),
        (1, "engines"),
    ]
    with pytest.raises(
        ConfigError, match=r"2 nodes, and the labels of cluster\.labels need 2 with role=policy, 1 with"
    ):
        make_plan(tmp_path, {"SBATCH_NUM_NODES": "2"}, inputs)


def test_nodes_without_a_label_are_the_rest() -> None:
    assert [(group.size, group.labels) for group in node_groups({"a=b": 9}, 5, 8)] == [(3, {}), (2, {"a": "b"})]
    assert [(group.size, group.labels) for group in node_groups({"a=b": 0}, 1, 0)] == [(1, {"a": "b"})]


def test_secrets_are_references(tmp_path: Path) -> None:
    made = make_plan(tmp_path)
    assert "touch" not in json.dumps([plan_text(made), *made.files.values()])
    for pod in pods(objects(made)["RayJob"]):
        for entry in pod["containers"][0]["env"]:
            assert entry["valueFrom"]["secretKeyRef"] == {"name": "paddock", "key": entry["name"]}
        assert [entry["name"] for entry in pod["containers"][0]["env"]] == ["HF_TOKEN", "JUDGE_KEY"]
    with pytest.raises(ConfigError, match=r"`kube_secret` of a profile is required: the config reads JUDGE_KEY"):
        make_plan(tmp_path, {"kube_secret": "", "SANDBOX_NODES": "0", "env": ""})


def test_sandboxes_are_where_the_selector_says_at_the_address_of_the_node(tmp_path: Path) -> None:
    made = objects(make_plan(tmp_path))
    daemons, service = made["DaemonSet"]["spec"], made["Service"]["spec"]
    pod = daemons["template"]["spec"]
    assert pod["nodeSelector"] == {"pool": "cpu", "zone": "a"}
    assert pod["hostNetwork"], "a daemon that starts again has its old address"
    (container,) = pod["containers"]
    assert container["securityContext"] == {"privileged": True, "runAsUser": 0}
    assert container["command"][-1] == f"--settings={tmp_path}/serve.yaml"
    assert service["clusterIP"] == "None"
    labels = daemons["template"]["metadata"]["labels"]
    assert labels == service["selector"] == daemons["selector"]["matchLabels"]


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ({"EXP_NAME": "My_run"}, "EXP_NAME: 'My_run': the name of a RayJob"),
        ({"EXP_NAME": "a" * 48}, "EXP_NAME"),
        ({"CONTAINER": "", "kube_claim": ""}, "CONTAINER is required(.|\\n)*`kube_claim` of a profile is required"),
        ({"kube_sandbox_selector": ""}, "`kube_sandbox_selector` of a profile is required"),
        ({"kube_sandbox_selector": "cpu"}, "'cpu' is no `KEY=VALUE`"),
        ({"trainer": "nemo_rl"}, "its jobs are SLURM's"),
    ],
)
def test_what_kubernetes_would_refuse_is_refused_here(tmp_path: Path, command: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        make_plan(tmp_path, command)


@pytest.fixture
def stand_in(tmp_path: Path) -> Path:
    """In the place of the interpreter: it prints URLs, or its words."""
    program = tmp_path / "python"
    urls = """*sandbox_urls*) echo '["http://10.0.0.1:8900"]';;"""
    program.write_text(f'#!/bin/sh\ncase "$*" in {urls} *) printf "%s\\n" "$@";; esac\n')
    program.chmod(0o755)
    return program


def test_the_script_of_the_job_runs_the_command_with_the_nodes(tmp_path: Path, stand_in: Path) -> None:
    made = make_plan(tmp_path, {"PADDOCK_VLLM_PYTHON": str(stand_in)})
    made.write()
    words = shlex.split(objects(made)["RayJob"]["spec"]["entrypoint"])
    told = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60).stdout.splitlines()
    assert told[:3] == ["-m", "paddock", "train"]
    assert told[-5:] == [
        *("grpo.seed=1", "cluster.num_nodes=3", "cluster.address=auto"),
        f'{AGENT}.sandbox.nodes=["http://10.0.0.1:8900"]',
        f"{AGENT}.sandbox.node_token_file=/var/run/paddock/sandbox-token/token",
    ]
    assert "--service=e-sandboxes --count=2" in made.files[tmp_path / "runs" / "e" / "launch" / "entry.sh"]
    assert plan_text(made).splitlines()[-3:] == [
        "to run:",
        f"  kubectl apply -f {tmp_path}/runs/e/launch/sandboxes.yaml",
        f"  kubectl create -f {tmp_path}/runs/e/launch/job.yaml",
    ]


@pytest.mark.parametrize("command", [{}, {"SANDBOX_NODES": "0", "SBATCH_NUM_NODES": "1", "memory": "", "env": ""}])
@pytest.mark.skipif(not CRD, reason="PADDOCK_KUBERAY_CRD: no schema")
def test_the_job_is_one_by_the_schema_of_kuberay(tmp_path: Path, command: dict[str, Any]) -> None:
    document = yaml.safe_load(Path(CRD or "").read_text())
    (version,) = [one for one in document["spec"]["versions"] if one["name"] == "v1"]
    inputs = INPUTS._replace(labels={"role=policy": 8})
    job = objects(make_plan(tmp_path, command, inputs))["RayJob"]
    validator = jsonschema.Draft202012Validator(strict(version["schema"]["openAPIV3Schema"]))
    validator.validate(job)
    job["spec"]["rayClusterSpec"]["headGroupSpec"]["template"]["spec"]["containers"][0]["imag"] = "x"
    with pytest.raises(jsonschema.ValidationError, match="imag"):
        validator.validate(job)


@pytest.mark.skipif(not OPENAPI, reason="PADDOCK_KUBERNETES_OPENAPI: no schema")
def test_the_daemons_are_such_by_the_schema_of_kubernetes(tmp_path: Path) -> None:
    definitions = strict(json.loads(Path(OPENAPI or "").read_text())["definitions"])
    made = objects(make_plan(tmp_path))
    for kind, name in (("DaemonSet", "io.k8s.api.apps.v1.DaemonSet"), ("Service", "io.k8s.api.core.v1.Service")):
        validator_of(name, definitions).validate(made[kind])
    pod = validator_of("io.k8s.api.core.v1.PodSpec", definitions)
    for one in pods(made["RayJob"]):
        pod.validate(one)
    made["DaemonSet"]["spec"]["template"]["spec"]["hostNetworks"] = True
    with pytest.raises(jsonschema.ValidationError, match="hostNetworks"):
        validator_of("io.k8s.api.apps.v1.DaemonSet", definitions).validate(made["DaemonSet"])


def validator_of(name: str, definitions: Any) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator({"$ref": f"#/definitions/{name}", "definitions": definitions})


def strict(schema: Any) -> Any:
    """The schema without room for unknown keys, and with what JSON Schema has no word for."""
    if isinstance(schema, list):
        return [strict(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    out = {key: strict(value) for key, value in schema.items()}
    if schema.get("format") == "int-or-string" or schema.get("x-kubernetes-int-or-string") is True:
        return {"type": ["string", "integer"]}
    open_ended = schema.get("x-kubernetes-preserve-unknown-fields")
    if isinstance(schema.get("properties"), dict) and schema.get("type") == "object" and not open_ended:
        out.setdefault("additionalProperties", False)
    return out
