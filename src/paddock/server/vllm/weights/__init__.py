"""New weights for vLLM servers that sample, from a trainer: whichever trainer it is.

Nothing here imports vLLM but `collectives.NcclCollective`, and that where it connects.
"""
