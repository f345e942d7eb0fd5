"""The ``coglake`` command: what each sub-command accepts.

What a sub-command needs is imported when it runs: help stays quick, and a look at the lake loads neither
dbt nor an engine.
"""

import os
from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ParamSpec

import typer

from store import console
from store.errors import WrongUsage
from store.formats import Format, render, to_json
from store.settings import home, project_dir
from store.uncertainty import Uncertainty

if TYPE_CHECKING:
    from store.lake import Finding

_Arguments = ParamSpec("_Arguments")

AsJson = Annotated[
    bool, typer.Option("--json", help="Print the result as JSON, and nothing else, to standard output.")
]

app = typer.Typer(
    name="coglake",
    help="An evaluation store for cognitive benchmarks: raw outputs in parquet, scores in SQL, Table 3 out.",
    epilog="\b\nThe lake is the folder that COGLAKE_HOME names, by default lake.\nExample: coglake demo",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


class Exportable(StrEnum):
    """What can be exported."""

    TABLE3 = "table3"
    METRICS = "metrics"
    COGNISCORE = "cogniscore"
    LEARNING = "learning"
    SCORES = "scores"


class RepoKind(StrEnum):
    """What a repository of the hub is."""

    DATASET = "dataset"
    MODEL = "model"


class Benchmark(StrEnum):
    """Whose modes a model is asked."""

    S1COGBENCH = "s1cogbench"
    LEARNING = "learning"


class Engine(StrEnum):
    """What runs a model."""

    VLLM = "vllm"
    HF = "hf"
    OPENAI = "openai"


class LocalEngine(StrEnum):
    """What runs a model on this machine."""

    VLLM = "vllm"
    HF = "hf"


class PromptFormat(StrEnum):
    """How a prompt reaches a model."""

    AUTO = "auto"
    CHAT = "chat"
    PLAIN = "plain"


class Choice(StrEnum):
    """How a choice between options comes about."""

    ARGMAX = "argmax"
    SAMPLED = "sampled"
    TEXT = "text"


class Dtype(StrEnum):
    """Numbers that a model is computed in."""

    AUTO = "auto"
    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"
    FLOAT16 = "float16"


class LogForm(StrEnum):
    """Which harness wrote a log."""

    LM_EVAL = "lm-eval"
    INSPECT = "inspect"


def main() -> None:
    """Run the command line."""
    console.use_utf8()
    app()


def _command(*examples: str) -> Callable[[Callable[_Arguments, None]], Callable[_Arguments, None]]:
    def register(function: Callable[_Arguments, None]) -> Callable[_Arguments, None]:
        lines = "".join(f"\nExample: {example}" for example in examples)
        return app.command(epilog=f"\b{lines}")(console.guarded(function))

    return register


def _print_version(is_wanted: bool) -> None:
    if is_wanted:
        from store.export import coglake_version

        console.write(f"coglake {coglake_version()}\n")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


@_command("coglake ingest cogbench --mirror ./mirror")
def ingest(
    *,
    sources: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[SOURCE]...", help="Sources by id; every one with an upstream if none is named."
        ),
    ] = None,
    is_list: Annotated[
        bool, typer.Option("--list", help="Say what the lake holds of each source, and stop.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")
    ] = False,
    mirror: Annotated[
        str | None,
        typer.Option(envvar="COGLAKE_MIRROR", help="Folder or address to look in before upstream."),
    ] = None,
    salt_file: Annotated[
        Path | None,
        typer.Option(
            "--participant-salt",
            help="File with a secret: participants are then called by a hash of it and their id.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Fetch pinned files, check them and add their rows. What is there already is not added again."""
    from store import command_ingest

    if is_list:
        if salt_file is not None:
            raise WrongUsage("--participant-salt does nothing beside --list: leave it out")
        command_ingest.list_sources(sources or (), as_json=as_json)
    else:
        command_ingest.run(sources or (), mirror, salt_file=salt_file, dry_run=dry_run, as_json=as_json)


@_command("coglake pin psych_101_test marcelbinz/Psych-101-test --file '*.jsonl' --write")
def pin(
    *,
    source: Annotated[str, typer.Argument(help="Name of the source, as it is to be called here.")],
    repo: Annotated[str, typer.Argument(help="owner/name on the Hugging Face hub.")],
    kind: Annotated[RepoKind, typer.Option(help="What the repository is.")] = RepoKind.DATASET,
    revision: Annotated[
        str, typer.Option(help="Branch, tag or commit; the pin is the commit it stands for now.")
    ] = "main",
    files: Annotated[
        list[str] | None,
        typer.Option(
            "--file", help="A path or shell pattern of files; repeat it for several. All by default."
        ),
    ] = None,
    licence: Annotated[str | None, typer.Option(help="The licence; by default what the hub states.")] = None,
    description: Annotated[str | None, typer.Option(help="What the files are, in a sentence.")] = None,
    is_written: Annotated[
        bool, typer.Option("--write", help="Add the block to manifests/sources.toml.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Ask the hub for commit and hashes of a repository. Print them as a block of sources.toml."""
    from store import command_pin

    wanted = command_pin.Wanted(source, repo, kind.value, revision, files or (), licence, description)
    command_pin.run(wanted, is_written=is_written, as_json=as_json)


@_command(
    "coglake generate --agent uniform --modes bart --modes two_step",
    "coglake generate --model HuggingFaceTB/SmolLM2-135M-Instruct --engine hf --modes bart --limit 2",
    "coglake generate --agent oracle --agent random --benchmark learning",
)
def generate(  # noqa: PLR0913
    context: typer.Context,
    *,
    agents: Annotated[
        list[str] | None,
        typer.Option(
            "--agent",
            help="An agent of manifests/agents.toml, of learning_agents.toml for --benchmark learning, or a "
            "pattern such as '*'; repeat for several.",
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="A repository of the Hugging Face hub, a folder, or what a server calls its model."
        ),
    ] = None,
    modes: Annotated[
        list[str] | None,
        typer.Option(
            help="A mode to play or answer, or a family of Learning tasks; repeat it for several. All that "
            "can be by default."
        ),
    ] = None,
    benchmark: Annotated[
        Benchmark, typer.Option(help="Whose modes; learning has agents of its own.")
    ] = Benchmark.S1COGBENCH,
    engine: Annotated[Engine, typer.Option(help="What runs the model.")] = Engine.VLLM,
    revision: Annotated[
        str | None,
        typer.Option(help="Commit, branch or tag; it is resolved to a commit before anything runs."),
    ] = None,
    name: Annotated[str | None, typer.Option(help="What the model is called in the lake.")] = None,
    limit: Annotated[
        int | None, typer.Option(min=1, help="Only so many questions or episodes of each mode or task.")
    ] = None,
    shard: Annotated[
        str, typer.Option(help="Which part of the work is done here; I/N is the I-th of N parts.")
    ] = "1/1",
    prompt_format: Annotated[
        PromptFormat, typer.Option("--format", help="auto is chat where the model has a chat template.")
    ] = PromptFormat.AUTO,
    choice: Annotated[
        Choice,
        typer.Option(help="Of options the likeliest, one drawn by its probability, or what is written."),
    ] = Choice.ARGMAX,
    max_response_tokens: Annotated[
        int | None,
        typer.Option(min=1, help="Budget of a written answer: 64 by default, 1024 for --benchmark learning."),
    ] = None,
    max_context: Annotated[
        int | None,
        typer.Option(min=1, help="Tokens of prompt and response; what the model declares by default."),
    ] = None,
    dtype: Annotated[Dtype, typer.Option(help="auto is what the model declares.")] = Dtype.AUTO,
    batch_size: Annotated[int | None, typer.Option(min=1, help="Questions per batch.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of draws, such as those of --choice sampled.")] = 0,
    repeat: Annotated[
        int, typer.Option(min=0, help="Ask all again as another run of this number: see audit_drift.")
    ] = 0,
    tensor_parallel: Annotated[int, typer.Option(min=1, help="vllm: devices for one copy.")] = 1,
    data_parallel: Annotated[int, typer.Option(min=1, help="vllm: copies.")] = 1,
    is_prefix_caching: Annotated[
        bool,
        typer.Option(
            "--prefix-caching", help="vllm: reuse shared beginnings, once proved to change nothing."
        ),
    ] = False,
    base_urls: Annotated[
        list[str] | None,
        typer.Option(
            "--base-url", help="openai: address of a server; repeat it to spread the work over several."
        ),
    ] = None,
    concurrency: Annotated[
        int | None, typer.Option(min=1, help="openai: requests in flight at one server, 16 by default.")
    ] = None,
    requests_per_minute: Annotated[
        int | None, typer.Option(min=1, help="openai: most requests to one server.")
    ] = None,
    timeout_s: Annotated[
        float | None,
        typer.Option("--timeout", min=1, help="openai: seconds for one request, 600 by default."),
    ] = None,
    tokenizer: Annotated[
        str | None, typer.Option(help="openai: repository or folder of the tokenizer of the server's model.")
    ] = None,
    ray_workers: Annotated[
        int | None, typer.Option(min=1, help="Copies of the engine on a Ray cluster.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Let agents or a model play and answer questions. What is there already is not done again."""
    # before NumPy loads: threads that wait for each other make fits of few parameters a hundred times slower
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if (model is None) == (not agents):
        raise WrongUsage("expected either --agent or --model")
    if model is None:
        _require_of_agents(context)
        _generate_of_agents(benchmark, agents or (), modes or (), dry_run=dry_run, as_json=as_json)
        return
    is_learning = benchmark is Benchmark.LEARNING
    if is_learning and "choice" in _given(context) and choice is not Choice.TEXT:
        raise WrongUsage("--choice: the Learning benchmark is answered in words: leave it out")
    from store import command_generate_learning, command_generate_model

    wanted = command_generate_model.Wanted(
        engine={
            "engine": engine.value,
            "model": model,
            "revision": revision,
            "dtype": dtype.value,
            "max_context_tokens": max_context,
            "batch_size": batch_size,
            "seed": seed,
            "tensor_parallel": tensor_parallel,
            "data_parallel": data_parallel,
            "prefix_caching": is_prefix_caching,
            "base_urls": tuple(base_urls) if base_urls else None,
            "concurrency": concurrency,
            "requests_per_minute": requests_per_minute,
            "timeout_s": timeout_s,
            "tokenizer": tokenizer,
            "ray_workers": ray_workers,
        },
        name=name,
        modes=modes or (),
        limit=limit,
        shard=shard,
        format=prompt_format.value,
        choice="text" if is_learning else choice.value,
        max_response_tokens=max_response_tokens or (1024 if is_learning else 64),
        seed=seed,
        repeat=repeat,
        # answers to several questions are several lines
        plain_stop="\n\n" if is_learning else "\n",
    )
    run = command_generate_learning.run_model if is_learning else command_generate_model.run
    run(wanted, dry_run=dry_run, as_json=as_json)


def _generate_of_agents(
    benchmark: Benchmark, agents: Sequence[str], modes: Sequence[str], *, dry_run: bool, as_json: bool
) -> None:
    if benchmark is Benchmark.LEARNING:
        from store import command_generate_learning

        command_generate_learning.run_agents(agents, modes, dry_run=dry_run, as_json=as_json)
    else:
        from store import command_generate

        command_generate.run(agents, modes, dry_run=dry_run, as_json=as_json)


def _require_of_agents(context: typer.Context) -> None:
    """Refuse an option that only a model obeys, rather than let it do nothing."""
    for name, option in _given(context).items():
        if name not in ("agents", "modes", "benchmark", "dry_run", "as_json"):
            raise WrongUsage(f"{option} goes with --model, found it beside --agent: leave it out")


@_command(
    "coglake cognirank --models org/one org/two --stand-in all --output-dir comparison",
    "coglake cognirank --verify",
)
def cognirank(  # noqa: PLR0913
    context: typer.Context,
    *,
    more_models: Annotated[
        list[str] | None, typer.Argument(metavar="[MODEL]...", help="More models, after --models.")
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="A repository of the Hugging Face hub, or a folder.")
    ] = None,
    models: Annotated[
        list[str] | None, typer.Option(help="The first of several models, which run one after another.")
    ] = None,
    model_revision: Annotated[
        str | None,
        typer.Option(
            help="Commit, branch or tag of the only model; it is resolved to a commit before anything runs."
        ),
    ] = None,
    output_dir: Annotated[
        Path | None, typer.Option(help="Folder of the results; new or empty, unless --resume.")
    ] = None,
    is_resumed: Annotated[
        bool, typer.Option("--resume", help="Go on with the results in --output-dir.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print protocol, questions and revisions, and do nothing.")
    ] = False,
    is_verified: Annotated[
        bool, typer.Option("--verify", help="Compare every pin with what is here, and do nothing else.")
    ] = False,
    is_listing: Annotated[
        bool,
        typer.Option("--print-requirements", help="Print what inference and the verifier need, and stop."),
    ] = False,
    extract_only: Annotated[
        Path | None, typer.Option(help="Write protocol, prompts and scoring into this folder, and stop.")
    ] = None,
    eval_context: Annotated[
        int,
        typer.Option(min=0, help="Tokens of prompt and response; 0 is the model's own, at most 4096."),
    ] = 4096,
    trust_remote_code: Annotated[
        bool,
        typer.Option("--trust-remote-code", help="Run code that comes with a model; the run records it."),
    ] = False,
    engine: Annotated[LocalEngine, typer.Option(help="What runs the models.")] = LocalEngine.VLLM,
    dtype: Annotated[
        Dtype, typer.Option(help="Another than bfloat16 is recorded as a deviation.")
    ] = Dtype.BFLOAT16,
    limit: Annotated[
        int | None,
        typer.Option(min=1, help="Only so many questions of each component: there is no composite then."),
    ] = None,
    stand_ins: Annotated[
        list[str] | None,
        typer.Option(
            "--stand-in",
            help="A component that is asked this project's own questions, or all; repeat it for several.",
        ),
    ] = None,
    repeat: Annotated[
        int, typer.Option(min=0, help="Ask all again as another evaluation of this number.")
    ] = 0,
    as_json: AsJson = False,
) -> None:
    """Evaluate models on CogniRank: four components, one composite, no score for what is not complete."""
    from store import command_cognirank_look as look

    _require_of_look(context)
    if is_verified:
        look.verify(as_json=as_json)
    elif is_listing:
        look.print_requirements(as_json=as_json)
    elif extract_only is not None:
        look.extract(extract_only, as_json=as_json)
    else:
        from store import command_cognirank

        wanted = command_cognirank.wanted(
            models=[*([model] if model is not None else []), *(models or ()), *(more_models or ())],
            revision=model_revision,
            output=output_dir,
            is_resumed=is_resumed,
            asking={
                "engine": engine.value,
                "dtype": dtype.value,
                "context_tokens": eval_context,
                "trust_remote_code": trust_remote_code,
                "limit": limit,
                "repeat": repeat,
            },
            stand_ins=stand_ins or (),
        )
        if dry_run:
            look.dry_run(wanted, as_json=as_json)
        else:
            command_cognirank.run(wanted, as_json=as_json)


def _given(context: typer.Context) -> dict[str, str]:
    """Return what stands on the command line: parameters and the options, or the argument, that name them."""
    return {
        parameter.name or "": parameter.opts[0] if parameter.param_type_name == "option" else "MODEL"
        for parameter in context.command.params
        for source in [context.get_parameter_source(parameter.name or "")]
        if source is not None and source.name == "COMMANDLINE"
    }


def _require_of_look(context: typer.Context) -> None:
    """Refuse an option that does nothing beside one that only looks; a plan obeys the most."""
    given = _given(context)
    looks = [name for name in ("is_verified", "is_listing", "extract_only", "dry_run") if name in given]
    for name in looks[:1]:
        obeyed = set(given) - set(looks) if name == "dry_run" else {"as_json"}
        for other in given.keys() - obeyed - {name}:
            raise WrongUsage(f"{given[other]} does nothing beside {given[name]}: leave it out")


@_command("coglake grade --models org/model")
def grade(
    *,
    models: Annotated[
        list[str] | None, typer.Option(help="A model as the lake calls it; repeat it for several.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Let the graders grade what models answered and no verdict is there of."""
    from store import command_grade

    command_grade.run(models, as_json=as_json)


@_command("coglake task weather_prediction_hmmr -o tasks")
def task(
    *,
    mode: Annotated[str, typer.Argument(help="A mode whose questions stand alone.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder of the task; made if needed.")],
    as_json: AsJson = False,
) -> None:
    """Write the questions of a mode as a task that lm-eval runs."""
    from store import command_task

    command_task.run(mode, output, as_json=as_json)


# a name that Python keeps for itself
@app.command("import", epilog="\b\nExample: coglake import inspect logs/a-run.eval --mode false_belief_qa")
@console.guarded
def import_log(
    *,
    form: Annotated[LogForm, typer.Argument(metavar="FORMAT", help="Which harness wrote the log.")],
    path: Annotated[
        Path, typer.Argument(help="The log: samples_*.jsonl of lm-eval, .eval or .json of Inspect.")
    ],
    mode: Annotated[str, typer.Option(help="The mode whose questions are answered in it.")],
    model: Annotated[
        str | None, typer.Option(help="What the model is called in the lake; by default as the log says.")
    ] = None,
    revision: Annotated[
        str | None, typer.Option(help="Commit of the model, where the log does not say.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Bring in a log that another harness wrote. What is there already is not added again."""
    from store import command_import

    command_import.run(form.value, path, mode, model, revision, as_json=as_json)


@_command("coglake fit two_step_hybrid")
def fit(
    *,
    agent: Annotated[str, typer.Argument(help="An agent whose parameters are fitted to people.")],
    is_written: Annotated[
        bool, typer.Option("--write", help="Replace the parameters in manifests/reference_fits.csv.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Fit a reference to the human responses in the lake. Compare with the parameters on record."""
    # before NumPy loads: threads that wait for each other make fits of few parameters a hundred times slower
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from store import command_fit

    command_fit.run(agent, is_written=is_written, as_json=as_json)


@_command("coglake build --threads 2", "coglake build --locked coglake.lock")
def build(
    *,
    select: Annotated[
        list[str] | None, typer.Option(help="dbt selection, such as +table_3; repeat it for several.")
    ] = None,
    threads: Annotated[int | None, typer.Option(min=1, help="Number of dbt threads.")] = None,
    full_refresh: Annotated[
        bool, typer.Option("--full-refresh", help="Build incremental tables anew.")
    ] = False,
    locked: Annotated[
        Path | None,
        typer.Option(help="A lock file: refuse if anything in it is otherwise here, or comes out otherwise."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Score the raw rows with dbt. Then compare the result with what is published."""
    from store import command_build

    command_build.run(select or (), threads, full_refresh=full_refresh, locked=locked, as_json=as_json)


@_command("coglake lock -o coglake.lock")
def lock(
    *,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="File to write; one that is there is replaced.")
    ] = Path("coglake.lock"),
    as_json: AsJson = False,
) -> None:
    """Write down what the last build was made of: pins, runs, rules, packages, raw parts and marts."""
    from store import command_lock

    command_lock.run(output, as_json=as_json)


@_command("coglake trace restless_bandit gpt-4", "coglake trace bart uniform --json")
def trace(
    mode: Annotated[
        str, typer.Argument(help="A mode, cogniscore or one of its components, a Learning category.")
    ],
    column: Annotated[
        str, typer.Argument(metavar="MODEL", help="A column of the table; uniform and reference are two.")
    ],
    *,
    metric: Annotated[
        str | None, typer.Option(help="Another metric of the mode than its primary target.")
    ] = None,
    n_rows: Annotated[
        int, typer.Option("--rows", min=0, help="Raw rows to show; with --json all are shown.")
    ] = 5,
    is_public: Annotated[
        bool, typer.Option("--public", help="Leave out the raw text of sources that are not public.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Say where a cell comes from: value, formula, counts, SQL, raw rows, files and pins."""
    from store import command_trace

    command_trace.run(mode, column, metric=metric, n_rows=n_rows, is_public=is_public, as_json=as_json)


@_command("coglake diff previous latest", "coglake diff 3f2a9c 88d01e --json")
def diff(
    before: Annotated[str, typer.Argument(metavar="A", help="A build, a version of a rule, or a run.")],
    after: Annotated[str, typer.Argument(metavar="B", help="Another of the same kind.")],
    *,
    n_rows: Annotated[
        int, typer.Option("--rows", min=0, help="Items to show; with --json all are shown.")
    ] = 20,
    is_public: Annotated[
        bool, typer.Option("--public", help="Leave out the raw text of sources that are not public.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Say which cells moved between A and B and which items did; exit 1 if any did."""
    from store import command_diff

    command_diff.run(before, after, n_rows=n_rows, is_public=is_public, as_json=as_json)


@_command("coglake compare gpt-4_cot gpt-4_sb", "coglake compare gpt-4_cot gpt-4_sb --margin bart=2 --json")
def compare(
    one: Annotated[str, typer.Argument(metavar="A", help="A model column of Table 3, or a run.")],
    another: Annotated[str, typer.Argument(metavar="B", help="Another one.")],
    *,
    modes: Annotated[
        list[str] | None, typer.Option(help="Only this mode; repeat it for several. All by default.")
    ] = None,
    margins: Annotated[
        list[str] | None,
        typer.Option(
            "--margin", help="MODE=VALUE: what counts as equivalent, in the unit of the primary target."
        ),
    ] = None,
    form: Annotated[
        Format | None, typer.Option("--format", help="Form of the answer; by default a table.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compare two models on the same items: differences, intervals, tests, and what could have been seen."""
    from store import command_compare

    command_compare.run(one, another, modes or (), margins or (), form=form, as_json=as_json)


@_command("coglake export table3 --format md --models 'Llama*' --models Qwen -o table3.md")
def export(
    what: Annotated[Exportable, typer.Argument(help="The table.")],
    *,
    form: Annotated[Format, typer.Option("--format", help="Form of the file.")] = Format.CSV,
    models: Annotated[
        list[str] | None,
        typer.Option(help="A model or column of the table, or a shell pattern; repeat it for several."),
    ] = None,
    allow_partial: Annotated[
        bool,
        typer.Option("--allow-partial", help="Where rows are missing, print what could be scored, marked s."),
    ] = False,
    beside: Annotated[
        Uncertainty | None,
        typer.Option("--with", help="Beside each value its standard error, or its 95% interval."),
    ] = None,
    modes: Annotated[
        list[str] | None, typer.Option(help="scores: only this mode; repeat it for several.")
    ] = None,
    is_public: Annotated[
        bool,
        typer.Option(
            "--public",
            help="scores: leave out the raw text of sources that are not public; other tables have none.",
        ),
    ] = False,
    output: Annotated[
        str | None,
        typer.Option(
            "--output", "-o", help="File to write, - for standard output; by default in the lake's exports."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write a table of the last build. Refuses if that failed, or rows or project changed since."""
    from store import command_export

    if what is Exportable.SCORES:
        from store import command_export_scores

        if beside:
            raise WrongUsage(f"--with does not belong to {what}: a verdict has no error")
        command_export_scores.run(
            form,
            models or (),
            modes or (),
            allow_partial=allow_partial,
            is_public=is_public,
            output=output,
            as_json=as_json,
        )
        return
    if modes:
        raise WrongUsage(f"--modes does not belong to {what}")
    command_export.run(
        what.value,
        form,
        models or (),
        allow_partial=allow_partial,
        beside=beside,
        output=output,
        as_json=as_json,
    )


@_command("coglake sql \"select mode_id, printed from table_3 where column_id = 'Qwen'\"")
def sql(
    query: Annotated[str, typer.Argument(help="One statement that reads.")],
    *,
    form: Annotated[
        Format | None, typer.Option("--format", help="Form of the answer; by default a table.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Ask the built database. Nothing can be changed."""
    from store.query import ask

    sheet = ask(home(), query)
    if form is None or as_json:
        console.show(sheet, as_json=as_json)
    else:
        console.write(render(sheet, form))


@_command("coglake status --json")
def status(as_json: AsJson = False) -> None:
    """Say what is in the lake, and whether the marts match it."""
    from store.status import describe, read_status

    found = read_status(home(), project_dir())
    console.write(to_json(found) if as_json else describe(found))


@_command("coglake verify")
def verify(as_json: AsJson = False) -> None:
    """Hash every file again. Compare it with its name and with the pins."""
    from store import lake
    from store.manifest import load_sources

    pins = {source.uri(file): file.sha256 for source in load_sources().values() for file in source.files}
    _show_findings(
        lake.verify(home(), pins), all_well="every file is what its name and its pin say", as_json=as_json
    )


@_command("coglake doctor")
def doctor(as_json: AsJson = False) -> None:
    """Look for what is in the way of writing, reading or building."""
    from store import lake

    _show_findings(lake.doctor(home()), all_well="nothing is in the way", as_json=as_json)


def _show_findings(findings: "Sequence[Finding]", *, all_well: str, as_json: bool) -> None:
    if as_json:
        console.write(to_json(findings))
    else:
        for found in findings:
            console.write(
                f"{found.path}: {found.problem}\n"
                f"  expected: {found.expected}\n  found: {found.found}\n  advice: {found.advice}\n"
            )
    console.say(f"{len(findings)} found" if findings else all_well)
    if findings:
        raise typer.Exit(1)


@_command("coglake demo", "coglake demo --model .models/SmolLM2-135M-Instruct")
def demo(
    *,
    model: Annotated[
        str | None,
        typer.Option(
            help="Also ask this model, on transformers, a slice of the public questions and episodes."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Go from nothing to Table 3 without a download."""
    # before NumPy loads: threads that wait for each other make fits of few parameters a hundred times slower
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from store import command_demo

    command_demo.run(model, as_json=as_json)
