"""A node: this machine's sandboxes for clients elsewhere, over HTTP."""

from paddock.sandbox_server.node import serve_node

__all__ = ["serve_node"]
