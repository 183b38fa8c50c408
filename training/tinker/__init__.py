"""Training through a Tinker-style API: a server samples our rollouts from ids, and learns from their samples."""
