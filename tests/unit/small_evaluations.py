"""Small evaluations: a few questions of each component, an engine that answers by a rule, a quick build."""

import hashlib
import os
import signal
import sys
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from generate.contract import Answer, EngineFacts, Response, ScoredOption
from generate.verifier.grading import GradeReport
from store import command_cognirank, evaluation_files
from store.build import BuildReport
from store.lake import batch_parts, commit, commit_batch
from store.manifest import load_sources
from store.protocol import load_datasets, load_graders
from store.schemas import ITEMS, RUNS, VERDICTS

N_QUESTIONS = 5
RELEASE = "0123456789abcdef" * 4
FACTS = EngineFacts(
    "hf", "1", "bfloat16", 8192, 4096, has_chat_template=True, n_leading_bos=0, incidental={"device": "cpu"}
)
STAND_INS = ("smolcua_like", "marc_like", "pile_like", "ttm_like")


def add_questions(lake, dataset_id, n=N_QUESTIONS):
    """Write the first ``n`` questions of a data set, as if its pinned file had only these."""
    dataset = load_datasets()[dataset_id]
    source = load_sources()[dataset.source_id]
    rows = [
        {
            "item_id": f"{dataset_id}/{i}",
            "mode_id": dataset_id,
            "source_id": dataset.source_id,
            "prompt": f"{dataset_id}: question {i}",
            "template_id": f"{dataset_id}-v1",
            "template_sha256": "a" * 64,
            "legal_options": ["one", "two", "three", "four"] if "ttm" in dataset_id else None,
            "credited_options": ["one"],
            "max_response_tokens": 48 if "smolcua" in dataset_id and i % 2 else None,
            "facts_json": "{}",
            "weight": 1.0,
        }
        for i in range(n)
    ]
    run = {
        "run_id": f"items-{dataset_id}-{n}",
        "kind": "items",
        "model_id": dataset_id,
        "agent_kind": "none",
        "planned_modes": [dataset_id],
        "source_id": dataset.source_id,
        "source_uri": source.uri(source.files[0]),
        "source_sha256": source.files[0].sha256,
        "importer_version": n,
        "notes": [],
    }
    items = pa.Table.from_pylist(rows, ITEMS)
    commit(lake, run["run_id"], [("items", items)], pa.Table.from_pylist([run], RUNS))


@dataclass
class Talker:
    """An engine that answers by a rule, fails at a call, and keeps what it was asked and its budgets."""

    facts: EngineFacts = FACTS
    dies_at: int | None = None
    too_long: str | None = None
    asked: list = field(default_factory=list)
    budgets: dict = field(default_factory=dict)
    n_opened: int = 0
    n_calls: int = 0
    is_closed: bool = False

    def respond(self, requests):
        self.n_calls += 1
        if self.n_calls == self.dies_at:
            raise RuntimeError("out of memory\nand a long trace")
        responses = [self.said(request) for request in requests]
        Deaths.happen("answer")
        return responses

    def said(self, request):
        is_chat = not isinstance(request.prompt, str)
        prompt = request.prompt[-1].content if is_chat else request.prompt.strip()
        self.asked.append(prompt)
        shared = {"prompt_text": f"<{is_chat}>{prompt}", "prompt_token_ids": (5, 6), "n_prompt_tokens": 2}
        if prompt == self.too_long:
            return Response("too_long", **shared, reason="5000 tokens, 4096 fit")
        digest = hashlib.sha256(prompt.encode()).digest()
        if isinstance(request.task, Answer):
            assert request.task.stop == ()
            self.budgets[prompt] = request.task.max_tokens
            text = "one\u2028\x00" if digest[0] % 2 else "two"
            return Response(
                "ok", **shared, text=text, finish_reason="stop", max_tokens=request.task.max_tokens
            )
        options = tuple(
            ScoredOption(option, (7, 8), (-0.5 - digest[place] / 64, -0.25))
            for place, option in enumerate(request.task.options)
        )
        return Response("ok", **shared, options=options)

    def close(self):
        self.is_closed = True


class Deaths:
    """Ends this process without a chance to tidy up when something happened so many times."""

    left = None

    @classmethod
    def happen(cls, _what):
        if cls.left is not None:
            cls.left -= 1
            if cls.left < 0:
                os.kill(os.getpid(), signal.SIGKILL)


