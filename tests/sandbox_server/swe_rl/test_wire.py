"""The wire of the recipe's two servers."""

import httpx
import pytest
from tests.sandbox_server.swe_rl.conftest import CHECK, FIX, IMAGE, Serve

pytestmark = pytest.mark.sandbox


@pytest.mark.slow
async def test_a_rollout_as_the_pool_has_it(serve: Serve) -> None:
    server = await serve()
    lease = await server.ask("/allocate", image=IMAGE, instance_id="adder-1")
    assert lease["container_id"] == lease["lease_id"] and lease["node_url"] == server.url
    lease_id = lease["lease_id"]
    await server.ask("/heartbeat", lease_id=lease_id)
    edit = await server.run(lease_id, "sed -i s/-/+/ adder.py; echo said >&2; pwd; exit 3", timeout=180, env={})
    assert (edit["returncode"], edit["output"]) == (3, "/testbed\nsaid\n")
    submitted = await server.run(lease_id, "git add -A && git diff --cached")
    diff = await server.ask("/diff", lease_id=lease_id, cwd="/testbed")
    assert "+    return a + b" in diff["patch"] and "+    return a + b" in submitted["output"]
    # What the image had not committed is in the one, and not in the other: both apply.
    assert "notes.txt" not in diff["patch"] and "notes.txt" in submitted["output"]
    await server.ask("/close", lease_id=lease_id)
    for patch in (diff["patch"], submitted["output"]):
        assert (await server.evaluate(patch=patch))["resolved"] is True
    assert (await server.client.get("/status")).json()["pool"]["total_leases"] == 0


@pytest.mark.slow
async def test_a_container_as_the_exec_server_has_it(serve: Serve) -> None:
    server = await serve()
    container = await server.ask("/container/create", image=IMAGE, cwd="/testbed", timeout=120)
    names = {"container_id": container["container_id"]}
    ran = await server.ask("/container/exec", **names, command="echo $A", env={"A": "b"})
    assert (ran["returncode"], ran["output"]) == (0, "b\n")
    await server.ask("/container/exec", **names, command="echo new > new.txt")
    assert "+new" in (await server.ask("/container/diff", **names))["patch"]
    status = (await server.client.get("/status")).json()
    assert status["containers"][container["container_id"]]["image"] == IMAGE
    assert (await server.client.get("/healthz")).json() == {"ok": True, "running_containers": "1"}
    metrics = (await server.client.get("/metrics")).text
    assert 'paddock_node_calls_total{result="ok",route="POST /container/exec"} 2.0' in metrics
    assert "paddock_node_sandboxes 1.0" in metrics and container["container_id"] not in metrics
    images = (await server.client.get("/images")).json()
    assert "acme/adder:latest" in images["images"] and not [name for name in images["images"] if "#" in name]
    done = await server.ask("/container/evaluate", **names, patch=FIX, eval_script=CHECK)
    assert (done["resolved"], done["returncode"]) == (True, 0)
    await server.ask("/container/destroy", **names)
    assert server.provider.live() == []


async def test_what_no_repeat_mends_is_said_at_once(serve: Serve) -> None:
    """The client repeats whatever is no 2xx, and raises where `ok` is false."""
    server = await serve()
    for path, body in (
        ("/allocate", {"image": "acme/nothing:latest"}),
        ("/exec", {"lease_id": "swe-unknown", "command": "true"}),
        ("/heartbeat", {"lease_id": "swe-unknown"}),
    ):
        response = await server.post(path, **body)
        assert (response.status_code, response.json()["ok"]) == (200, False), path
        assert response.json()["error"]
    assert (await server.ask("/close", lease_id="swe-unknown")) == {"ok": True}
    for path, body in (("/allocate", {}), ("/exec", {"lease_id": "x"}), ("/exec", {"lease_id": "x", "command": ""})):
        assert (await server.post(path, **body)).status_code == 400


async def test_a_token_is_asked_for_and_may_come_in_the_url(serve: Serve) -> None:
    server = await serve()
    async with httpx.AsyncClient() as client:
        assert (await client.get(f"{server.url}/healthz")).status_code == 200
        body = {"image": IMAGE, "instance_id": "adder-1"}
        for url in (server.url, server.url.replace("//", "//paddock:another@")):
            assert (await client.post(f"{url}/allocate", json=body)).status_code == 401
        refused = await client.post(f"{server.url}/allocate", json=body, headers={"authorization": "Basic =?="})
        assert refused.status_code == 401
    assert server.provider.live() == []
    await server.allocate()
