"""The parts of training that need no framework: groups, advantages, batches, the loss, the buffer.

Plain Python and numbers; torch, Ray and vLLM are unknown here. Every formula names its source where it stands.
"""
