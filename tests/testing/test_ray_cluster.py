"""A Ray cluster over machines: each node has its own address, and one that loses power is noticed."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from paddock.testing.machines import why_no_machines
from paddock.testing.ray_cluster import ray_cluster

PYTHON = os.environ.get("PADDOCK_VLLM_PYTHON")
WHY_NOT = why_no_machines()
pytestmark = [
    pytest.mark.vllm,
    pytest.mark.skipif(not PYTHON, reason="PADDOCK_VLLM_PYTHON: no environment with Ray"),
    pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT)),
]
DRIVER = """
import json, socket, sys, time
import ray

ray.init(log_to_driver=False, logging_level="ERROR")

@ray.remote(num_cpus=0)
class Host:
    def where(self):
        return socket.gethostname(), ray.util.get_node_ip_address()

hosts = [Host.options(label_selector={"node": name}).remote() for name in sys.argv[1:]]
print(json.dumps(ray.get([host.where.remote() for host in hosts])))
sys.stdout.flush()
while sum(node["Alive"] for node in ray.nodes()) == len(sys.argv) - 1:
    time.sleep(0.2)
print(json.dumps([node["NodeManagerAddress"] for node in ray.nodes() if not node["Alive"]]))
"""


@pytest.mark.long
def test_actors_run_on_the_node_of_their_label_and_a_power_cut_is_noticed() -> None:
    with ray_cluster(3, Path(PYTHON or "")) as cluster:
        names = [node.name for node in cluster.nodes]
        driver = cluster.driver(["-c", DRIVER, *names], stdout=subprocess.PIPE, text=True)
        assert driver.stdout is not None
        # Ray writes of dead nodes to the same stream.
        answers = (json.loads(line) for line in driver.stdout if line.startswith("["))
        assert next(answers) == [[node.name, node.address] for node in cluster.nodes]
        cluster.nodes[2].kill()
        assert next(answers) == [cluster.nodes[2].address]
