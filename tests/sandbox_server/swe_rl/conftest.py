"""The servers of the swe-rl recipe on loopback, over real sandboxes of an image with a repository."""

import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from paddock.sandbox import Provider, SandboxSettings
from paddock.sandbox.images import ImageStore
from paddock.sandbox.images.tiny import tiny_image
from paddock.sandbox_server import serve_node
from paddock.sandbox_server.swe_rl import SweRlSettings, serve_swe_rl
from paddock.server.access import Access
from paddock.server.sockets import LOOPBACK, Address, bind

IMAGE = "docker.io/acme/adder:latest"
"""As the recipe names images; the store has it without the registry."""
TOKEN = "of-the-server"
BROKEN = "def add(a, b):\n    return a - b\n"
FIXED = BROKEN.replace("-", "+")
CHECK = "python3 -c 'from adder import add; assert add(2, 3) == 5'"
FIX = """\
diff --git a/adder.py b/adder.py
--- a/adder.py
+++ b/adder.py
@@ -1,2 +1,2 @@
 def add(a, b):
-    return a - b
+    return a + b
"""


@pytest.fixture(scope="package")
def home() -> Iterator[Path]:
    """A store with the image; where the payload's user can pass, unlike pytest's own folders."""
    if not shutil.which("bwrap"):
        pytest.skip("no bwrap")
    folder = Path(tempfile.mkdtemp(prefix="paddock-swe-rl-", dir="/var/tmp"))
    folder.chmod(0o711)
    store = ImageStore(folder, payload_id=SandboxSettings().payload_id)
    base = tiny_image(store, rich=True)
    store.add("acme/adder:latest", lambda tree: fill(tree, store), base=base)
    yield folder
    shutil.rmtree(folder)


def fill(tree: Path, store: ImageStore) -> None:
    """A repository whose history has the fix, after HEAD, and what scrubbing takes beside the base's programs."""
    folder = tree / "testbed"
    folder.mkdir()
    (tree / "usr/bin").mkdir(parents=True)
    for name in ("basename", "comm", "dirname", "mktemp", "xargs"):
        shutil.copy(shutil.which(name, path="/usr/bin:/bin") or "", tree / "usr/bin" / name)
    git(folder, "init", "-q", "-b", "main")
    for text in (BROKEN, FIXED):
        (folder / "adder.py").write_text(text)
        git(folder, "add", ".")
        git(folder, "commit", "-q", "-m", "broken" if text is BROKEN else "fixed")
    git(folder, "tag", "later")
    git(folder, "reset", "-q", "--hard", "HEAD~1")
    (folder / "notes.txt").write_text("not committed\n")
    store.own([tree, *tree.rglob("*")])


def git(folder: Path, *words: str) -> None:
    who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    subprocess.run(["git", *who, *words], cwd=folder, check=True)


Stop = Callable[[], Awaitable[None]]


class SweRlServer:
    """One that serves, and a client that brings its token as the recipe's would."""

    def __init__(self, url: str, provider: Provider, client: httpx.AsyncClient, stop: Stop) -> None:
        self.url = url
        self.provider: Any = provider
        self.client = client
        self.stop = stop

    async def post(self, path: str, **body: Any) -> httpx.Response:
        return await self.client.post(path, json=body)

    async def ask(self, path: str, **body: Any) -> Any:
        """The answer of a request that succeeds."""
        response = await self.post(path, **body)
        answer = response.json()
        assert response.status_code == 200 and answer["ok"] is True, answer
        return answer

    async def allocate(self, instance_id: str = "adder-1") -> str:
        answer = await self.ask("/allocate", image=IMAGE, instance_id=instance_id)
        return str(answer["lease_id"])

    async def run(self, lease_id: str, command: str, **more: Any) -> Any:
        return await self.ask("/exec", lease_id=lease_id, command=command, **more)

    async def evaluate(self, script: str = CHECK, patch: str = FIX, **more: Any) -> Any:
        lease_id = await self.allocate("adder-1__eval")
        try:
            return await self.ask("/evaluate", lease_id=lease_id, patch=patch, eval_script=script, **more)
        finally:
            await self.ask("/close", lease_id=lease_id)


Serve = Callable[..., Any]


@pytest.fixture
async def serve(home: Path) -> AsyncIterator[Serve]:
    """Starts servers, with settings."""
    async with AsyncExitStack() as servers:

        async def start(*, grade_row: Any = None, **settings: Any) -> SweRlServer:
            stack = await servers.enter_async_context(AsyncExitStack())
            sandbox = SandboxSettings(home=home, runtime="bubblewrap")
            bound = bind("swe-rl", Address(LOOPBACK, 0))
            chosen = SweRlSettings(**{"sandbox": sandbox, **settings})
            serving = serve_swe_rl(chosen, bound, access=Access(TOKEN), grade_row=grade_row)
            provider = await stack.enter_async_context(serving)
            url = bound.url.replace("//", f"//paddock:{TOKEN}@")
            client = await stack.enter_async_context(httpx.AsyncClient(base_url=url, timeout=60))
            return SweRlServer(bound.url, provider, client, stack.aclose)

        yield start


@pytest.fixture
async def node(home: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[str]:
    """The URL of a node with the same images."""
    monkeypatch.setenv("PADDOCK_TOKEN", TOKEN)
    bound = bind("node", Address(LOOPBACK, 0))
    async with serve_node(SandboxSettings(home=home, runtime="bubblewrap"), bound, access=Access(TOKEN)):
        yield bound.url
