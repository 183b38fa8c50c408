"""Claims about pruning: what images, pulls or sandboxes need stays; the rest goes."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.support.images import ScriptedRegistry, TarEntry, make_image, make_layer

from paddock.sandbox.images import ImageStore, Puller, RegistryOptions, disk_bytes, layers_in_use, prune
from paddock.sandbox.images.prune import YOUNG_S


@pytest.fixture
async def pulled(store: ImageStore, options: RegistryOptions, registry: ScriptedRegistry) -> str:
    registry.images["t/x:v1"] = make_image([make_layer([TarEntry("a", b"1")])])
    name = f"{registry.host}/t/x:v1"
    async with Puller(store, options) as puller:
        await puller.pull(name)
    return name


def blobs(store: ImageStore) -> list[str]:
    return sorted(path.name for path in (store.home / "blobs" / "sha256").iterdir())


def orphan(store: ImageStore, *, age_s: float) -> Path:
    """A layer that no image has."""
    layer = store.home / "layers" / ("0" * 32)
    (layer / "fs").mkdir(parents=True)
    (layer / "fs" / "a").write_bytes(b"x" * 100_000)
    os.utime(layer, (time.time() - age_s,) * 2)
    return layer


async def test_downloads_of_a_listed_image_stay_unless_all_shall_go(store: ImageStore, pulled: str) -> None:
    (store.home / "blobs" / "sha256" / ("f" * 64 + ".partial")).write_bytes(b"half")
    config = 1
    before = len(blobs(store))
    assert prune(store).blobs == 1 + config
    assert len(blobs(store)) == before - 1 - config
    assert prune(store, everything=True).blobs == 1
    assert blobs(store) == []
    assert store.names() == [pulled]


async def test_downloads_of_a_removed_image_go(store: ImageStore, pulled: str) -> None:
    store.remove(pulled)
    assert prune(store).blobs == 2
    assert blobs(store) == []


async def test_no_download_goes_while_a_pull_runs(store: ImageStore, options: RegistryOptions, pulled: str) -> None:
    store.remove(pulled)
    async with Puller(store, options):
        done = prune(store)
    assert (done.busy, done.blobs) == (True, 0)
    assert blobs(store) != []


def test_layers_of_no_image_go_when_nobody_can_be_writing_them(store: ImageStore) -> None:
    layer = orphan(store, age_s=YOUNG_S / 2)
    assert prune(store).layers == 0
    os.utime(layer, (time.time() - 2 * YOUNG_S,) * 2)
    done = prune(store)
    assert done.layers == 1
    assert done.bytes >= 100_000
    assert not layer.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: mounts an overlay")
def test_layers_that_a_sandbox_stands_on_stay(store: ImageStore, tmp_path: Path) -> None:
    layer = orphan(store, age_s=2 * YOUNG_S)
    for name in ("u", "w", "m"):
        (tmp_path / name).mkdir()
    script = f"mount -t overlay o -o lowerdir={layer}/fs,upperdir=u,workdir=w m && echo on && cat"
    holder = subprocess.Popen(
        ["unshare", "-m", "sh", "-c", script], cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with holder:
        assert holder.stdin is not None
        assert holder.stdout is not None
        if holder.stdout.readline() != b"on\n":
            pytest.skip("overlay can't be mounted here")
        assert layers_in_use() >= {"0" * 32}
        assert prune(store).layers == 0
        holder.stdin.close()
        holder.wait(timeout=60)
    assert prune(store).layers == 1


def test_a_file_with_two_names_counts_once(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    one = tmp_path / "d" / "a"
    one.write_bytes(os.urandom(200_000))
    before = disk_bytes([tmp_path])
    os.link(one, tmp_path / "d" / "b")
    assert disk_bytes([tmp_path]) == before


def test_what_a_killed_build_left_goes_and_is_counted(store: ImageStore) -> None:
    script = (
        "import sys, os; from pathlib import Path; from paddock.sandbox.images import ImageStore\n"
        "from paddock.sandbox.images.build.stage import new_stage\n"
        "with new_stage(ImageStore(Path(sys.argv[1]), payload_id=59734)) as stage:\n"
        "    (stage.tree / 'a').write_bytes(b'x' * 1_000_000)\n"
        "    os.kill(os.getpid(), 9)\n"
    )
    assert subprocess.run([sys.executable, "-c", script, str(store.home)], check=False).returncode == -9
    done = prune(store)
    assert (done.stages, done.bytes >= 1_000_000) == (1, True)
    assert prune(store).bytes == 0
