"""What the file editor says about its own failures: text for the model. Its wordings are those of the program."""


class EditorError(Exception):
    """Its text is the tool's answer."""

    @property
    def text(self) -> str:
        return str(self.args[0])


class BinaryFileError(EditorError):
    """The file holds no text."""


def invalid(parameter: str, value: object, hint: str) -> EditorError:
    return EditorError(f"Invalid `{parameter}` parameter: {value}. {hint}")


def missing(command: str, parameter: str) -> EditorError:
    return EditorError(f"Parameter `{parameter}` is required for command: {command}.")
