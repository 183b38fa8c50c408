"""The policy on Megatron-core: tensor, pipeline, context and expert parallel."""
