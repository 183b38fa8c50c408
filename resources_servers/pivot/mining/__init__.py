"""Finds decision points in experts' trajectories: steps where a policy's answers differ in reward become pivot rows.

Source  PivotRL, arXiv:2603.21383.
Shapes  `read_trajectories`: files to `Trajectory`. `find_candidates`: these to `PivotCandidate`, and what was left
        out, each with its reason. `choose`: the rewards of the policy's answers to what becomes of each.
"""
