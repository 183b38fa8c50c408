"""The machine: what is covered in `/proc` tells nothing of it, and the clocks are the sandbox's own."""

import re
import time

from paddock.conformance.behaviours import Behaviour, NotApplicable, expect
from paddock.conformance.sandboxes.fixture import SandboxTarget, sandbox_fixture
from paddock.sandbox.images import ImageStore
from paddock.sandbox.keeper import clock, masks

ENTRIES = "cd /proc; for name in *; do [ -L $name ] || echo $name; done"
SHOW = "if [ -d {0} ]; then ls -A {0}; elif [ -e {0} ]; then cat {0}; fi"
CLOCKS = """
import ctypes, time
words = (ctypes.c_long * 64)()
ctypes.CDLL(None).sysinfo(words)
print(words[0], *(int(time.clock_gettime(clock)) for clock in (time.CLOCK_MONOTONIC, time.CLOCK_BOOTTIME)))
"""


async def what_is_covered_tells_nothing(target: SandboxTarget) -> None:
    async with sandbox_fixture(target) as sandbox:
        names = {name for name in (await sandbox.out(ENTRIES)).split() if not name.isdigit()}
        for path in sorted(names - masks.VISIBLE.keys() | masks.MASKS.keys()):
            text = await sandbox.out(SHOW.format(f"/proc/{path}"))
            expect(text in ("", masks.mask_text(path).strip()), f"/proc/{path} says {text[:200]!r}")
            expect(await sandbox.fails(f": >> /proc/{path}"), f"/proc/{path} can be written")


async def clocks_are_its_own(target: SandboxTarget) -> None:
    if not clock.NAMESPACE:
        raise NotApplicable("this kernel has no time namespaces")
    before = time.monotonic()
    async with sandbox_fixture(target) as sandbox:
        uptime = float((await sandbox.out("cat /proc/uptime")).split()[0])
        clocks = [int(word) for word in bytes((await sandbox.python(CLOCKS)).stdout).split()]
        most = clock.UPTIME_S + time.monotonic() - before + 2
        odd = [second for second in (uptime, *clocks) if not clock.UPTIME_S <= second <= most]
        expect(not odd, f"a new sandbox is up for {odd} s")
        booted = int(re.findall(r"^btime (\d+)", await sandbox.out("cat /proc/stat"), re.MULTILINE)[0])
        expect(time.time() - booted <= most + 1, f"/proc/stat tells when the machine was started: {booted}")
        ages = [int(word) for word in (await sandbox.out("cut -d' ' -f22 /proc/[0-9]*/stat")).split()]
        expect(max(ages) < 1 << 62, "a process is older than the sandbox's clock")


async def mounts_name_no_layer(target: SandboxTarget) -> None:
    layers = ImageStore(target.settings.home, payload_id=target.settings.payload_id).get(target.image).record.layers
    async with sandbox_fixture(target) as sandbox:
        mounts = await sandbox.out("cat /proc/self/mountinfo")
        expect(not any(layer in mounts for layer in layers), f"a layer is named: {mounts[:300]}")


SUITE = [
    Behaviour("nothing covered in /proc tells of the machine", what_is_covered_tells_nothing),
    Behaviour("uptime and clocks are the sandbox's own", clocks_are_its_own),
    Behaviour("the mounts name no layer of the image", mounts_name_no_layer),
]
