"""Paddock's environments inside SkyRL: a generator whose rollouts run in our servers, agents and harnesses."""
