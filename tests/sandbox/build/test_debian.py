"""Claims about Debian's lists: signed by the keyring and in their time, or they are refused; by apt's own check."""

import gzip
import hashlib
import shutil
import subprocess
import time
from email.utils import formatdate
from pathlib import Path

import pytest

from paddock.errors import InfraError
from paddock.sandbox.images.build.debian import KEYRING, Apt

needs_tools = pytest.mark.skipif(
    not all(map(shutil.which, ("gpg", "gpgv", "apt-get", "dpkg"))), reason="needs gpg, gpgv and apt-get"
)
PACKAGE = """Package: tiny
Version: 1.0
Architecture: all
Maintainer: nobody <nobody@localhost>
Filename: pool/tiny_1.0_all.deb
Size: 4
SHA256: {digest}
Description: nothing

"""


class PackageMirror:
    """A suite in a folder, and who signs it."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "debian"
        self.keyring = folder / "keyring.gpg"
        self._home = folder / "keys"
        self._home.mkdir(mode=0o700)
        self._gpg("--passphrase", "", "--quick-gen-key", "mirror", "ed25519", "sign")
        self._gpg("--passphrase", "", "--quick-gen-key", "stranger", "ed25519", "sign")
        self._gpg("--output", str(self.keyring), "--export", "mirror")

    @property
    def url(self) -> str:
        return f"file:{self.root}"

    def publish(self, *, signer: str | None = "mirror", valid_s: float | None = None) -> None:
        """`signer` None: nobody. `valid_s`: from now."""
        suite = self.root / "dists" / "tiny"
        architecture = subprocess.check_output(["dpkg", "--print-architecture"], text=True).strip()
        names = f"main/binary-{architecture}/Packages"
        (suite / names).parent.mkdir(parents=True)
        lists = PACKAGE.format(digest=hashlib.sha256(b"tiny").hexdigest()).encode()
        (self.root / "pool").mkdir()
        (self.root / "pool" / "tiny_1.0_all.deb").write_bytes(b"tiny")
        files = {names: lists, f"{names}.gz": gzip.compress(lists)}
        text = f"Suite: tiny\nCodename: tiny\nComponents: main\nArchitectures: {architecture}\n"
        text += f"Date: {formatdate(time.time() - 3600, usegmt=True)}\n"
        if valid_s is not None:
            text += f"Valid-Until: {formatdate(time.time() + valid_s, usegmt=True)}\n"
        text += "SHA256:\n"
        for name, content in files.items():
            (suite / name).write_bytes(content)
            text += f" {hashlib.sha256(content).hexdigest()} {len(content)} {name}\n"
        (suite / "Release").write_text(text)
        if signer is not None:
            self._gpg(
                "--local-user", signer, "--output", str(suite / "InRelease"), "--clearsign", str(suite / "Release")
            )

    def _gpg(self, *words: str) -> None:
        subprocess.run(
            ["gpg", "--homedir", str(self._home), "--batch", "--pinentry-mode", "loopback", *words],
            check=True,
            capture_output=True,
        )


@pytest.fixture
def mirror(tmp_path: Path) -> PackageMirror:
    return PackageMirror(tmp_path)


def apt_of(mirror: PackageMirror, tmp_path: Path) -> Apt:
    for name in ("apt", "archives"):
        (tmp_path / name).mkdir(exist_ok=True)
    return Apt(tmp_path / "apt", tmp_path / "archives", "tiny", mirror=mirror.url, keyring=mirror.keyring)


@needs_tools
async def test_lists_signed_by_the_keyring_are_read(mirror: PackageMirror, tmp_path: Path) -> None:
    mirror.publish(valid_s=3600)
    apt = apt_of(mirror, tmp_path)
    await apt.start()
    (package,) = await apt.closure(["tiny"], without=[])
    assert package.file == "tiny_1.0_all.deb"
    (archive,) = await apt.fetch([package])
    assert archive.read_bytes() == b"tiny"


@needs_tools
@pytest.mark.parametrize("signer", ["stranger", None])
async def test_lists_that_the_keyring_did_not_sign_are_refused_whatever_apt_is_told(
    signer: str | None, mirror: PackageMirror, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mirror.publish(signer=signer)
    lax = tmp_path / "apt.conf"
    lax.write_text('Acquire::AllowInsecureRepositories "true";\nAPT::Get::AllowUnauthenticated "true";\n')
    monkeypatch.setenv("APT_CONFIG", str(lax))
    with pytest.raises(InfraError, match=r"not signed|NO_PUBKEY|public key") as caught:
        await apt_of(mirror, tmp_path).start()
    assert caught.value.kind == "packages_unavailable"


@needs_tools
async def test_expired_lists_are_refused_unless_apt_is_told_of_an_archive(
    mirror: PackageMirror, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mirror.publish(valid_s=-60)
    # This machine's own may say otherwise.
    default = tmp_path / "default.conf"
    default.write_text('Dir::Etc::parts "/dev/null";\nDir::Etc::main "/dev/null";\n')
    monkeypatch.setenv("APT_CONFIG", str(default))
    with pytest.raises(InfraError, match=r"is expired(.|\n)*Acquire::Check-Valid-Until \"false\""):
        await apt_of(mirror, tmp_path).start()
    archive = tmp_path / "apt.conf"
    archive.write_text('Acquire::Check-Valid-Until "false";\n')
    monkeypatch.setenv("APT_CONFIG", str(archive))
    apt = apt_of(mirror, tmp_path)
    await apt.start()
    assert [package.name for package in await apt.closure(["tiny"], without=[])] == ["tiny"]


async def test_no_keyring_is_said_with_the_package_that_has_it(tmp_path: Path) -> None:
    (tmp_path / "archives").mkdir()
    keyring = tmp_path / "none.gpg"
    apt = Apt(tmp_path / "apt", tmp_path / "archives", "tiny", mirror="file:/nowhere", keyring=keyring)
    with pytest.raises(InfraError, match=rf"no {keyring}.*apt-get install debian-archive-keyring") as caught:
        await apt.start()
    assert (caught.value.kind, caught.value.retryable) == ("keyring_missing", False)
    assert KEYRING.name == "debian-archive-keyring.gpg"
