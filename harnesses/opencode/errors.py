"""A tool's own failure: its message is the result that the model gets."""


class ToolError(Exception):
    """In the words of the program."""
