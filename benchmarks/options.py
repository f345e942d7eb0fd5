"""Measure what options that share the states of their prompt save over one pass of the model for each.

Run ``python benchmarks/options.py FOLDER`` with the folder of a model, such as the one that
``python -m generate.small_model FOLDER`` makes. It prints a markdown table and leaves no file behind.
"""

import argparse
import os
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from generate.tokens import Encoded

# a history of rounds, repeated until the prompt is as long as is asked for
STORY = "In the next round you chose machine F and it gave 12 points; machine J would have given 7. "
ONE_TOKEN = tuple(" " + letter for letter in "ABCDEFGHIJ")
SENTENCES = tuple(f" machine {letter}, because it gave the most points" for letter in "ABCDEFGHIJ")

# far above what two ways through a float32 network differ by, far below what a wrong token makes
TOLERANCE_NATS = 1e-3


@dataclass(frozen=True, slots=True)
class Measured:
    """One request: its size in tokens, and the seconds of both ways, medians if repeated.

    Attributes
    ----------
    n_scored_tokens
        Of all options together.
    difference_nats
        Largest difference between both ways in the log-probability of an option.
    load
        Load average when it began.
    """

    n_prompt_tokens: int
    n_options: int
    n_scored_tokens: int
    shared_s: float
    one_pass_each_s: float
    difference_nats: float
    load: float


def one_pass_each(model: Any, encoded: "Encoded") -> list[float]:  # noqa: ANN401
    """Return the log-probability of every option, each from a pass over prompt and option."""
    import torch

    found = []
    for one in encoded.continuations:
        n_scored = len(one.token_ids) - one.start
        with torch.inference_mode():
            inputs = torch.tensor([one.token_ids[:-1]], device=model.device)
            logits = model(inputs, use_cache=False, logits_to_keep=n_scored).logits[0].float()
        logprobs = torch.log_softmax(logits, dim=-1)
        found.append(logprobs[range(n_scored), one.token_ids[one.start :]].sum().item())
    return found


def timed(n_repeats: int, act: Callable[..., Any], *given: object) -> tuple[float, Any]:
    """Return the median seconds of an act, and what it returned last."""
    seconds = []
    for _ in range(n_repeats):
        start = time.perf_counter()
        result = act(*given)
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds), result


def measure(folder: str, lengths: list[int], n_options: list[int], n_repeats: int) -> list[Measured]:
    """Score requests of every size both ways, in one process and with the same number of threads."""
    import torch
    from transformers import AutoModelForCausalLM

    from generate.contract import Choose, Request
    from generate.engines.settings import EngineSettings, open_engine
    from generate.tokens import Encoded, Tokens, load_tokenizer

    engine = open_engine(EngineSettings(engine="hf", model=folder, dtype="float32"))
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).to(device).eval()
    tokens = Tokens(load_tokenizer(folder, None), 2 * max(lengths) + 100)
    n_story_tokens = len(tokens.tokenizer(STORY)["input_ids"])

    def measured(request: Request, n_repeats: int) -> Measured:
        encoded = tokens.encode(request)
        if not isinstance(encoded, Encoded):
            raise SystemExit(encoded.reason)
        load = os.getloadavg()[0]
        shared_s, [response] = timed(n_repeats, engine.respond, [request])
        each_s, expected = timed(n_repeats, one_pass_each, model, encoded)
        if response.status != "ok":
            raise SystemExit(response.reason)
        pairs = zip(response.options, expected, strict=True)
        difference = max(abs(option.logprob_nats - value) for option, value in pairs)
        if difference > TOLERANCE_NATS:
            raise SystemExit(f"both ways must agree, found a difference of {difference:.2g} nats")
        return Measured(
            n_prompt_tokens=len(encoded.prompt_token_ids),
            n_options=len(encoded.continuations),
            n_scored_tokens=sum(len(option.token_ids) for option in response.options),
            shared_s=shared_s,
            one_pass_each_s=each_s,
            difference_nats=difference,
            load=load,
        )

    measured(Request(STORY.rstrip(), Choose(SENTENCES[:2])), 1)  # what is first pays for what is loaded late
    return [
        measured(
            Request(STORY * max(1, length // n_story_tokens) + "You choose", Choose(options[:n])), n_repeats
        )
        for length in lengths
        for options in (ONE_TOKEN, SENTENCES)
        for n in n_options
    ]


def table(results: list[Measured]) -> Table:
    """Lay the measurements out, one request a row."""
    shown = Table(box=MARKDOWN)
    for title in (
        "prompt tokens",
        "options",
        "option tokens",
        "shared s",
        "one pass each s",
        "ratio",
        "difference nats",
        "load",
    ):
        shown.add_column(title, justify="right", no_wrap=True)
    for one in results:
        shown.add_row(
            f"{one.n_prompt_tokens:,}",
            str(one.n_options),
            str(one.n_scored_tokens),
            f"{one.shared_s:.2f}",
            f"{one.one_pass_each_s:.2f}",
            f"{one.one_pass_each_s / one.shared_s:.1f}",
            f"{one.difference_nats:.1e}",
            f"{one.load:.1f}",
        )
    return shown


def main() -> None:
    """Measure the sizes that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", help="of the model")
    parser.add_argument("--lengths", nargs="+", type=int, default=[1000], help="tokens of the prompts")
    parser.add_argument("--options", nargs="+", type=int, default=[4, 10], help="10 at most")
    parser.add_argument("--repeats", type=int, default=1)
    chosen = parser.parse_args()
    results = measure(chosen.folder, chosen.lengths, chosen.options, chosen.repeats)
    Console(width=120).print(table(results))


if __name__ == "__main__":
    main()
