"""What a model said as raw rows."""

import hashlib
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from generate.contract import EngineFacts, Response, ScoredOption
from store.errors import LakeUnusable
from store.lake import committed_paths
from store.schemas import OUTPUT_OPTIONS, OUTPUTS, PROMPTS
from store.settings import Home


def prompt_sha256(text: str) -> str:
    """Return the hash that names a rendered prompt."""
    return hashlib.sha256(text.encode()).hexdigest()


def said_columns(response: Response) -> dict[str, Any]:
    """Return what a response leaves in a row of ``raw/steps``, beside what was made of it."""
    return {
        "response_text": response.text,
        "prompt_sha256": prompt_sha256(response.prompt_text),
        "n_prompt_tokens": response.n_prompt_tokens,
        "n_response_tokens": response.n_response_tokens,
        "max_response_tokens": response.max_tokens,
        "finish_reason": response.finish_reason,
    }


def answer_rows(
    run_id: str, mode_id: str, questions: pa.Table, responses: Sequence[Response]
) -> list[tuple[str, pa.Table]]:
    """Return the rows of ``raw/outputs`` and ``raw/output_options`` for a batch.

    Parameters
    ----------
    questions
        Columns ``item_id`` and ``participant_id``, in the order of ``responses``.
    """
    n = len(responses)
    item_ids = questions["item_id"].combine_chunks()
    # answers of one participant depend on each other; each answer is for all who were asked the question
    episode_ids = pc.coalesce(questions["participant_id"], questions["item_id"]).combine_chunks()
    shared = {"run_id": pa.repeat(run_id, n), "mode_id": pa.repeat(mode_id, n)}
    outputs = _table(
        OUTPUTS,
        n,
        {
            **shared,
            "item_id": item_ids,
            "episode_id": episode_ids,
            "response_text": [response.text for response in responses],
            "status": [response.status for response in responses],
            "status_reason": [response.reason for response in responses],
            "finish_reason": [response.finish_reason for response in responses],
            "prompt_sha256": [prompt_sha256(response.prompt_text) for response in responses],
            "n_prompt_tokens": [response.n_prompt_tokens for response in responses],
            "n_response_tokens": [response.n_response_tokens for response in responses],
            "max_response_tokens": [response.max_tokens for response in responses],
        },
    )
    pairs = [
        (row, place, option)
        for row, response in enumerate(responses)
        for place, option in enumerate(response.options)
    ]
    return [
        ("outputs", outputs),
        ("output_options", _option_rows(run_id, mode_id, item_ids, episode_ids, pairs)),
    ]


def _option_rows(
    run_id: str,
    mode_id: str,
    item_ids: pa.Array,
    episode_ids: pa.Array,
    pairs: Sequence[tuple[int, int, ScoredOption]],
) -> pa.Table:
    rows = pa.array([row for row, _, _ in pairs], pa.int64())
    options = [option for _, _, option in pairs]
    names = [option.option for option in options]
    return _table(
        OUTPUT_OPTIONS,
        len(pairs),
        {
            "run_id": pa.repeat(run_id, len(pairs)),
            "mode_id": pa.repeat(mode_id, len(pairs)),
            "item_id": item_ids.take(rows),
            "episode_id": episode_ids.take(rows),
            "option_index": [place for _, place, _ in pairs],
            "option": names,
            "logprob_nats": [option.logprob_nats for option in options],
            "n_tokens": [len(option.token_ids) or None for option in options],
            "n_characters": [len(name) for name in names],
            "n_bytes": [len(name.encode()) for name in names],
            "token_ids": [option.token_ids or None for option in options],
            "token_logprobs_nats": [option.token_logprobs_nats or None for option in options],
            "is_merged": [option.is_merged for option in options],
            "terminator": [option.terminator for option in options],
            "status": [option.status for option in options],
            "status_reason": [option.reason for option in options],
        },
    )


class PromptBook:
    """The rendered prompts that a lake holds, so that each text is stored once.

    Those of a batch that was never finished are not in the lake: its writer died, and they are stored again.

    Raises
    ------
    LakeUnusable
        If they cannot be read.
    """

    def __init__(self, lake: Home) -> None:
        # sixteen bytes of a hash tell a lake's prompts apart, and are a quarter of its text
        self._known: set[bytes] = set()
        for path in committed_paths(lake, "prompts"):
            try:
                with pq.ParquetFile(path) as file:
                    hashes = file.read(columns=["prompt_sha256"])["prompt_sha256"].to_pylist()
            except (pa.ArrowException, OSError) as error:
                raise LakeUnusable(f"{path}: {error}; run `coglake doctor`") from error
            self._known.update(bytes.fromhex(sha256)[:16] for sha256 in hashes)

    def rows(
        self, run_id: str, responses: Sequence[Response], facts: EngineFacts, *, is_chat: bool
    ) -> pa.Table:
        """Return rows of ``raw/prompts`` for the prompts that are new, and know them from then on."""
        new: dict[str, Response] = {}
        for response in responses:
            sha256 = prompt_sha256(response.prompt_text)
            key = bytes.fromhex(sha256)[:16]
            if key not in self._known:
                self._known.add(key)
                new[sha256] = response
        token_ids = [response.prompt_token_ids for response in new.values()]
        n_leading = [_n_leading(ids, facts.bos_token_id) for ids in token_ids]
        return _table(
            PROMPTS,
            len(new),
            {
                "prompt_sha256": list(new),
                "run_id": pa.repeat(run_id, len(new)),
                "text": [response.prompt_text for response in new.values()],
                "token_ids": token_ids,
                "n_leading_bos": n_leading,
                "n_declared_bos": [_n_declared(n, facts.n_leading_bos, is_chat=is_chat) for n in n_leading],
            },
        )


def _n_leading(token_ids: Sequence[int] | None, bos_token_id: int | None) -> int | None:
    """Return how often a sequence begins with the token that begins sequences."""
    if token_ids is None:
        return None
    return next((n for n, token in enumerate(token_ids) if token != bos_token_id), len(token_ids))


def _n_declared(n_leading: int | None, n_declared: int | None, *, is_chat: bool) -> int | None:
    """Return how often it has to: a chat template may write the one that the tokenizer does not add."""
    if n_leading is None or n_declared is None:
        return None
    return max(n_declared, min(n_leading, 1)) if is_chat else n_declared


def _table(schema: pa.Schema, n: int, columns: dict[str, object]) -> pa.Table:
    """Return rows in a raw schema; columns that are not given are null."""
    arrays = [
        columns[field.name]
        if isinstance(columns.get(field.name), pa.Array)
        else pa.array(columns[field.name], field.type)
        if field.name in columns
        else pa.nulls(n, field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(arrays, schema=schema)
