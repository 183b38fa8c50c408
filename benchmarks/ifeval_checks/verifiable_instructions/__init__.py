"""Stands for the package of this name that NeMo-Gym's `instruction_following` takes from a repository."""
