"""Servers and agents of NeMo-Gym's, unmodified, in processes of their own: found, installed, started, restarted."""
