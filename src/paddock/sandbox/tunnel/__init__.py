"""The tunnel to the one thing that a sandbox reaches: its rollout's model, through a loopback port inside.

Law     only model calls pass, to this rollout's model and nowhere else; what names the rollout is added on this side.
        A call is the data that it is about: what would have the model's server fetch, look up or run something is
        refused (`dialects`, `references`). A tunnel dies with its rollout: `close` ends every open exchange.
Wire    HTTP/1.1, one exchange per connection; answers are passed on as their bytes come.
Errors  for the client inside as `{"error": {type, message}}`: 400 a field that is not taken, in the dialect's form, 403
        another host or path, 405, 408, 413, 502 where the model is out of reach; a stream that is cut upstream is cut
        inside too, never ended as if it were whole. None names where the model is.
"""

from paddock.sandbox.tunnel.errors import TunnelRefusal
from paddock.sandbox.tunnel.settings import MODEL_PATHS, TunnelSettings
from paddock.sandbox.tunnel.tunnel import Tunnel
from paddock.sandbox.tunnel.upstream import HttpUpstream, ModelRequest, Upstream, UpstreamAnswer

__all__ = [
    "MODEL_PATHS",
    "HttpUpstream",
    "ModelRequest",
    "Tunnel",
    "TunnelRefusal",
    "TunnelSettings",
    "Upstream",
    "UpstreamAnswer",
]
