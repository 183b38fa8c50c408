"""Commands of this machine that an installation or a check runs: each with an end, and nothing left of it.

Law     a keeper stands over each (`paddock.server.vllm.keeper`): when the time is over, or we end in whatever way, all
        that the command started is killed; it holds our lock until then, so nobody takes over a folder that is still
        written to.
Env     what finds programs, packages and the network, as the user has it, and no key or secret beside: a list of
        names, not of exceptions.
Output  both streams in the order written, the last `KEPT` bytes as text.
"""

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

KEEPER = Path(__file__).parents[2] / "server" / "vllm" / "keeper.py"
KEPT = 1 << 16
LOG_LINES = 25
GRACE_S = 0.5
"""Between being told to end and being killed."""

_NAMES = {
    *("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TZ", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "PYENV_ROOT"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"),
    *("NETRC", "NPM_TOKEN"),
}
_PROXIES = frozenset({"http_proxy", "https_proxy", "all_proxy", "no_proxy"})
_PREFIXES = ("npm_config_", "pip_")
"""Settings of package managers, in either case."""


class Finished(NamedTuple):
    """How a command ended."""

    code: int | None
    """None: its time was over."""
    output: str

    @property
    def tail(self) -> str:
        """Its last lines, for an error."""
        return "\n".join(self.output.strip().splitlines()[-LOG_LINES:])


class Commands:
    """Runs them in the part of an environment that is theirs."""

    def __init__(self, environ: Mapping[str, str], *, held: Sequence[int] = ()) -> None:
        """`held`: descriptors that stay open as long as any process of a command."""
        self.environ = {name: value for name, value in environ.items() if _passes(name)}
        self._held = held

    def find(self, name: str) -> str | None:
        """The command of that name."""
        return shutil.which(name, path=self.environ.get("PATH", os.defpath))

    def run(
        self,
        argv: Sequence[str | Path],
        *,
        timeout_s: float,
        cwd: Path | None = None,
        own_home: bool = False,
    ) -> Finished:
        """`own_home`: HOME is an empty folder, which is gone afterwards."""
        scratch = tempfile.mkdtemp(prefix="paddock-")
        env = {**self.environ, "TMPDIR": scratch, **({"HOME": scratch} if own_home else {})}
        theirs, ours = os.pipe()
        with tempfile.TemporaryFile() as log, contextlib.ExitStack() as stack:
            lifeline = stack.enter_context(os.fdopen(ours, "wb"))
            try:
                keeper = subprocess.Popen(
                    [sys.executable, "-I", "-S", KEEPER, str(GRACE_S), scratch, *argv],
                    stdin=theirs,
                    stdout=log,
                    stderr=log,
                    cwd=cwd or scratch,
                    env=env,
                    umask=0o022,
                    pass_fds=self._held,
                    start_new_session=True,
                )
            except BaseException:
                shutil.rmtree(scratch, ignore_errors=True)
                raise
            finally:
                os.close(theirs)
            try:
                code: int | None = keeper.wait(timeout_s)
            except subprocess.TimeoutExpired:
                code = None
            finally:
                lifeline.close()
                keeper.wait()
            log.seek(max(0, log.seek(0, os.SEEK_END) - KEPT))
            return Finished(code, log.read().decode(errors="replace"))


def _passes(name: str) -> bool:
    lower = name.lower()
    return name in _NAMES or lower in _PROXIES or lower.startswith(_PREFIXES)
