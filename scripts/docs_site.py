"""Builds the documentation site: docs/, the README of each plugin and room, and the files that they link to.

Usage   python scripts/docs_site.py [FOLDER]: the site in FOLDER (build/site). Exits 1 where a link or an anchor leads
        nowhere. The generator has an environment of its own, build/docs-env, made when it is missing.
Source  `mkdocs.yml` has the order of the pages. They are copied to where they stand in the repository, so that links
        that work there work here; a link to code becomes a link to a copy of it.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
SOURCES = BUILD / "docs-source"
ENVIRONMENT = BUILD / "docs-env"
GENERATOR = ("mkdocs==1.6.1", "mkdocs-material==9.8.1")
_LINK = re.compile(r"\]\((?!\w+:|#)([^)#\s]+)")


def main(*words: str) -> int:
    site = Path(words[0]).resolve() if words else BUILD / "site"
    _install()
    shutil.rmtree(SOURCES, ignore_errors=True)
    pages = _pages()
    for file in {*pages, *_linked(pages)}:
        target = SOURCES / file.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target)
    command = [str(ENVIRONMENT / "bin" / "mkdocs"), "build", "--strict", "--site-dir", str(site)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(command, cwd=ROOT, env=environment, check=False, capture_output=True, text=True)
    for line in (built.stdout + built.stderr).splitlines():
        if line.startswith(("WARNING", "ERROR", "Aborted", "Error")):
            print(line)
    return built.returncode


def _install() -> None:
    python = ENVIRONMENT / "bin" / "python"
    ready = ENVIRONMENT / f"ready-{'-'.join(GENERATOR)}"
    if ready.exists():
        return
    uv = Path(sys.executable).with_name("uv")
    subprocess.run([uv, "venv", "--quiet", "--clear", "--python", sys.executable, ENVIRONMENT], check=True)
    subprocess.run([uv, "pip", "install", "--quiet", "--python", python, *GENERATOR], check=True)
    ready.touch()


def _pages() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, check=True, capture_output=True, text=True)
    files = [ROOT / name for name in listed.stdout.splitlines()]
    return [file for file in files if not file.relative_to(ROOT).parts[0].startswith(("tests", "notes"))]


def _linked(pages: list[Path]) -> Iterator[Path]:
    """Files that pages link to and that are no pages."""
    for page in pages:
        for link in _LINK.findall(page.read_text()):
            target = (page.parent / link).resolve()
            if target.is_file() and target.is_relative_to(ROOT) and target.suffix != ".md":
                yield target


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
