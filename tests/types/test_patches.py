"""Claims about patches as JSON carries them."""

import orjson
import pytest

from paddock.types import patch_from_text, patch_to_text


@pytest.mark.parametrize(
    "patch", [b"", b"a\r\nb\n", "café\n".encode(), b"caf\xe9\n\xff\x00", b"base64:looks like it\n"]
)
def test_a_patch_comes_back_through_json_as_it_was(patch: bytes) -> None:
    assert patch_from_text(orjson.loads(orjson.dumps(patch_to_text(patch)))) == patch


def test_text_stays_readable() -> None:
    assert patch_to_text(b"diff --git a/x b/x\r\n") == "diff --git a/x b/x\r\n"


@pytest.mark.parametrize(("text", "patch"), [("caf\udce9", b"caf\xe9"), ("\ud800", b"\xed\xa0\x80")])
def test_lone_surrogates_of_others_are_the_bytes_they_stand_for(text: str, patch: bytes) -> None:
    assert patch_from_text(text) == patch


def test_base64_that_does_not_decode_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"base64|padding"):
        patch_from_text("base64:###")
