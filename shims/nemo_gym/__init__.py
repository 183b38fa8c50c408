"""Paddock under the name by which NeMo-RL imports its environments: put this folder's parent on the actor's path.

Source  NVIDIA-NeMo/RL, `nemo_rl/environments/nemo_gym.py`: all that it imports of `nemo_gym`, and how it calls it.
Law     no part of the installed package, so that it never stands in for an installed NeMo-Gym by accident. Thin: what
        is done is in `paddock.training.nemo_rl`.
"""

OURS = "paddock"
"""By which it is told from an installed NeMo-Gym."""
