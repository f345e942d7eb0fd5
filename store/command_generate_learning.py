"""``coglake generate --benchmark learning``: agents and models in the families of Learning tasks."""

from collections.abc import Sequence

from generate.engines.settings import open_engine
from generate.learning import agent_runs, model_runs
from generate.learning.families import Family, load_families
from generate.learning.model_runs import FamilyTask
from generate.pending import Slice
from store import command_generate, command_generate_model, console
from store.command_generate_model import Asked, Wanted
from store.errors import WrongUsage
from store.formats import Sheet, to_json
from store.learning_tasks import CATEGORIES
from store.settings import home
from store.usage import require_known


def run_agents(names: Sequence[str], modes: Sequence[str], *, dry_run: bool, as_json: bool) -> None:
    """Let agents reply in what the lake lacks."""
    known = agent_runs.load_agents()
    agents = command_generate.chosen(names, known, f"there are {', '.join(known)}", lambda _: True)
    families = _families(modes)
    tasks = agent_runs.plan(home(), agents, families)
    if not tasks:
        categories = " or ".join(dict.fromkeys(name for agent in agents for name in agent.categories))
        raise WrongUsage(
            f"{', '.join(names)}: expected a family of {categories}, found {', '.join(modes)} alone"
        )
    if dry_run:
        command_generate.show_plan(tasks, as_json=as_json, played="family")
        return
    with console.progress("generate") as step:
        reports = agent_runs.generate(home(), tasks, step)
    if as_json:
        console.write(to_json({"runs": reports}))
    else:
        console.show(command_generate.sheet(reports, "family"))


def run_model(wanted: Wanted, *, dry_run: bool, as_json: bool) -> None:
    """Ask a model what the lake lacks of its replies."""
    families = _families(wanted.modes)
    model = command_generate_model.described(wanted)
    tasks = model_runs.plan(
        home(),
        model.weights,
        model.facts,
        model.choosing,
        families.values(),
        context_requested_tokens=model.settings.max_context_tokens,
        repeat=wanted.repeat,
    )
    command_generate_model.say_who(model)
    if dry_run:
        _show_model(tasks, model.part, as_json=as_json)
        return
    with (
        console.progress("generate", has_rate=True) as step,
        command_generate_model.stop_after_batch() as stops,
    ):
        reports = model_runs.do(
            home(),
            model.weights,
            tasks,
            model.choosing,
            lambda: open_engine(model.settings),
            model.part,
            step,
            lambda: bool(stops),
        )
    asked = Asked(reports, len(tasks), bool(stops))
    if as_json:
        console.write(to_json({"runs": reports}))
    else:
        console.show(command_generate_model.sheet(reports))
    command_generate_model.complain(asked)


def _families(wanted: Sequence[str]) -> dict[str, Family]:
    """Return the families that are named, or all."""
    known = load_families()
    for name in wanted:
        if name in CATEGORIES:
            own = ", ".join(family.id for family in known.values() if family.category == name)
            raise WrongUsage(f"{name}: expected a family, found a category: its families are {own}")
    require_known("family", wanted, known, f"there are {', '.join(known)}")
    return {name: family for name, family in known.items() if not wanted or name in wanted}


def _show_model(tasks: Sequence[FamilyTask], part: Slice, *, as_json: bool) -> None:
    counted = [(task, *model_runs.count(home(), task, part)) for task in tasks]
    if as_json:
        runs = [
            {"mode_id": task.family.id, "run_id": task.task.run_id, "n_planned": n, "n_pending": n_pending}
            for task, n, n_pending in counted
        ]
        console.write(to_json({"runs": runs}))
        return
    rows = tuple(
        (task.family.id, "episodes", n, n_pending, task.task.run_id) for task, n, n_pending in counted
    )
    console.show(Sheet(("family", "of", "planned", "to do", "run"), rows))
