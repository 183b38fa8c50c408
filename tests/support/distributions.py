"""Distributions of Python packages that tests write: a few bytes that pip and uv take for what they are."""

import gzip
import io
import tarfile
import zipfile
from collections.abc import Mapping, Sequence


def make_sdist(name: str, files: Mapping[str, str]) -> bytes:
    """A source distribution of these files; `name`: of the folder that they lie in."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        for path, text in files.items():
            member = tarfile.TarInfo(f"{name}/{path}")
            member.size = len(text.encode())
            archive.addfile(member, io.BytesIO(text.encode()))
    return gzip.compress(data.getvalue(), mtime=0)


def make_wheel(project: str, version: str, files: Mapping[str, str], requires: Sequence[str] = ()) -> bytes:
    """A pure wheel of these files."""
    info = f"{project}-{version}.dist-info"
    meta = {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {project}\nVersion: {version}\n"
        + "".join(f"Requires-Dist: {one}\n" for one in requires),
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for path, text in {**files, **meta}.items():
            archive.writestr(path, text)
        archive.writestr(f"{info}/RECORD", "".join(f"{path},,\n" for path in [*files, *meta, f"{info}/RECORD"]))
    return data.getvalue()
