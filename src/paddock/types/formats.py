"""The format number that `run.json`, the lines of journals and the lines of samples carry.

Law     a file or line of a later format than `FORMAT` is refused with a message, and left as it is.
"""

FORMAT = 2
"""The format that is written. Lines of format 1 have neither a digest nor this number."""
FORMAT_KEY = "_paddock_format"
DIGEST_KEY = "_paddock_crc32"


def later_format_text(number: int) -> str:
    """The message about a format that is not known here."""
    return f"it is of format {number}, and this paddock reads up to format {FORMAT}: use the paddock that wrote it"
