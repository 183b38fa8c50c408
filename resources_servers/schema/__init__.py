"""Structured output: the policy's answer is one document that a schema takes."""

from paddock.resources_servers.schema.server import SchemaServer

__all__ = ["SchemaServer"]
