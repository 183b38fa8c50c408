"""Paddock's environments inside NeMo-RL's own trainer: what it reads of a rollout, checked, and both ways in."""
