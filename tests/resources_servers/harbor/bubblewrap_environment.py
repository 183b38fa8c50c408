"""An environment of Harbor's own runner without a container engine: host folders, and commands under bubblewrap."""

import asyncio
import shutil
from pathlib import Path
from typing import Any

from harbor.environments.base import BaseEnvironment, ExecResult
from harbor.environments.capabilities import EnvironmentCapabilities

FOLDERS = ("app", "logs/agent", "logs/verifier", "logs/artifacts", "tests", "solution", "tmp", "root")
SYSTEM = ("--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib")
MORE = ("--symlink", "usr/lib64", "/lib64", "--ro-bind", "/etc", "/etc", "--proc", "/proc", "--dev", "/dev")


class BubblewrapEnvironment(BaseEnvironment):  # type: ignore[misc] # harbor is not installed here
    """Has one folder on the host for each that a task sees; the rest is this machine's, read-only."""

    @staticmethod
    def type() -> str:
        return "bubblewrap"

    @property
    def capabilities(self) -> EnvironmentCapabilities:
        return EnvironmentCapabilities(disable_internet=True)

    def _validate_definition(self) -> None:
        """Nothing is built."""

    @property
    def root(self) -> Path:
        return Path(self.trial_paths.trial_dir, "root")

    async def start(self, force_build: bool) -> None:
        for folder in FOLDERS:
            (self.root / folder).mkdir(parents=True, exist_ok=True)

    async def stop(self, delete: bool) -> None:
        shutil.rmtree(self.root, ignore_errors=True)

    def _host(self, path: str) -> Path:
        return self.root / path.lstrip("/")

    async def upload_file(self, source_path: Path | str, target_path: str) -> None:
        self._host(target_path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source_path, self._host(target_path))

    async def upload_dir(self, source_dir: Path | str, target_dir: str) -> None:
        shutil.copytree(source_dir, self._host(target_dir), dirs_exist_ok=True)

    async def download_file(self, source_path: str, target_path: Path | str) -> None:
        shutil.copy(self._host(source_path), target_path)

    async def download_dir(self, source_dir: str, target_dir: Path | str) -> None:
        shutil.copytree(self._host(source_dir), target_dir, dirs_exist_ok=True)

    async def exec(
        self,
        command: str,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        timeout_sec: int | None = None,
        user: Any = None,
    ) -> ExecResult:
        tops = sorted({folder.split("/")[0] for folder in FOLDERS})
        binds = [word for top in tops for word in ("--bind", str(self.root / top), f"/{top}")]
        variables = [word for name, value in (env or {}).items() for word in ("--setenv", name, value)]
        argv = ["bwrap", "--unshare-all", "--die-with-parent", *SYSTEM, *MORE, *binds, "--chdir", cwd or "/app"]
        process = await asyncio.create_subprocess_exec(
            *argv, *variables, "bash", "-c", command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        try:
            out, err = await asyncio.wait_for(process.communicate(), timeout_sec)
        except TimeoutError:
            process.kill()
            await process.wait()
            raise
        return ExecResult(stdout=out.decode(), stderr=err.decode(), return_code=process.returncode or 0)
