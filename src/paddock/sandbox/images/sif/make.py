"""A `.sif` from whatever Apptainer can build from: OCI layouts, archives, folders, other places.

Whole    the file appears under its name when it is complete; who builds the same one at once waits.
Packed   zstd at level 3: several times quicker than the default, and smaller.
Errors   RuntimeMissing says what to install; ImageInvalid ends with what Apptainer said.
"""

import importlib.util
import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from paddock.processes.command import run
from paddock.sandbox.failures import ImageInvalid, RuntimeMissing
from paddock.whole_file import whole_path

PACKING = ("--mksquashfs-args", "-comp zstd -Xcompression-level 3")
BUILD_S = 3600.0


def check_apptainer() -> None:
    """RuntimeMissing unless `.sif` files can be handled here."""
    if shutil.which("apptainer") is None and shutil.which("singularity") is None:
        raise RuntimeMissing("a .sif needs apptainer on PATH; images of the store don't", kind="apptainer_missing")
    if importlib.util.find_spec("spython") is None:
        raise RuntimeMissing("a .sif needs the package spython: pip install 'paddock[apptainer]'", kind="spython")


async def build_sif(spec: str, target: Path, scratch: Path, *, timeout_s: float = BUILD_S) -> None:
    """Build `target` from a spec such as `oci:/path` or `docker-archive:/path`."""
    check_apptainer()
    target = Path(os.path.abspath(target))  # noqa: ASYNC240, PTH100 - no look at the disk
    job = Path(__file__).with_name("job.py")
    with whole_path(target) as fresh:
        command = (sys.executable, "-I", str(job), spec, str(fresh), *PACKING)
        done = await run(command, env=_environment(scratch), timeout_s=timeout_s)
        if done.code != 0:
            raise ImageInvalid(f"apptainer could not build {target.name} from {spec}:\n{done.tail}", kind="sif_build")


def _environment(scratch: Path) -> Mapping[str, str]:
    """Apptainer leaves parts behind when it is killed: they go with the scratch folder."""
    folder = scratch / "apptainer"
    folder.mkdir(exist_ok=True)
    return {f"APPTAINER_{name}": str(folder) for name in ("TMPDIR", "CACHEDIR")}
