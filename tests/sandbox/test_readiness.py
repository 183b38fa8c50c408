"""Claims about readiness: a server that can start no sandbox says so, at the start and while it serves."""

import shutil
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from paddock.resources_servers.swe import SweServer
from paddock.resources_servers.swe.server import SweServerConfig
from paddock.sandbox import SandboxError, SandboxSettings, SandboxSpec, open_local_provider
from paddock.sandbox.images import ImageStore
from paddock.sandbox.images.tiny import tiny_image
from paddock.sandbox.leases import shared_provider
from paddock.sandbox.owner import state_folder
from paddock.sandbox.readiness import FRESH_S, Readiness
from paddock.server.app import build_app

pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="no bubblewrap on this machine"),
]


@pytest.fixture
def home() -> Iterator[Path]:
    """Where the payload's user can pass, unlike pytest's own folders."""
    folder = Path(tempfile.mkdtemp(prefix="paddock-readiness-", dir="/var/tmp"))
    folder.chmod(0o711)
    yield folder
    shutil.rmtree(folder)


def lose_state(home: Path) -> Path:
    """Somebody moves the sandboxes' folder away."""
    away = home / "away"
    state_folder(home).rename(away)
    return away


@pytest.mark.slow
async def test_health_says_when_no_sandbox_can_be_started(home: Path) -> None:
    server = SweServer(SweServerConfig(sandbox=SandboxSettings(home=home)), name="swe", peers={})
    await server.start()
    try:
        transport = httpx.ASGITransport(app=build_app(server))
        async with httpx.AsyncClient(transport=transport, base_url="http://swe") as client:
            well = await client.get("/healthz")
            assert (well.status_code, well.json()["status"]) == (200, "ok")
            away = lose_state(home)
            image = tiny_image(ImageStore(home, payload_id=server.config.sandbox.payload_id))
            assert server._services is not None
            with pytest.raises(SandboxError, match="No such file or directory"):
                await server._services.lease.value.create(SandboxSpec(image=image), request_id=uuid.uuid4().hex)
            ill = await client.get("/healthz")
            assert (ill.status_code, ill.json()["status"], ill.json()["name"]) == (503, "unavailable", "swe")
            assert "no sandbox can be started: " in ill.json()["reason"]
            assert (await client.get("/")).status_code == 200
            away.rename(state_folder(home))
    finally:
        await server.stop()


@pytest.mark.slow
async def test_one_start_is_proof_for_a_while_and_a_failure_is_asked_about_again(home: Path) -> None:
    provider = await open_local_provider(SandboxSettings(home=home))
    try:
        readiness = Readiness(provider)
        assert await readiness.why_not() is None
        away = lose_state(home)
        assert await readiness.why_not() is None
        provider.started_at = time.monotonic() - FRESH_S
        assert "No such file or directory" in (await readiness.why_not() or "")
        away.rename(state_folder(home))
        assert await readiness.why_not() is not None  # of the trial just now
        assert await Readiness(provider).why_not() is None
    finally:
        await provider.close()


@pytest.mark.slow
async def test_servers_do_not_start_where_no_sandbox_does(home: Path) -> None:
    settings = SandboxSettings(home=home)
    await (await open_local_provider(settings)).close()
    for layer in (home / "probe" / "layers").iterdir():
        shutil.rmtree(layer / "fs" / "proc", ignore_errors=True)
        (layer / "fs" / "proc").write_text("")  # no folder to mount on
    with pytest.raises(SandboxError, match=r"no sandbox can be started: sandbox of .* did not start: ") as caught:
        await shared_provider(settings)
    assert (caught.value.kind, caught.value.retryable) == ("not_ready", False)
