"""Claims about pulling: each byte once, other bytes never, bounded, and an image is listed whole or not at all."""

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest
from tests.support.images import CutBody, Image, ScriptedRegistry, TarEntry, make_image, make_layer, scripted_registry

from paddock.errors import InfraError
from paddock.sandbox.failures import ImageInvalid, ImageMissing
from paddock.sandbox.images import ImageStore, Puller, RegistryOptions

BIG = 3_000_000


@pytest.fixture
def image() -> Image:
    """Two layers: a big one, and one that changes it."""
    return make_image(
        [
            make_layer([TarEntry("etc/name", b"lower"), TarEntry("data", os.urandom(BIG))]),
            make_layer([TarEntry("etc/name", b"upper"), TarEntry("etc/.wh.nothing")]),
        ],
        config={"Env": ["PATH=/bin:/usr/bin", "EMPTY="], "WorkingDir": "/testbed"},
    )


@pytest.fixture
def name(registry: ScriptedRegistry, image: Image) -> str:
    registry.images["t/big:v1"] = image
    return f"{registry.host}/t/big:v1"


async def pull(store: ImageStore, options: RegistryOptions, name: str) -> None:
    async with Puller(store, options) as puller:
        await puller.pull(name)


def sent(registry: ScriptedRegistry, digest: str) -> int:
    return registry.sent[f"/v2/t/big/blobs/{digest}"]


async def test_a_pulled_image_has_its_files_environment_and_folder(
    store: ImageStore, options: RegistryOptions, name: str, image: Image
) -> None:
    await pull(store, options, name)
    found = store.get(name)
    (root,) = found.layers
    assert (root / "etc/name").read_bytes() == b"upper"
    assert (root / "data").stat().st_size == BIG
    assert found.record.env == {"PATH": "/bin:/usr/bin", "EMPTY": ""}
    assert found.record.workdir == "/testbed"
    assert found.record.origin["digest"] == image.digest
    assert found.record.origin["bytes"] == BIG + 10
    assert {path.stat().st_uid for path in root.rglob("*")} == {store.payload_id}


async def test_a_cut_download_goes_on_where_it_ended(
    store: ImageStore, options: RegistryOptions, name: str, registry: ScriptedRegistry, image: Image
) -> None:
    big = image.layers[0]
    registry.faults[big] = [CutBody(1_000_000), CutBody(1_000_000)]
    await pull(store, options, name)
    ranges = [asked.range for asked in registry.requests if big in asked.path]
    assert ranges == [None, "bytes=1000000-", "bytes=2000000-"]
    assert sent(registry, big) == len(image.blobs[big]), "no byte twice"


async def test_a_pull_that_failed_is_gone_on_with_by_the_next(
    store: ImageStore, options: RegistryOptions, name: str, registry: ScriptedRegistry, image: Image
) -> None:
    big, small = image.layers
    registry.faults[big] = [CutBody(1_000_000), 500, 500, 500, 500]
    with pytest.raises(InfraError, match="500; given up after 4 attempts"):
        await pull(store, options, name)
    assert store.names() == []
    await pull(store, options, name)
    assert store.names() == [name]
    assert sent(registry, big) == len(image.blobs[big])
    assert sent(registry, small) == len(image.blobs[small])


async def test_a_registry_that_can_not_be_reached_is_named_with_what_was_asked_for(
    store: ImageStore, options: RegistryOptions
) -> None:
    with pytest.raises(InfraError, match=r"^127\.0\.0\.1:1/t/x: manifests/v1: .*; given up after 4 attempts"):
        await pull(store, options, "127.0.0.1:1/t/x:v1")


async def test_a_registry_that_can_not_resume_is_asked_for_all_of_it(
    store: ImageStore, options: RegistryOptions, name: str, registry: ScriptedRegistry, image: Image
) -> None:
    registry.ranges = False
    registry.faults[image.layers[0]] = [CutBody(1_000_000)]
    await pull(store, options, name)
    assert sent(registry, image.layers[0]) == len(image.blobs[image.layers[0]]) + 1_000_000


async def test_a_partial_that_went_bad_is_fetched_anew(
    store: ImageStore, options: RegistryOptions, name: str, image: Image, home: Path
) -> None:
    folder = home / "blobs" / "sha256"
    folder.mkdir(parents=True)
    (folder / f"{image.layers[0].removeprefix('sha256:')}.partial").write_bytes(b"x" * 1000)
    await pull(store, options, name)
    assert store.names() == [name]


