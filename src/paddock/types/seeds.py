"""Seeds of random draws, made of what they are for: the same parts give the same seed, in every process."""

import hashlib
import json


def seed_from(*parts: int | str | None) -> int:
    """A seed of 31 bits, which every engine takes."""
    return int.from_bytes(hashlib.sha256(json.dumps(parts).encode()).digest()[:4], "big") >> 1
