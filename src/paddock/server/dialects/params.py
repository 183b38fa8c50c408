"""Names of sampling parameters that requests of any dialect may bring: the Chat API's, and vLLM's beside them."""

SAMPLING = (
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "seed",
    "stop",
    "presence_penalty",
    "frequency_penalty",
    "repetition_penalty",
)
