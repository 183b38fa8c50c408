"""A training run begun with one command: here, or as a job of SLURM, by the built-in loop or by NeMo-RL."""
