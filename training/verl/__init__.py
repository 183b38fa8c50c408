"""Paddock's environments inside verl: an agent loop whose rollouts run in our servers, agents and harnesses."""
