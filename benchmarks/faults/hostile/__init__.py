"""A policy that means harm: what runs inside a hostile sandbox, with the image's own Python and nothing else.

Roles   are functions of a `Chance` that never return: `exhaustion` uses things up, `floods` fills what moves, `attacks`
        tries what must not be possible. `__main__` draws them by seed and runs some at a time, for some seconds each.
Breach  whatever succeeds that must not is told by `calls.breach`, a line on stderr that the outside looks for.
"""