async def test_other_bytes_than_the_digest_are_refused(
    store: ImageStore, options: RegistryOptions, name: str, registry: ScriptedRegistry, home: Path
) -> None:
    registry.corrupt = True
    with pytest.raises(ImageInvalid, match="sent other bytes than sha256:"):
        await pull(store, options, name)
    assert store.names() == []
    left = [path for path in (home / "blobs" / "sha256").iterdir() if path.stat().st_size]
    assert all(path.suffix == ".partial" for path in left), "nothing is kept as checked"


async def test_a_manifest_that_is_not_its_digest_is_refused(
    store: ImageStore, options: RegistryOptions, registry: ScriptedRegistry, image: Image
) -> None:
    wrong = "sha256:" + "0" * 64
    registry.manifests[f"t/big:{wrong}"] = image.manifest
    with pytest.raises(ImageInvalid, match="other bytes"):
        await pull(store, options, f"{registry.host}/t/big@{wrong}")


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_a_registry_that_is_busy_is_asked_again(
    status: int, store: ImageStore, options: RegistryOptions, name: str, registry: ScriptedRegistry
) -> None:
    registry.faults["manifests"] = [status, status]
    registry.faults["blobs"] = [status]
    await pull(store, options, name)
    assert store.names() == [name]


async def test_an_image_that_is_nowhere_is_asked_for_once(
    store: ImageStore, options: RegistryOptions, registry: ScriptedRegistry
) -> None:
    with pytest.raises(ImageMissing, match="t/none"):
        await pull(store, options, f"{registry.host}/t/none:v1")
    assert len(registry.requests) == 1


async def test_downloads_are_bounded_over_all_images(
    store: ImageStore, options: RegistryOptions, registry: ScriptedRegistry
) -> None:
    registry.pause_s = 0.03
    for number in range(4):
        layers = [make_layer([TarEntry(f"{number}-{one}")]) for one in range(3)]
        registry.images[f"t/i{number}:v1"] = make_image(layers)
    async with Puller(store, options._replace(connections=2)) as puller:
        await asyncio.gather(*(puller.pull(f"{registry.host}/t/i{number}:v1") for number in range(4)))
    assert registry.busiest == 2
    assert len(store.names()) == 4


async def test_two_pulls_at_once_share(
    store: ImageStore, options: RegistryOptions, name: str, registry: ScriptedRegistry, image: Image, home: Path
) -> None:
    registry.pause_s = 0.1
    await asyncio.gather(*(pull(store, options, name) for _ in range(3)))
    assert all(sent(registry, digest) == len(blob) for digest, blob in image.blobs.items())
    assert len(list((home / "layers").iterdir())) == 1


async def test_images_that_share_a_layer_fetch_it_once(
    store: ImageStore, options: RegistryOptions, registry: ScriptedRegistry
) -> None:
    registry.pause_s = 0.1
    base = make_layer([TarEntry("base", os.urandom(100_000))])
    for number in range(2):
        registry.images[f"t/big:{number}"] = make_image([base, make_layer([TarEntry(f"own{number}")])])
    async with Puller(store, options) as puller:
        await asyncio.gather(*(puller.pull(f"{registry.host}/t/big:{number}") for number in range(2)))
    shared = registry.images["t/big:0"]
    assert sent(registry, shared.layers[0]) == len(shared.blobs[shared.layers[0]])


async def test_a_cancelled_pull_leaves_a_partial_and_no_image(
    store: ImageStore, options: RegistryOptions, name: str, registry: ScriptedRegistry, image: Image, home: Path
) -> None:
    registry.faults[image.layers[0]] = [CutBody(2_000_000), *[500] * 50]
    patient = options._replace(backoff=options.backoff._replace(attempts=50, first_s=0.05))
    task = asyncio.create_task(pull(store, patient, name))
    partial = home / "blobs" / "sha256" / f"{image.layers[0].removeprefix('sha256:')}.partial"
    while not partial.exists() or partial.stat().st_size < 2_000_000:
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (partial.stat().st_size, store.names()) == (2_000_000, [])
    assert not list((home / "building").iterdir()) if (home / "building").exists() else True


KILLED = """
import asyncio, sys
from pathlib import Path
from paddock.sandbox.images import ImageStore, Puller

async def main():
    async with Puller(ImageStore(Path(sys.argv[1]), payload_id=59734)) as puller:
        await puller.pull(sys.argv[2])

asyncio.run(main())
"""


