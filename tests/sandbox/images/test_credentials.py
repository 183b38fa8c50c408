"""Claims about credentials: taken from where other programs keep them, for the host they are meant for alone."""

import base64
import json
from pathlib import Path

import pytest

from paddock.errors import ConfigError
from paddock.sandbox.images.registry import Credentials, find_credentials
from paddock.sandbox.images.registry.client import is_loopback
from paddock.types import Json

ENCODED = base64.b64encode(b"user:se:cret").decode()


def keep(home: Path, auths: Json, at: str = ".docker/config.json") -> dict[str, str]:
    path = home / at
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"auths": auths}))
    return {"HOME": str(home)}


@pytest.mark.parametrize("key", ["m.example", "https://m.example", "https://m.example/v1/"])
def test_a_docker_config_is_read(key: str, tmp_path: Path) -> None:
    environ = keep(tmp_path, {key: {"auth": ENCODED}})
    assert find_credentials("m.example", environ) == Credentials("user", "se:cret")
    for other in ("example", "m.example:5000", "x.m.example", "m.example.org"):
        assert find_credentials(other, environ) is None


def test_the_default_registry_has_several_names(tmp_path: Path) -> None:
    environ = keep(tmp_path, {"https://index.docker.io/v1/": {"auth": ENCODED}})
    assert find_credentials("registry-1.docker.io", environ) == Credentials("user", "se:cret")


def test_podmans_file_is_read_where_docker_has_none(tmp_path: Path) -> None:
    environ = keep(tmp_path, {"m.example": {"username": "u", "password": "p"}}, ".config/containers/auth.json")
    assert find_credentials("m.example", environ) == Credentials("u", "p")


def test_the_environment_speaks_for_one_host(tmp_path: Path) -> None:
    environ = {
        "HOME": str(tmp_path),
        "PADDOCK_REGISTRY_HOST": "m.example",
        "PADDOCK_REGISTRY_USER": "u",
        "PADDOCK_REGISTRY_PASSWORD": "p",
    }
    assert find_credentials("m.example", environ) == Credentials("u", "p")
    assert find_credentials("other.example", environ) is None


def test_credentials_do_not_show_their_secret() -> None:
    assert "secret" not in repr(Credentials("user", "secret"))
    assert "secret" not in f"{Credentials('user', 'secret')}"


def test_a_broken_config_is_said(tmp_path: Path) -> None:
    environ = keep(tmp_path, {})
    (tmp_path / ".docker/config.json").write_text("{")
    with pytest.raises(ConfigError, match=r"config\.json"):
        find_credentials("m.example", environ)


@pytest.mark.parametrize(
    ("host", "here"),
    [
        ("127.0.0.1", True),
        ("127.0.0.1:5000", True),
        ("127.9.9.9:1", True),
        ("localhost:5000", True),
        ("[::1]:5000", True),
        ("127.0.0.1.example", False),
        ("localhost.example", False),
        ("10.0.0.1:5000", False),
        ("example", False),
    ],
)
def test_loopback_is_told_by_its_name_alone(host: str, here: bool) -> None:
    assert is_loopback(host) is here
