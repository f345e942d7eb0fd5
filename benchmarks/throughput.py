"""Measure what this project adds to vLLM: answers per second beside a plain loop over ``LLM.generate``.

Both ways run in one process on the same loaded model and the same prompts, batch by batch in turn. The engine
renders, tokenises and checks requests and makes responses; the loop gets tokens and keeps texts. Then options
are scored per second, with vLLM and with transformers. Run ``python benchmarks/throughput.py <folder>`` with
the folder of a model; it prints a markdown table, fails if the ways answer differently or the engine reaches
less than 0.9 of the loop, and leaves no file behind.
"""

import argparse
import os
import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

from generate.contract import Answer, Choose, Engine, Message, Request, Response
from generate.engines.settings import EngineSettings, open_engine
from generate.engines.vllm_engine import VllmEngine

N_REPEATS = 4
MAX_TOKENS = 32
LEAST_SHARE = 0.9
TOLERANCE_NATS = 1e-4
MACHINES = ("F", "J", "neither of them")


def answers(n_requests: int) -> list[Request]:
    """Return chats of different lengths, none of which begins like another."""
    return [
        Request(
            (Message("user", f"{number}. {_history(number)}Which machine is better, and why?"),),
            Answer(MAX_TOKENS),
        )
        for number in range(n_requests)
    ]


def choices(n_requests: int) -> list[Request]:
    """Return prompts whose options have one token or several."""
    return [
        Request(f"{number}. {_history(number)}You choose machine ", Choose(MACHINES))
        for number in range(n_requests)
    ]


def _history(number: int) -> str:
    # 1 to 12 trials of about 10 tokens each
    trials = range(1 + number * 5 % 12)
    return (
        " ".join(
            f"Machine {'FJ'[(number + trial) % 2]} gave {(number * trial) % 17} points." for trial in trials
        )
        + " "
    )


def batches(requests: Sequence[Request], size: int) -> list[Sequence[Request]]:
    """Split requests as a run does."""
    return [requests[first : first + size] for first in range(0, len(requests), size)]


def by_engine(engine: Engine, requests: Sequence[Request], size: int) -> list[Response]:
    """Ask the engine batch by batch."""
    return [response for batch in batches(requests, size) for response in engine.respond(batch)]


def by_loop(engine: VllmEngine, prompts: Sequence[Sequence[int]], size: int) -> list[str]:
    """Ask vLLM itself batch by batch, with tokens that were made before."""
    from vllm import SamplingParams

    params = SamplingParams(temperature=0.0, max_tokens=MAX_TOKENS)
    texts = []
    for first in range(0, len(prompts), size):
        some = [{"prompt_token_ids": list(ids)} for ids in prompts[first : first + size]]
        texts += [output.outputs[0].text for output in engine.llm.generate(some, params, use_tqdm=False)]
    return texts


def seconds(run: Callable[[], object]) -> float:
    """Return how long it takes."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def measure_answers(engine: VllmEngine, n_requests: int, size: int) -> tuple[list[float], list[float]]:
    """Return the seconds of engine and loop for each batch, in turn: what else runs here falls on both."""
    ours: list[float] = []
    bare: list[float] = []
    for batch in batches(answers(n_requests), size):
        responses = engine.respond(batch)
        prompts = [response.prompt_token_ids or () for response in responses]
        if [response.text for response in responses] != by_loop(engine, prompts, size):
            raise SystemExit("engine and loop answer differently")
        ways: list[tuple[list[float], Callable[[], object]]] = [
            (ours, partial(engine.respond, batch)),
            (bare, partial(by_loop, engine, prompts, size)),
        ]
        for _ in range(N_REPEATS):
            ways.reverse()
            for taken, run in ways:
                taken.append(seconds(run))
    return ours, bare


def largest_difference(one: Sequence[Response], other: Sequence[Response]) -> float:
    """Return by how many nats two ways to score the same options differ at most."""
    return max(
        abs((left.logprob_nats or 0.0) - (right.logprob_nats or 0.0))
        for response, same in zip(one, other, strict=True)
        for left, right in zip(response.options, same.options, strict=True)
    )


def main() -> None:
    """Measure and print, with the load of the machine."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path, help="folder of a model")
    parser.add_argument("--requests", type=int, default=128)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--choices", type=int, default=64)
    arguments = parser.parse_args()
    settings = EngineSettings(
        engine="vllm",
        model=str(arguments.model),
        dtype="float32",
        max_context_tokens=1024,
        batch_size=arguments.batch,
    )
    load = os.getloadavg()[0]
    shown = Table(box=MARKDOWN)
    for title in ("what", "way", "s", "requests/s", "share"):
        shown.add_column(title, justify="left" if title in ("what", "way") else "right", no_wrap=True)

    engine = open_engine(settings)
    assert isinstance(engine, VllmEngine)
    ours, bare = measure_answers(engine, arguments.requests, arguments.batch)
    # each pair ran under like conditions
    share = statistics.median(loop / own for own, loop in zip(ours, bare, strict=True))
    for way, taken, text in (("LLM.generate", bare, ""), ("engine vllm", ours, f"{share:.3f}")):
        total = sum(taken) / N_REPEATS
        shown.add_row("answers", way, f"{total:.2f}", f"{arguments.requests / total:.2f}", text)

    requests = choices(arguments.choices)
    by_engine(engine, requests[:2], arguments.batch)
    scored: list[list[Response]] = []
    taken_s = [seconds(lambda: scored.append(by_engine(engine, requests, arguments.batch)))]
    engine.close()
    other = open_engine(settings.model_copy(update={"engine": "hf"}))
    by_engine(other, requests[:2], arguments.batch)
    taken_s.append(seconds(lambda: scored.append(by_engine(other, requests, arguments.batch))))
    other.close()
    for way, taken_once in zip(("engine vllm", "engine hf"), taken_s, strict=True):
        rate = arguments.choices / taken_once
        shown.add_row("choices", way, f"{taken_once:.2f}", f"{rate:.2f}", f"{taken_s[-1] / taken_once:.2f}")

    console = Console(width=120)
    console.print(shown)
    console.print(
        f"{arguments.requests} answers of up to {MAX_TOKENS} tokens and {arguments.choices} choices of "
        f"{len(MACHINES)} options in batches of {arguments.batch}; {os.cpu_count()} CPUs, "
        f"load average {load:.1f} before, {os.getloadavg()[0]:.1f} after"
    )
    difference = largest_difference(*scored)
    if difference > TOLERANCE_NATS:
        raise SystemExit(f"vLLM and transformers differ by {difference:.2g} nats")
    if share < LEAST_SHARE:
        raise SystemExit(f"engine vllm: expected {LEAST_SHARE} of the loop's rate or more, found {share:.3f}")


if __name__ == "__main__":
    main()
