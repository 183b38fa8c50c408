"""A node at https: a client that trusts its authority uses it whole, tunnels too; another does not."""

import asyncio
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.sandbox.remote.conftest import TOKEN

from paddock.errors import ConfigError
from paddock.sandbox import ExecRequest, SandboxError, SandboxSettings, SandboxSpec
from paddock.sandbox.remote.client import RemoteProvider
from paddock.sandbox_server import serve_node
from paddock.server.access import Access
from paddock.server.http_server import TlsFiles
from paddock.server.sockets import LOOPBACK, Address, bind

pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl to make a certificate with"),
]
ClientOf = Callable[..., RemoteProvider]


def tls_files(folder: Path, name: str) -> TlsFiles:
    """A certificate of its own authority, for loopback."""
    files = TlsFiles(folder / f"{name}.pem", folder / f"{name}.key")
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    place = ["-subj", "/CN=node", "-addext", f"subjectAltName=IP:{LOOPBACK}"]
    out = ["-keyout", str(files.key), "-out", str(files.certificate)]
    subprocess.run(["openssl", "req", "-x509", *curve, *place, *out], check=True, capture_output=True)
    return files


@pytest.mark.slow
async def test_a_node_at_https_is_used_by_who_trusts_its_authority_alone(
    home: Path, image: str, client_of: ClientOf, tmp_path: Path
) -> None:
    tls, other = tls_files(tmp_path, "node"), tls_files(tmp_path, "other")
    bound = bind("node", Address(LOOPBACK, 0))
    url = bound.url.replace("http:", "https:")
    settings = SandboxSettings(home=home, runtime="bubblewrap")
    async with serve_node(settings, bound, access=Access(TOKEN), tls=tls):
        client = client_of(url, node_ca_file=tls.certificate)
        sandbox = (await client.create(SandboxSpec(image=image), request_id="a")).sandbox_id
        await client.write(sandbox, "/tmp/file", b"x" * (1 << 20))
        assert len(await client.read(sandbox, "/tmp/file")) == 1 << 20
        listener = await client.tunnel(sandbox, port=8080)
        script = "exec 3<>/dev/tcp/127.0.0.1/8080; echo hello >&3; cat <&3"
        talk = ExecRequest(argv=["bash", "-c", script], timeout_s=30)
        talking = asyncio.ensure_future(client.exec(sandbox, talk, request_id="b"))
        async with asyncio.timeout(30):
            connection = await anext(aiter(listener.connections()))
            assert await connection.read() == b"hello\n"
            await connection.write(b"world\n")
            await connection.close()
            assert bytes((await talking).stdout) == b"world\n"
        for ca_file in (other.certificate, None):
            stranger = client_of(url, node_ca_file=ca_file, answer_margin_s=0.5)
            with pytest.raises(SandboxError, match="CERTIFICATE_VERIFY_FAILED"):
                await stranger.create(SandboxSpec(image=image), request_id="a")
        plain = client_of(bound.url, answer_margin_s=0.5)
        with pytest.raises(SandboxError):
            await plain.create(SandboxSpec(image=image), request_id="a")
        await client.close()


async def test_files_that_are_no_certificates_are_said_before_anything_starts(tmp_path: Path) -> None:
    nonsense = tmp_path / "nonsense.pem"
    nonsense.write_text("nonsense")
    files = tls_files(tmp_path, "node")
    for bad in (TlsFiles(nonsense, files.key), TlsFiles(files.certificate, tmp_path / "none")):
        with pytest.raises(ConfigError, match=r"certificate .* and key"):
            bad.check()
    for ca_file in (nonsense, tmp_path / "none"):
        with pytest.raises(ConfigError, match="certificates"):
            RemoteProvider(SandboxSettings(nodes=("https://127.0.0.1:1",), node_ca_file=ca_file), token=TOKEN)
