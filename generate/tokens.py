"""From requests to tokens: chat templates, the boundary between prompt and option, and the context's limit.

One place for all engines that tokenise here, so that they ask a model the same thing.

Plain text is data: where it spells a special token, such as "<|im_end|>", it is encoded as the characters
that it is made of, if the tokenizer can do that. A chat is rendered by the model's template, whose special
tokens must count, so the rendered text is read with them; a message that spells one is read as one, as in
every chat server.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from itertools import islice, pairwise
from typing import Any

from generate.contract import Answer, Message, Request, Response, ResponseStatus
from generate.engines.own_code import is_refused, needs_code, require_own
from store.errors import EngineFailed, first_line

LINE_END = "\n"

Ids = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Continuation:
    """One option of a request, as tokens.

    Attributes
    ----------
    option
        As the request names it.
    token_ids
        The whole sequence: prompt, option, and terminator if there is one.
    start
        Position of the first token that is scored; at least 1.
    is_merged
        Prompt and option share a token, so scoring starts before the end of the prompt.
    terminator
        Text that was put behind the option.
    """

    option: str
    token_ids: tuple[int, ...]
    start: int
    is_merged: bool
    terminator: str | None


@dataclass(frozen=True, slots=True)
class Encoded:
    """A request as tokens.

    Attributes
    ----------
    prompt_text
        The prompt as the model sees it: rendered if it is a chat, without trailing spaces if these moved to
        the options. A BOS that the tokenizer adds is not written out.
    prompt_token_ids
        With BOS.
    max_tokens
        Budget of an answer, after shrinking to the space left; None for a choice.
    continuations
        Of a choice, in the order of the options. All have the same ``start``.
    """

    prompt_text: str
    prompt_token_ids: tuple[int, ...]
    max_tokens: int | None
    continuations: tuple[Continuation, ...]


@dataclass(frozen=True, slots=True)
class _Rendered:
    """Texts of a request, before they are encoded."""

    prompt: str
    # what is encoded: the prompt alone, then the prompt with each option
    texts: tuple[str, ...]
    is_chat: bool
    terminator: str | None = None


class _Refused(Exception):
    """A request that cannot be asked."""

    def __init__(self, reason: str, status: ResponseStatus = "error") -> None:
        super().__init__(reason)
        self.status = status


class Tokens:
    """A tokenizer with the rules of the house.

    Attributes
    ----------
    has_chat_template
        Whether messages can be rendered.
    bos_token_id
        Token that begins sequences; None if there is none.
    n_leading_bos
        How often the tokenizer puts it before a text of its own accord: 1 or 0.

    Parameters
    ----------
    tokenizer
        A tokenizer of transformers.
    context_tokens
        Most tokens of prompt and response together.
    """

    def __init__(self, tokenizer: Any, context_tokens: int) -> None:  # noqa: ANN401
        self.tokenizer = tokenizer
        self.context_tokens = context_tokens
        self.has_chat_template = bool(tokenizer.chat_template)
        self._bos = _declared_bos(tokenizer)
        self._bos_text = "".join(tokenizer.convert_ids_to_tokens(list(self._bos)))
        self._splits_specials = _can_split_specials(tokenizer)
        self._end_of_turn: str | None = None
        self.bos_token_id: int | None = self._bos[0] if self._bos else tokenizer.bos_token_id
        self.n_leading_bos = 1 if self._bos else 0

    def encode(self, request: Request) -> Encoded | Response:
        """Return the request as tokens, or a response that says why it cannot be asked.

        Returns
        -------
        Encoded | Response
            A response has the status ``too_long``, with the lengths, or ``error``.
        """
        [encoded] = self.encode_many([request])
        return encoded

    def encode_many(self, requests: Sequence[Request]) -> list[Encoded | Response]:
        """Return what :meth:`encode` would of each request, with two calls of the tokenizer for all."""
        rendered = [self._rendered(request) for request in requests]
        asked = [one for one in rendered if isinstance(one, _Rendered)]
        chat = iter(self._chat_ids([text for one in asked if one.is_chat for text in one.texts]))
        plain = iter(self._plain_ids([text for one in asked if not one.is_chat for text in one.texts]))
        return [
            one
            if isinstance(one, Response)
            else self._encoded(request, one, *islice(chat if one.is_chat else plain, len(one.texts)))
            for request, one in zip(requests, rendered, strict=True)
        ]

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of tokens without special tokens, spaces as they are."""
        text: str = self.tokenizer.decode(
            list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        return text

    def decode_after(self, before: Sequence[int], ids: Sequence[int]) -> str:
        """Return the text that tokens add behind others.

        Some tokenizers drop the space before the first word of what they decode; here it is not the first.
        """
        # a few tokens are enough, as only the neighbours of the first new one matter
        context = list(before[-8:])
        start, whole = self.decode(context), self.decode([*context, *ids])
        return whole[len(start) :] if whole.startswith(start) else self.decode(ids)

    def _rendered(self, request: Request) -> _Rendered | Response:
        try:
            return _checked(self._render(request))
        except _Refused as refused:
            prompt = request.prompt
            written = prompt if isinstance(prompt, str) else json.dumps([asdict(one) for one in prompt])
            return Response(refused.status, written.encode(errors="backslashreplace").decode(), str(refused))

    def _render(self, request: Request) -> _Rendered:
        options = () if isinstance(request.task, Answer) else request.task.options
        has_longer = any(after.startswith(before) for before, after in pairwise(sorted(options)))
        if not isinstance(request.prompt, str):
            text = self._render_chat(request.prompt)
            terminator = self._turn_end() if has_longer else None
            joint = (text + option + (terminator or "") for option in options)
            return _Rendered(text, (text, *joint), True, terminator)
        # where options follow, they take the spaces before them along
        text = request.prompt.rstrip(" ") if options else request.prompt
        spaces = request.prompt[len(text) :]
        # a BOS that is written out is the one that is added to every text
        start = text.removeprefix(self._bos_text)
        terminator = LINE_END if has_longer else None
        joint = (start + spaces + option + (terminator or "") for option in options)
        return _Rendered(text, (start, *joint), False, terminator)

    def _render_chat(self, messages: tuple[Message, ...], *, is_over: bool = False) -> str:
        if not self.has_chat_template:
            raise _Refused("the tokenizer has no chat template; ask in the plain format")
        try:
            text: str = self.tokenizer.apply_chat_template(
                [asdict(message) for message in messages],
                tokenize=False,
                add_generation_prompt=not is_over,
                # templates that know no thinking ignore it
                enable_thinking=False,
            )
        # a template is a program of the model's authors: whatever it raises concerns these messages alone
        except Exception as error:
            raise _Refused(f"the chat template refuses the messages: {first_line(error)}") from error
        return text

    def _encoded(self, request: Request, rendered: _Rendered, prompt: Ids, *joint: Ids) -> Encoded | Response:
        try:
            if not prompt:
                raise _Refused("the prompt is empty and the model declares no BOS: nothing predicts a token")
            if isinstance(request.task, Answer):
                max_tokens = self._budget(request.task, prompt)
                return Encoded(rendered.prompt, prompt, max_tokens, ())
            continuations = self._continuations(request.task.options, rendered.terminator, prompt, joint)
            return Encoded(rendered.prompt, prompt, None, continuations)
        except _Refused as refused:
            return Response(refused.status, rendered.prompt, str(refused), prompt, len(prompt))

    def _budget(self, task: Answer, prompt: Ids) -> int:
        if task.max_tokens < 1:
            raise _Refused(f"max_tokens must be 1 or more, found {task.max_tokens}")
        if "" in task.stop:
            raise _Refused("a stop must have text, found an empty one")
        space = self.context_tokens - len(prompt)
        if space < 1:
            raise _Refused(
                f"the prompt has {len(prompt)} tokens; with 1 token of response it needs {len(prompt) + 1}, "
                f"and the context has {self.context_tokens}",
                "too_long",
            )
        return min(task.max_tokens, space)

    def _continuations(
        self, options: tuple[str, ...], terminator: str | None, prompt: Ids, joint: tuple[Ids, ...]
    ) -> tuple[Continuation, ...]:
        _check_options(options)
        longest = max(map(len, joint))
        if longest > self.context_tokens:
            raise _Refused(
                f"the prompt has {len(prompt)} tokens; with its longest option it needs {longest}, and the "
                f"context has {self.context_tokens}",
                "too_long",
            )
        start = min(n_same(prompt, ids) for ids in joint)
        _check_sequences(options, joint, start)
        is_merged = start < len(prompt)
        return tuple(
            Continuation(option, ids, start, is_merged, terminator)
            for option, ids in zip(options, joint, strict=True)
        )

    def _chat_ids(self, texts: list[str]) -> list[Ids]:
        # most templates write BOS themselves
        return [
            ids if ids[: len(self._bos)] == self._bos else self._bos + ids
            for ids in _token_ids(self.tokenizer, texts)
        ]

    def _plain_ids(self, texts: list[str]) -> list[Ids]:
        return [self._bos + ids for ids in _token_ids(self.tokenizer, texts, split=self._splits_specials)]

    def _turn_end(self) -> str:
        """Return what the template writes behind a response, else the EOS, else a line end."""
        if self._end_of_turn is None:
            self._end_of_turn = self._written_turn_end() or self.tokenizer.eos_token or LINE_END
        return self._end_of_turn

    def _written_turn_end(self) -> str | None:
        marker = "0response0"
        try:
            text = self._render_chat((Message("user", "Q"), Message("assistant", marker)), is_over=True)
        except _Refused:
            return None
        specials = {token.content for token in self.tokenizer.added_tokens_decoder.values() if token.special}
        behind = text.rpartition(marker)[2]
        found = [(behind.index(special), -len(special), special) for special in specials if special in behind]
        return min(found)[2] if found else None


def load_tokenizer(model: str, revision: str | None, *, trust_remote_code: bool = False) -> Any:  # noqa: ANN401
    """Return the tokenizer of a repository on the hub or of a folder.

    Parameters
    ----------
    trust_remote_code
        Run code that comes with it, if any does.

    Raises
    ------
    EngineFailed
        If there is none, or it needs code that may not be run.
    """
    transformers = import_module("transformers")
    try:
        if trust_remote_code:
            auto = import_module("transformers.models.auto.tokenization_auto")
            written = auto.get_tokenizer_config(model, revision=revision)
            require_own(model, written.get("auto_map"))
        return transformers.AutoTokenizer.from_pretrained(
            model, revision=revision, trust_remote_code=trust_remote_code
        )
    except EngineFailed:
        raise
    # the kinds are many: missing files, gated repositories, broken JSON, unknown classes
    except Exception as error:
        if not trust_remote_code and is_refused(error):
            raise needs_code(model) from error
        raise EngineFailed(
            f"tokenizer of {model} cannot be loaded: {first_line(error)}; name a folder, or a repository on "
            "the hub, that holds one"
        ) from error


def _token_ids(
    tokenizer: Any,  # noqa: ANN401
    texts: list[str],
    *,
    add_special_tokens: bool = False,
    split: bool = False,
) -> list[Ids]:
    if not texts:
        return []
    found = tokenizer(
        texts,
        add_special_tokens=add_special_tokens,
        split_special_tokens=split,
        return_attention_mask=False,
        return_token_type_ids=False,
        # it would warn of lengths; these are checked here, against the engine's own context
        verbose=False,
    )["input_ids"]
    return [tuple(ids) for ids in found]


def _declared_bos(tokenizer: Any) -> Ids:  # noqa: ANN401
    # attributes such as bos_token say which token it would be, not whether the tokenizer writes it
    [bare] = _token_ids(tokenizer, ["x"])
    [dressed] = _token_ids(tokenizer, ["x"], add_special_tokens=True)
    for n_before in range(len(dressed) - len(bare) + 1):
        if dressed[n_before : n_before + len(bare)] == bare:
            return dressed[:n_before]
    raise EngineFailed(
        f"tokenizer {tokenizer.name_or_path}: expected special tokens before and behind a text, found that "
        "they change the text's own; a model with this tokenizer is not supported"
    )


def _can_split_specials(tokenizer: Any) -> bool:  # noqa: ANN401
    specials = tokenizer.all_special_tokens
    return _token_ids(tokenizer, specials, split=True) != _token_ids(tokenizer, specials)


def _check_options(options: tuple[str, ...]) -> None:
    if not options:
        raise _Refused("a choice needs options, found none")
    if "" in options:
        raise _Refused("an option must have text, found an empty one")
    for one, other in pairwise(sorted(options)):
        if one == other:
            raise _Refused(f"options must differ, found {one!r} more than once")


def _check_sequences(options: tuple[str, ...], joint: tuple[Ids, ...], start: int) -> None:
    if start == 0:
        raise _Refused(
            "an option changes the first token of the prompt and the model declares no BOS: nothing predicts "
            "that token"
        )
    for option, ids in zip(options, joint, strict=True):
        if len(ids) <= start:
            raise _Refused(f"option {option!r} adds no token to the prompt")
    # in this order a sequence stands right before one that begins with it
    for (before, one), (after, other) in pairwise(sorted(zip(joint, options, strict=True))):
        if after[: len(before)] == before:
            what = "those" if len(after) == len(before) else "the beginning of those"
            raise _Refused(f"options must differ in their tokens, found {what} of {other!r} in {one!r}")


def _checked(rendered: _Rendered) -> _Rendered:
    for text in rendered.texts:
        if (reason := half_of_a_pair(text)) is not None:
            raise _Refused(reason)
    return rendered


def half_of_a_pair(text: str) -> str | None:
    """Return why a text that holds half of a surrogate pair cannot be asked; None if it holds none."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return f"the text must be Unicode, found half of a surrogate pair at character {error.start}"
    return None


def n_same(one: Ids, other: Ids) -> int:
    """Return how many tokens two sequences begin with in common."""
    if other[: len(one)] == one:
        return len(one)
    pairs = enumerate(zip(one, other, strict=False))
    return next((i for i, (left, right) in pairs if left != right), min(len(one), len(other)))