def grade_in_small(lake, run_id, dataset_id, on_progress):
    """Stand in for the verifier: what says `one` is right."""
    grader = load_graders()["reasoning_core"]
    outputs = ds.dataset([str(path) for path in batch_parts(lake, run_id, "outputs")]).to_table().to_pylist()
    graded = [
        row["item_id"]
        for path in batch_parts(lake, run_id, "verdicts")
        for row in ds.dataset(str(path), schema=VERDICTS).to_table().to_pylist()
    ]
    verdicts = [
        {
            "run_id": run_id,
            "item_id": row["item_id"],
            "mode_id": dataset_id,
            "episode_id": row["episode_id"],
            "grader_id": grader.id,
            "grader_version": grader.version,
            "answer_rule": rule,
            "verdict": float(row["response_text"].startswith("one")),
            "status": "ok",
        }
        for row in outputs
        if row["item_id"] not in graded
        for rule in grader.answer_rules
    ]
    if verdicts:
        rows = pa.Table.from_pylist(verdicts, VERDICTS)
        now = datetime.now(UTC)
        commit_batch(lake, run_id, [("verdicts", rows)], n_requests=0, environment={}, started_at=now)
    on_progress(len(verdicts), len(verdicts), dataset_id)
    n = len(verdicts)
    return GradeReport(run_id, dataset_id, grader.id, grader.version, n, n, {}, 0, 0.0)


def build_in_small(lake, project, **_):
    """Stand in for dbt: the share of answers that say `one`, and of choices all, of runs that are whole."""
    raw = str(lake.raw)
    lake.database.unlink(missing_ok=True)
    with duckdb.connect(str(lake.database)) as con:
        con.execute(
            f"""
            create table runs as
            select run_id, evaluation_id, model_id, model_revision, planned_modes[1] as dataset_id
            from read_parquet('{raw}/runs/*/*.parquet', union_by_name = true) where evaluation_id is not null;
            create table datasets as from read_csv('{project}/manifests/cognirank_datasets.csv');
            create table int_scored as
            select
                run_id, item_id,
                case component_id when 'ttm' then 'normalised_likelihood'
                    when 'procedural_pile' then 'verdict' else 'answer_match' end as rule,
                case component_id when 'ttm' then 'token' when 'procedural_pile' then 'raw-v1' end as readout,
                coalesce(response_text like 'one%', true)::double as value,
                status
            from read_parquet('{raw}/outputs/*/*.parquet', hive_partitioning = false)
            join runs using (run_id) join datasets using (dataset_id);
            create table cognirank_scores as
            select
                count(*) filter (status = 'ok') as n_ok,
                evaluation_id, run_id, model_id, model_revision, component_id, dataset_id, is_stand_in,
                case component_id when 'ttm' then 'accuracy_per_token' when 'procedural_pile' then 'reward'
                    when 'marc' then 'exact_match' else 'points' end as metric,
                true as is_primary,
                case when n_ok = {N_QUESTIONS} then 100 * avg(value) end as value,
                100 * avg(value) filter (where component_id != 'marc') as value_scored,
                'nan'::double as se, {N_QUESTIONS} as n_planned, n_ok as n_scored,
                case when n_ok < {N_QUESTIONS} then count(*) || ' answers' end as reason
            from runs join datasets using (dataset_id) join int_scored using (run_id)
            group by all;
            create table cogniscore as
            select
                evaluation_id as run_id, null::double as cogniscore,
                'stand-ins' as withheld_because, avg(value) as cogniscore_standin,
                'all' as standin_datasets, 1.0 as ci_low, 2.0 as ci_high
            from cognirank_scores group by all
            """
        )
    return BuildReport((), (), (), 0.0)


def install(patch, engines=None, facts=FACTS):
    """Put the small engine, grader and build in place of the real; return the engines that are opened."""
    opened = [] if engines is None else engines
    waiting = list(opened)

    def open_engine(settings):
        engine = waiting.pop(0) if waiting else Talker(facts)
        if engine not in opened:
            opened.append(engine)
        engine.n_opened += 1
        engine.settings = settings
        return engine

    real = evaluation_files.write_whole

    def write_whole(path, content):
        Deaths.happen("before a file")
        real(path, content)
        Deaths.happen("after a file")

    patch.setattr(evaluation_files, "write_whole", write_whole)
    patch.setattr(command_cognirank, "write_whole", write_whole)
    # the real one changes with every edit of a file that makes it
    patch.setattr(command_cognirank, "release_id", lambda: RELEASE)
    patch.setattr(command_cognirank, "describe", lambda settings: facts)
    patch.setattr(command_cognirank, "open_engine", open_engine)
    patch.setattr(command_cognirank, "grade_run", grade_in_small)
    patch.setattr(command_cognirank, "build", build_in_small)
    return opened


def model_folder(folder: Path) -> Path:
    """Write what passes for a model."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(b"weights")
    return folder


if __name__ == "__main__":
    from store.cli import app

    Deaths.left = int(sys.argv[1])
    install(pytest.MonkeyPatch())
    app(sys.argv[2:])
