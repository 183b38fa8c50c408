"""Sandboxes: one protocol, several runtimes, images, a watchdog, a blocklist, a tunnel."""
