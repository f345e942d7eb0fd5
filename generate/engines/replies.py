"""What OpenAI-compatible servers send, read into one form, errors included."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeGuard

from pydantic import BaseModel, Field

# where a server puts the log-probabilities of a prompt's tokens: vLLM's extension, or the old echo
Scoring = Literal["prompt_logprobs", "echo"]
SCORING: Mapping[Scoring, Mapping[str, object]] = {
    "prompt_logprobs": {"prompt_logprobs": 0},
    "echo": {"echo": True, "logprobs": 1},
}

# some servers write it because JSON has no -inf
_NO_LOGPROB = -9999.0
# rounding may lift that of a certain token a little above 0; what is higher is no logarithm of a probability
_HIGHEST_LOGPROB = 1e-3

# how servers say that a prompt is too long, in the text, the type or the code of the error
_TOO_LONG = re.compile(
    r"context.?(length|size|window)|maximum (model|input) length|`max_new_tokens` must|`inputs` must have",
    re.IGNORECASE,
)
_CONTEXT_LENGTH = re.compile(
    r"(?:context (?:length|size|window)|model length|input length)(?: is| of)? \(?(\d+)|"
    r"must (?:be|have) (?:<=|less than) (\d+)",
    re.IGNORECASE,
)
_PROMPT_LENGTH = re.compile(
    # "at least 1025" is no length
    r"(?<!at least )(?<!\d)(\d+) (?:in (?:the messages|the prompt|your prompt)|`inputs` tokens|input tokens)|"
    r"(?:resulted in|prompt \(length|input length|the input) \(?(\d+)",
    re.IGNORECASE,
)


class Usage(BaseModel):
    """Tokens as the server counts them."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None


class _Message(BaseModel):
    content: str | None = None
    refusal: str | None = None


class _PromptLogprob(BaseModel):
    logprob: float | None = None


class _Logprobs(BaseModel):
    token_logprobs: list[float | None] | None = None


class Choice(BaseModel):
    """One response; what a server does not send is None."""

    index: int = 0
    text: str | None = None
    message: _Message | None = None
    finish_reason: str | None = None
    token_ids: list[int] | None = None
    prompt_logprobs: list[dict[str, _PromptLogprob] | None] | None = None
    logprobs: _Logprobs | None = None

    def of_prompt(self, ids: Sequence[int], scoring: Scoring) -> list[float | None]:
        """Return the log-probability of each token of the prompt, in nats, and None where there is none."""
        if scoring == "prompt_logprobs":
            rows = self.prompt_logprobs or []
            if len(rows) != len(ids):
                return [None] * len(ids)
            rated = (row.get(str(token)) if row else None for token, row in zip(ids, rows, strict=True))
            return [found.logprob if found else None for found in rated]
        echoed = (self.logprobs.token_logprobs if self.logprobs else None) or []
        # the one token that was generated may stand behind them; any other length is of other tokens
        return echoed[: len(ids)] if len(echoed) in (len(ids), len(ids) + 1) else [None] * len(ids)


class Completion(BaseModel):
    """What a server answers to one request."""

    choices: list[Choice] = Field(min_length=1)
    usage: Usage | None = None


class Served(BaseModel):
    """One model in a server's list."""

    id: str
    owned_by: str | None = None
    root: str | None = None
    max_model_len: int | None = None
    context_length: int | None = None
    context_window: int | None = None

    @property
    def context_tokens(self) -> int | None:
        """Prompt and response together, under any of the names that servers have for it."""
        return self.max_model_len or self.context_length or self.context_window


class ServedList(BaseModel):
    """The models that a server has."""

    data: list[Served]


@dataclass(frozen=True, slots=True)
class ErrorReply:
    """What a server says of an error.

    Attributes
    ----------
    message
        Its own words; empty if there are none.
    code
        Status that the error has in itself; None if only the response has one.
    is_too_long
        Whether the prompt does not fit in the context.
    n_prompt_tokens, context_tokens
        Of such a prompt, where the server names them.
    is_spent
        Whether what the account may use is used up, which some servers say as if it would pass.
    """

    message: str = ""
    code: int | None = None
    is_too_long: bool = False
    n_prompt_tokens: int | None = None
    context_tokens: int | None = None
    is_spent: bool = False


def is_logprob(value: float | None) -> TypeGuard[float]:
    """Return True for a log-probability, False for what servers write when they have none."""
    return value is not None and _NO_LOGPROB < value <= _HIGHEST_LOGPROB


def error_in(content: bytes) -> ErrorReply | None:
    """Return the error that a body holds; None if it is no JSON object with one."""
    try:
        body = json.loads(content)
    except (ValueError, RecursionError):
        return None
    if not isinstance(body, dict):
        return None
    error = body.get("error") or {name: body.get(name) for name in ("message", "detail") if body.get(name)}
    if not error:
        return None
    if not isinstance(error, dict):
        error = {"message": error, "type": body.get("error_type")}
    message = str(error.get("message") or error.get("detail") or "")
    named = f"{message} {error.get('type')} {error.get('code')}"
    is_too_long = bool(_TOO_LONG.search(named))
    return ErrorReply(
        message,
        _number(error.get("code")),
        is_too_long,
        (_number(error.get("n_prompt_tokens")) or _number_in(_PROMPT_LENGTH, message))
        if is_too_long
        else None,
        (_number(error.get("n_ctx")) or _number_in(_CONTEXT_LENGTH, message)) if is_too_long else None,
        "insufficient_quota" in named,
    )


def _number(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _number_in(pattern: re.Pattern[str], text: str) -> int | None:
    found = pattern.search(text)
    return int(next(group for group in found.groups() if group)) if found else None
