"""Copies of an engine on the machines of a Ray cluster, or on this one.

Requests are dealt to actors that load the model once and keep it. ``ray.data`` would be the shorter way, but
it ends its actors with each dataset: the model would be loaded anew for every batch, and episodes ask a batch
per step.
"""

import logging
import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from generate.contract import Engine, EngineFacts, Request, Response
from generate.engines import settings as engines
from generate.engines.settings import EngineSettings
from store.errors import EngineFailed, StoreError, first_line

# Ray reads it when it is imported
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")

try:
    import ray
    from ray.exceptions import RayActorError, RayError, RayTaskError
except ModuleNotFoundError as missing:
    raise EngineFailed(
        "ray_workers is set, but package ray is not installed: pip install 'coglake[ray]', or leave it out"
    ) from missing


class Worker:
    """A copy of the engine, in an actor's process.

    Parameters
    ----------
    settings
        Of the engine itself.
    """

    def __init__(self, settings: EngineSettings) -> None:
        self._settings = settings
        self._engine: Engine | None = None

    def open(self) -> EngineFacts:
        """Load the model; apart from the constructor, whose errors Ray would wrap in those of an actor."""
        self._engine = engines.open_engine(self._settings)
        return self._engine.facts

    def respond(self, requests: Sequence[Request]) -> list[Response]:
        """Return one response per request, in their order."""
        assert self._engine is not None
        return self._engine.respond(requests)

    def close(self) -> None:
        """Free the model."""
        if self._engine is not None:
            self._engine.close()


class RayEngine:
    """An engine in several copies.

    Parameters
    ----------
    workers
        Actors of :class:`Worker`, with their models loaded.
    facts
        What the run states of the engine.
    owns_cluster
        Whether Ray was started for this engine and ends with it.
    """

    def __init__(self, workers: Sequence[Any], facts: EngineFacts, *, owns_cluster: bool) -> None:
        self._workers = workers
        self._facts = facts
        self._owns_cluster = owns_cluster

    @property
    def facts(self) -> EngineFacts:
        """What the run states of it."""
        return self._facts

    def respond(self, requests: Sequence[Request]) -> list[Response]:
        """Return one response per request, in their order.

        Raises
        ------
        EngineFailed
            If a worker or the cluster is gone, or the engine of a worker cannot go on.
        """
        # like cards, so that long prompts, which often stand together, go to all
        hands = [requests[number :: len(self._workers)] for number in range(len(self._workers))]
        results = _results(
            [worker.respond.remote(hand) for worker, hand in zip(self._workers, hands, strict=True) if hand]
        )
        return [results[place % len(hands)][place // len(hands)] for place in range(len(requests))]

    def close(self) -> None:
        """End the workers, and Ray if it was started here."""
        try:
            _results([worker.close.remote() for worker in self._workers])
        finally:
            _end(self._workers, self._owns_cluster)


def describe(settings: EngineSettings) -> EngineFacts:
    """Return what a run will state of the engine, without starting Ray.

    Raises
    ------
    StoreError
        What the engine itself raises.
    """
    return _with_ray(engines.describe(_alone(settings)), settings)


def open_engine(settings: EngineSettings) -> RayEngine:
    """Start the workers, on the cluster at RAY_ADDRESS or on this machine, and load the model in each.

    Raises
    ------
    EngineFailed
        If there is no cluster, it is too small, or the workers differ in what decides a number.
    StoreError
        What the engine itself raises.
    """
    n_workers = settings.ray_workers or 1
    owns_cluster = not ray.is_initialized()
    if owns_cluster:
        _start()
    workers: list[Any] = []
    try:
        actor = ray.remote(Worker).options(**_resources(settings, n_workers))
        workers += [actor.remote(_alone(settings)) for _ in range(n_workers)]
        facts, *others = _results([worker.open.remote() for worker in workers])
        for other in others:
            if replace(other, incidental=facts.incidental) != facts:
                raise EngineFailed(
                    f"Ray workers must be alike, found {_decisive(facts)} and {_decisive(other)}; install "
                    "the same packages on all machines"
                )
    except BaseException:
        _end(workers, owns_cluster)
        raise
    return RayEngine(workers, _with_ray(facts, settings), owns_cluster=owns_cluster)


def _start() -> None:
    address = os.environ.get("RAY_ADDRESS", "local")
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, RayError, RuntimeError, ValueError) as error:
        raise EngineFailed(f"Ray at {address}: expected a cluster, found {first_line(error)}") from error


def _end(workers: Sequence[Any], owns_cluster: bool) -> None:
    for worker in workers:
        ray.kill(worker)
    if owns_cluster:
        ray.shutdown()


def _resources(settings: EngineSettings, n_workers: int) -> dict[str, int]:
    """Return what each worker gets: the GPUs of one copy of the model, or an equal share of the CPUs."""
    machines = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    gpus, cpus = ([int(machine.get(name, 0)) for machine in machines] for name in ("GPU", "CPU"))
    name, sizes, shares = "CPU", cpus, range(1, max(cpus) + 1)
    if any(gpus):
        name, sizes, shares = "GPU", gpus, range(settings.tensor_parallel, settings.tensor_parallel + 1)
    # a worker is never spread over machines
    fitting = [share for share in shares if sum(size // share for size in sizes) >= n_workers]
    if not fitting:
        raise EngineFailed(
            f"Ray cluster: expected {n_workers} x {shares[0]} {name}s for as many workers, found "
            f"{' + '.join(map(str, sizes))}; set fewer ray_workers or add machines"
        )
    return {f"num_{name.lower()}s": fitting[-1]}


def _results(calls: Sequence[Any]) -> list[Any]:
    try:
        return list(ray.get(list(calls)))
    except RayTaskError as error:
        # what a user reads is the engine's own sentence, not the trace of the worker
        if isinstance(error.cause, StoreError):
            raise type(error.cause)(str(error.cause)) from None
        raise EngineFailed(f"a Ray worker failed: {first_line(error.cause)}") from error
    except RayActorError as error:
        raise EngineFailed(
            f"a Ray worker is gone, often for lack of memory: {first_line(error)}; start again"
        ) from error
    except RayError as error:
        raise EngineFailed(f"Ray failed: {first_line(error)}; start again") from error


def _alone(settings: EngineSettings) -> EngineSettings:
    return settings.model_copy(update={"ray_workers": None})


def _with_ray(facts: EngineFacts, settings: EngineSettings) -> EngineFacts:
    more = {"ray": ray.__version__, "ray_workers": str(settings.ray_workers)}
    return replace(facts, incidental={**facts.incidental, **more})


def _decisive(facts: EngineFacts) -> str:
    more = ", ".join(f"{name} {value}" for name, value in facts.decisive.items())
    return f"{facts.name} {facts.version} in {facts.dtype} with {more}"
