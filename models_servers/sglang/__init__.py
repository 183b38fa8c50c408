"""The sglang model server: turns in exact token ids, sampled by running SGLang servers or their router."""

from paddock.models_servers.sglang.server import SglangServer

__all__ = ["SglangServer"]
