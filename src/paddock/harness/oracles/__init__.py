"""Known fixes as turns of a policy, by toolbox: what a native harness and the real program share."""