@pytest.mark.slow
async def test_a_killed_pull_is_gone_on_with(
    store: ImageStore, options: RegistryOptions, name: str, registry: ScriptedRegistry, image: Image, home: Path
) -> None:
    big = image.layers[0]
    registry.faults[big] = [CutBody(2_000_000), *[503] * 5]
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", KILLED, str(home), name)
    partial = home / "blobs" / "sha256" / f"{big.removeprefix('sha256:')}.partial"
    while not partial.exists() or partial.stat().st_size < 2_000_000:
        assert process.returncode is None
        await asyncio.sleep(0.01)
    process.kill()
    await process.wait()
    registry.faults.clear()
    await pull(store, options, name)
    assert sent(registry, big) == len(image.blobs[big])


async def test_the_image_for_this_machine_is_taken_from_a_list(
    store: ImageStore, options: RegistryOptions, registry: ScriptedRegistry, image: Image
) -> None:
    other = make_image([make_layer([TarEntry("other")])], arch="s390x")
    registry.images["t/big:one"], registry.images["t/big:two"] = other, image
    entries = [
        {"digest": one.digest, "size": len(one.manifest), "platform": {"os": "linux", "architecture": arch}}
        for one, arch in ((other, "s390x"), (image, "amd64"))
    ]
    registry.manifests["t/big:list"] = json.dumps({"schemaVersion": 2, "manifests": entries}).encode()
    registry.manifests["t/big:foreign"] = json.dumps({"schemaVersion": 2, "manifests": entries[:1]}).encode()
    await pull(store, options, f"{registry.host}/t/big:list")
    with pytest.raises(ImageInvalid, match="only for linux/s390x"):
        await pull(store, options, f"{registry.host}/t/big:foreign")
    with pytest.raises(ImageInvalid, match="made for linux/s390x"):
        await pull(store, options, f"{registry.host}/t/big:one")


async def test_a_registry_that_wants_a_login_gets_one(
    store: ImageStore,
    options: RegistryOptions,
    name: str,
    registry: ScriptedRegistry,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    registry.token = "granted"
    for variable, value in (("HOST", registry.host), ("USER", "user"), ("PASSWORD", "secret")):
        monkeypatch.setenv(f"PADDOCK_REGISTRY_{variable}", value)
    await pull(store, options, name)
    assert store.names() == [name]
    assert len([asked for asked in registry.requests if asked.path.startswith("/token")]) == 1
    assert "secret" not in "".join(capfd.readouterr())


async def test_a_refused_login_is_no_retry(
    store: ImageStore,
    options: RegistryOptions,
    name: str,
    registry: ScriptedRegistry,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    registry.token = "granted"
    with pytest.raises(ImageMissing, match=r"login was refused \(401\)"):
        await pull(store, options, name)
    assert len(registry.requests) == 2


async def test_a_redirect_to_plain_http_elsewhere_is_not_followed(
    store: ImageStore, options: RegistryOptions, name: str, registry: ScriptedRegistry
) -> None:
    registry.redirects["blobs"] = "registry.invalid"
    with pytest.raises(InfraError, match=r"leads to http://registry\.invalid, and only https"):
        await pull(store, options, name)


async def test_a_redirect_to_another_host_gets_no_credentials(
    store: ImageStore,
    options: RegistryOptions,
    name: str,
    registry: ScriptedRegistry,
    image: Image,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    registry.token = "granted"
    for variable, value in (("HOST", registry.host), ("USER", "user"), ("PASSWORD", "secret")):
        monkeypatch.setenv(f"PADDOCK_REGISTRY_{variable}", value)
    with scripted_registry() as other:
        other.images["t/big:v1"] = image
        registry.redirects["blobs"] = other.host
        await pull(store, options, name)
        assert store.names() == [name]
        assert {asked.authorization for asked in other.requests} == {None}


async def test_a_blob_that_the_disk_lost_is_fetched_again(
    store: ImageStore, options: RegistryOptions, name: str, image: Image, home: Path
) -> None:
    await pull(store, options, name)
    store.remove(name)
    path = home / "blobs" / "sha256" / image.layers[0].removeprefix("sha256:")
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ImageInvalid, match="damaged"):
        await pull(store, options, name)
    await pull(store, options, name)
    assert store.names() == [name]
