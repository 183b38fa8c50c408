"""The SWE server: a repository, a bug, hidden tests, a verdict."""
