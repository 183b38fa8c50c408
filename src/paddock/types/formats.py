"""The format of what is stored: `run.json`, the lines of journals and the lines of samples each say its number.

Law     what is of a later format than `FORMAT` is refused, in words, and left as it is.
"""

FORMAT = 2
"""1: lines without a digest, and without this number."""
FORMAT_KEY = "_paddock_format"
DIGEST_KEY = "_paddock_crc32"


def later_format_text(number: int) -> str:
    """What a message says of a format that is not known here."""
    return f"it is of format {number}, and this paddock reads up to format {FORMAT}: use the paddock that wrote it"
