"""From what judges answer to rewards: parsing of answers, traits of responses, aggregation. Pure functions, no I/O.

Source  NeMo-Gym's `genrm_compare` (parse rules, tie-break, length and style terms); Bradley and Terry 1952,
        Biometrika 39.
"""
