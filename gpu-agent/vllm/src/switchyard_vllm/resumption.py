"""Calls whose answer began on another engine, and goes on here.

The agent names the tokens that were generated there. They are computed with the prompt, and the grammar of the call goes
through them. With the call's first output they are handed to vLLM's front end as if this engine had just generated them, so
its detokenizer, stop strings, and parsers of reasoning and tools are where they were. The agent leaves out what the client has.

Penalties by frequency and presence count what the model runner calls output, and log probabilities belong to one token
each: the agent asks for neither here.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

logger = logging.getLogger("vllm.switchyard")

RESUME = "switchyard_resume"
#: As in src/protocol/resume.ts.
RESUMED_TOKENS_MAX = 32_768


class Resumption:
    def __init__(self, scheduler: Any, vocabulary_tokens: int) -> None:
        self._scheduler = scheduler
        self.vocabulary_tokens = vocabulary_tokens
        #: By request, until its first output.
        self._untold: dict[str, list[int]] = {}
        #: Those of them whose grammar has not gone through the tokens.
        self._ungoverned: set[str] = set()

    def added(self, request: Any) -> None:
        """A request is about to be queued. One that cannot be resumed ends with an error, and no other does."""
        try:
            self._resume(request)
        except Exception:
            logger.exception("switchyard: a call could not be resumed")
            self._untold.pop(request.request_id, None)
            self._refuse(request.request_id, "the plug-in failed")

    def _resume(self, request: Any) -> None:
        sampling = request.sampling_params
        told = None if sampling is None else (sampling.extra_args or {}).get(RESUME)
        if told is None or request.prompt_token_ids is None:
            return
        tokens = self._read(told)
        if tokens is None or len(tokens) >= request.max_tokens:
            self._refuse(request.request_id, "it does not name tokens that it can be resumed from")
            return
        if not tokens:
            return
        # The front end keeps the prompt that it sent, and counts by it.
        request.prompt_token_ids = [*request.prompt_token_ids, *tokens]
        request._all_token_ids.extend(tokens)
        request.num_prompt_tokens += len(tokens)
        request.max_tokens -= len(tokens)
        sampling.max_tokens = request.max_tokens
        sampling.min_tokens = max(0, sampling.min_tokens - len(tokens))
        request.update_block_hashes()
        self._untold[request.request_id] = tokens
        if request.use_structured_output:
            self._ungoverned.add(request.request_id)

    def before_bitmask(self) -> None:
        """vLLM is about to ask grammars what may come next. Grammars are compiled beside the steps."""
        for request_id in list(self._ungoverned):
            request = self._scheduler.requests.get(request_id)
            if request is not None and request.structured_output_request.grammar is None:
                continue
            self._ungoverned.discard(request_id)
            tokens = self._untold.get(request_id, [])
            if request is None or self._scheduler.structured_output_manager.accept_tokens(request, tokens):
                continue
            self._refuse(request_id, "its grammar does not allow what was generated")

    def tell(self, outputs: Iterable[Any]) -> None:
        """What a step gave: the first output of a resumed call begins with what it was resumed from."""
        if not self._untold:
            return
        for output in outputs:
            if output.new_token_ids and output.request_id in self._untold:
                output.new_token_ids = [*self._untold.pop(output.request_id), *output.new_token_ids]
        # Others may have ended before they had output.
        for request_id in list(self._untold):
            if request_id not in self._scheduler.requests:
                del self._untold[request_id]

    def _refuse(self, request_id: str, reason: str) -> None:
        logger.error("switchyard: request %s cannot go on: %s", request_id, reason)
        # vLLM ends these with an error at the end of its next step.
        self._scheduler.grammar_compile_error_reqs.add(request_id)

    def _read(self, told: object) -> list[int] | None:
        if not isinstance(told, str) or len(told) > 11 * RESUMED_TOKENS_MAX:
            return None
        try:
            tokens = [int(part) for part in told.split(",")] if told else []
        except ValueError:
            return None
        fits = len(tokens) <= RESUMED_TOKENS_MAX and all(0 <= token < self.vocabulary_tokens for token in tokens)
        return tokens if fits else None
