"""The comparator `executed`: both actions run in copies of the step's sandbox, and what they leave and show decides.

Law     where the expert's action changes files, the policy's is the same when the same files result; where it only
        looks, when nothing is changed and what was shown covers what the expert saw (`comparison`). A whole response is
        run, so its net effect counts. What execution cannot tell (a message, a tool that is unknown, an action of the
        expert's that changes and shows nothing) is left to `semantic`, and the verdict says so in `judged_by`.
Errors  a row without a step to start from, or whose expert's action does not run, is RowError; a sandbox that fails is
        InfraError. Neither is ever a reward.
"""
