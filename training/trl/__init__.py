"""Paddock's environments inside TRL: a worker for its asynchronous trainer, a rollout function for the other."""
