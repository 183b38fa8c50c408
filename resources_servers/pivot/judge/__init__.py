"""A judge for what `semantic` leaves undecided: a model is asked whether two actions do the same.

Asked   only of one call against one expected call, both of the same kind and target, which are not known to be the same
        nor to differ (`semantic.undecided`). Never of words, of what destroys, or of several calls.
Law     same only where the judge says so in both orders. What it fails to say is InfraError, never a reward.
Masked  of the policy it sees what the call does and nothing else (`prompt`).
"""
