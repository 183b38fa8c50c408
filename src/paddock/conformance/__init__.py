"""Conformance suites of the plugin kinds."""
