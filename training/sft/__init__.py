"""Supervised fine-tuning on chosen rollouts, as the usual warm start before RL: `paddock sft`.

The policy, its checkpoints and its processes are those of the built-in loop (`grpo`).
"""
