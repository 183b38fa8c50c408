"""Claims about where sandboxes may live, on this machine and elsewhere."""

import os
from pathlib import Path

import pytest
from pydantic import ValidationError

from paddock.errors import ConfigError
from paddock.sandbox import SandboxError, SandboxSettings, SandboxSpec, open_local_provider, open_provider
from paddock.sandbox.remote.client import RemoteProvider
from paddock.sandbox.settings import HOME_VARIABLE, check_home, default_home


def test_a_home_is_absolute_wherever_it_comes_from(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(HOME_VARIABLE, "here")
    assert default_home() == Path("here")
    assert SandboxSettings().home == tmp_path / "here"
    assert SandboxSettings(home=Path("there")).home == tmp_path / "there"


@pytest.mark.parametrize("name", ["a,b", "a:b", "a\\b"])
def test_a_path_that_overlayfs_splits_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="comma, colon or backslash"):
        check_home(tmp_path / name)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root's sandboxes run as another user")
def test_a_home_in_a_closed_folder_is_refused_with_what_would_open_it(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    with pytest.raises(ConfigError, match=r"closed is closed to other users.*chmod o\+x"):
        check_home(closed / "home")


def test_nodes_are_urls_each_named_once() -> None:
    assert SandboxSettings(nodes=("https://node.example:8900", "http://b:1"), max_sandboxes=3).nodes
    for nodes, word in ((("http://a:1", "http://a:1/"), "named twice"), (("a:1",), "http://HOST:PORT")):
        with pytest.raises(ValidationError, match=word):
            SandboxSettings(nodes=nodes)
    with pytest.raises(ValidationError, match="only of nodes"):
        SandboxSettings(max_sandboxes=3)


@pytest.mark.slow
async def test_settings_with_a_node_give_a_provider_of_it_and_none_of_this_machine() -> None:
    settings = SandboxSettings(nodes=("http://127.0.0.1:1",), answer_margin_s=0.1)
    provider = await open_provider(settings)
    assert isinstance(provider, RemoteProvider)
    with pytest.raises(SandboxError) as unreachable:
        await provider.create(SandboxSpec(image="any"), request_id="x")
    assert (unreachable.value.kind, unreachable.value.retryable) == ("node_unreachable", True)
    await provider.close()
    with pytest.raises(ConfigError, match="this machine"):
        await open_local_provider(settings)
