"""Two workers of a Ray cluster on this machine against the same engine in one process."""

import sys

import pytest

pytest.importorskip("ray")
pytest.importorskip("transformers")

import ray

from generate.contract import Answer, Choose, Message, Request
from generate.engines import hf_engine, ray_engine
from generate.engines.settings import EngineSettings, describe, open_engine
from store.errors import EngineFailed, WrongUsage

pytestmark = pytest.mark.engines

REQUESTS = [
    Request("The capital of France is", Choose((" Paris", " Rome", " the city of Lights"))),
    Request((Message("user", "Which machine, F or J?"),), Choose(("F", "J"))),
    Request("One, two, three, four,", Answer(8, (" nine",))),
    Request("word " * 400, Answer(5)),
    Request("Twice", Choose(("A", "A"))),
    Request("The capital of Italy is", Answer(3)),
    Request("The capital of Spain is ", Choose(("Madrid", "Rome"))),
]


def settings(folder, **choices):
    return EngineSettings(engine="hf", model=str(folder), max_context_tokens=300, **choices)


@pytest.fixture(scope="module")
def cluster():
    """Two CPUs, whatever the machine has: Ray counts them and binds nothing."""
    ray.init(address="local", num_cpus=2, log_to_driver=False, logging_level="ERROR", include_dashboard=False)
    yield
    ray.shutdown()


@pytest.fixture(scope="module")
def engine(cluster, small_model_path):
    opened = open_engine(settings(small_model_path, ray_workers=2))
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def expected(small_model_path):
    opened = hf_engine.open_engine(settings(small_model_path))
    yield opened.respond(REQUESTS)
    opened.close()


# --- before an engine takes the whole cluster ---


def test_more_workers_than_the_cluster_holds_are_refused(cluster, small_model_path):
    with pytest.raises(EngineFailed, match="expected 64 x 1 CPUs for as many workers, found 2; set fewer"):
        open_engine(settings(small_model_path, ray_workers=64))


def test_an_error_of_the_engine_is_its_own_sentence(cluster, tmp_path):
    with pytest.raises(EngineFailed, match=f"^model {tmp_path} cannot be loaded") as raised:
        open_engine(settings(tmp_path, ray_workers=1))
    assert "\n" not in str(raised.value)


def test_the_kind_of_an_error_is_kept(cluster, small_model_path):
    with pytest.raises(WrongUsage, match="engine hf runs one copy"):
        open_engine(settings(small_model_path, ray_workers=1, prefix_caching=True))


def test_a_worker_that_is_gone_ends_the_run(cluster, tiny_worker):
    ray.kill(tiny_worker)
    engine = ray_engine.RayEngine([tiny_worker], None, owns_cluster=False)
    with pytest.raises(EngineFailed, match="a Ray worker is gone"):
        engine.respond(REQUESTS[:1])


@pytest.fixture
def tiny_worker(cluster):
    return ray.remote(ray_engine.Worker).options(num_cpus=0).remote(settings("nowhere"))


def test_a_cluster_that_is_not_there_is_one_sentence(monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    monkeypatch.setattr(ray, "is_initialized", lambda: False)

    def absent(address, **choices):
        raise ConnectionError(f"Failed to connect to {address}.\nand a page of advice")

    monkeypatch.setattr(ray, "init", absent)
    with pytest.raises(EngineFailed) as raised:
        open_engine(settings("nowhere", ray_workers=2))
    assert str(raised.value) == (
        "Ray at 127.0.0.1:1: expected a cluster, found Failed to connect to 127.0.0.1:1"
    )


def test_without_ray_one_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.delitem(sys.modules, "generate.engines.ray_engine")
    with pytest.raises(EngineFailed, match=r"package ray is not installed: pip install 'coglake\[ray\]'"):
        describe(settings("nowhere", ray_workers=2))


# --- an engine of two workers ---


def test_responses_are_those_of_one_process(engine, expected):
    assert {response.status for response in expected} == {"ok", "error", "too_long"}
    assert engine.respond(REQUESTS) == expected


@pytest.mark.parametrize("n_requests", [0, 1, 2, 3])
def test_any_number_of_requests_keeps_its_order(engine, expected, n_requests):
    assert engine.respond(REQUESTS[:n_requests]) == expected[:n_requests]


def test_facts_are_those_of_the_engine_with_ray_beside(engine, small_model_path):
    alone = describe(settings(small_model_path))
    facts = describe(settings(small_model_path, ray_workers=2))
    more = {"ray": ray.__version__, "ray_workers": "2"}
    assert facts.incidental == {**alone.incidental, **more}
    assert (facts.name, facts.version, facts.decisive) == (alone.name, alone.version, alone.decisive)
    assert engine.facts.incidental.items() >= more.items()
    assert (engine.facts.dtype, engine.facts.decisive) == (facts.dtype, facts.decisive)


def test_describing_starts_no_cluster(small_model_path, monkeypatch):
    monkeypatch.setattr(ray, "init", None)
    monkeypatch.setattr(ray, "remote", None)
    assert describe(settings(small_model_path, ray_workers=3)).incidental["ray_workers"] == "3"
