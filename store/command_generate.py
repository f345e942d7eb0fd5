"""``coglake generate``: choose agents and modes, let them play, say what came of it."""

from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, TypeVar

from generate.pipeline import Task, TaskReport, generate, is_ready, item_sources, plan
from generate.schedule import AgentSettings, load_agents, load_schedules
from store import console
from store.errors import WrongUsage
from store.formats import Sheet, to_json
from store.settings import home
from store.usage import require_known

if TYPE_CHECKING:
    from generate.learning.agent_runs import AgentTask

AgentT = TypeVar("AgentT")


def run(agents: Sequence[str], modes: Sequence[str], *, dry_run: bool, as_json: bool) -> None:
    """Let agents play and answer what the lake lacks."""
    known = load_agents()
    otherwise = f"there are {', '.join(known)}; those of Learning go with --benchmark learning"
    acting = chosen(agents, known, otherwise, is_ready)
    require_known("mode", modes, item_sources(), f"there are {', '.join(item_sources())}")
    tasks = plan(home(), acting, load_schedules(), modes)
    if not tasks:
        wanted = f"{', '.join(agents)}: nothing to do in {', '.join(modes) or 'any mode'}"
        raise WrongUsage(f"{wanted}: {_why_idle(acting, modes)}")
    for task in tasks:
        if task.displaced_by is not None:
            console.say(
                f"warning: {task.agent.id} in {task.mode_id}: the lake holds a later run with other settings "
                f"({task.displaced_by}), and the newest counts; raise the agent's version to play again"
            )
    if dry_run:
        show_plan(tasks, as_json=as_json)
        return
    with console.progress("generate") as step:
        reports = generate(home(), tasks, step)
    if as_json:
        console.write(to_json({"runs": reports}))
    else:
        console.show(sheet(reports))


def _why_idle(agents: Sequence[AgentSettings], modes: Sequence[str]) -> str:
    """Say what is missing where there is nothing to do."""
    if not all(agent.predicts for agent in agents):
        return "the agent plays another environment, or the questions are not ingested"
    predicted = {mode: item_sources()[mode] for agent in agents for mode in agent.predicts}
    lacking = {mode: source for mode, source in predicted.items() if not modes or mode in modes}
    if not lacking:
        return f"what is predicted is {', '.join(predicted)}"
    reasons = []
    if unknown := [mode for mode, source in lacking.items() if source is None]:
        reasons.append(f"the source of the questions of {', '.join(unknown)} is not identified")
    if ingested := {mode: source for mode, source in lacking.items() if source is not None}:
        reasons.append(
            f"the questions of {', '.join(ingested)} are not in the lake: "
            f"ingest {', '.join(dict.fromkeys(ingested.values()))}"
        )
    return "; ".join(reasons)


def chosen(
    wanted: Sequence[str], known: Mapping[str, AgentT], otherwise: str, can_act: Callable[[AgentT], bool]
) -> list[AgentT]:
    """Return the agents that are named; a pattern stands for all of its that can act.

    Parameters
    ----------
    otherwise
        What to say of a name that is like none.

    Raises
    ------
    WrongUsage
        If a name or pattern stands for no agent.
    """
    found: dict[str, AgentT] = {}
    for name in wanted:
        matches = [agent for agent in known if fnmatchcase(agent, name) and can_act(known[agent])]
        if name in known or not matches:
            require_known("agent", [name], known, otherwise)
            matches = [name]
        found |= {agent: known[agent] for agent in matches}
    return list(found.values())


def sheet(reports: Sequence[TaskReport], played: str = "mode") -> Sheet:
    """Return one row per run; ``played`` heads the column of what was played."""
    return Sheet(
        headers=("agent", played, "rows", "state", "seconds"),
        rows=tuple(
            (
                report.agent_id,
                report.mode_id,
                report.n_rows if report.is_new else None,
                "new" if report.is_new else "0 new",
                f"{report.seconds:.1f}",
            )
            for report in reports
        ),
        printed=frozenset({4}),
    )


def show_plan(tasks: "Sequence[Task] | Sequence[AgentTask]", *, as_json: bool, played: str = "mode") -> None:
    """Show what agents have to do; ``played`` heads the column of what is played."""
    if as_json:
        runs = [
            {
                "agent_id": task.agent.id,
                "mode_id": task.mode_id,
                "run_id": task.run_id,
                "is_new": not task.is_present,
            }
            for task in tasks
        ]
        console.write(to_json({"runs": runs}))
        return
    rows = tuple(
        (task.agent.id, task.mode_id, "present" if task.is_present else "to do", task.run_id)
        for task in tasks
    )
    console.show(Sheet(("agent", played, "state", "run"), rows))
