"""The last hidden states of a model of Transformers, and what its own forward pass makes of them: logits.

Law     the head is the model's own forward pass, with hidden states given in place of what its body computes: scales,
        soft caps and biases of logits are what the model's class says, tied or not. A model whose forward pass does not
        call its body as a whole (decoders of encoder-decoders) has no such head: its logits are computed whole.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch

from paddock.training.grpo.token_scores import ModelHead


class LanguageHead:
    """The head of one model."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._body = model.base_model
        self._apart: bool | None = None
        self._n_calls = 0

    def split(self, inputs: dict[str, Any]) -> tuple[torch.Tensor, ModelHead]:
        """Hidden states `[rows, length, hidden size]` of the inputs, and the head for some of them. Where the model has
        no head of its own, the hidden states are logits."""
        if self._apart is not False and self._body is not self._model:
            output = self._body(**inputs, use_cache=False)
            hidden: torch.Tensor = output.last_hidden_state
            head = ModelHead(lambda own: self._logits(output, own), self._weights())
            if self._apart is None:
                self._apart = self._reached(head, hidden)
            if self._apart:
                return hidden, head
        return self._model(**inputs, use_cache=False).logits, ModelHead(lambda logits: logits, ())

    def _logits(self, output: Any, hidden: torch.Tensor) -> torch.Tensor:
        with self._given(output, hidden):
            logits: torch.Tensor = self._model.forward(inputs_embeds=hidden[None], use_cache=False).logits[0]
        return logits

    @contextmanager
    def _given(self, output: Any, hidden: torch.Tensor) -> Iterator[None]:
        """The body gives `output`, with these hidden states."""
        self._n_calls = 0

        def forward(*_: Any, **__: Any) -> Any:
            self._n_calls += 1
            return replace(output, last_hidden_state=hidden[None])

        self._body.forward = forward
        try:
            yield
        finally:
            del self._body.forward

    def _reached(self, head: ModelHead, hidden: torch.Tensor) -> bool:
        """Whether the model's forward pass calls its body."""
        try:
            with torch.no_grad():
                head.logits(hidden.flatten(0, 1)[:1])
        except (TypeError, ValueError, RuntimeError):  # of parts of the body, which are called instead
            return False
        return self._n_calls > 0

    def _weights(self) -> list[torch.Tensor]:
        """The weights outside of the body, and the output embedding's, which may be tied to one in it."""
        inside = {id(weight) for weight in self._body.parameters()}
        own = [weight for weight in self._model.parameters() if id(weight) not in inside]
        output = self._model.get_output_embeddings()
        tied = [] if output is None else list(output.parameters())
        return list({id(weight): weight for weight in (*own, *tied)}.values())
