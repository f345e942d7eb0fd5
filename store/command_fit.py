"""``coglake fit``: fit a reference to human responses again, and compare with the parameters on record."""

from collections import defaultdict
from collections.abc import Iterable

from generate.agents.recorded import record, recorded
from generate.contract import Fit, FittedToPeople
from generate.schedule import load_agents
from store import console
from store.errors import InvalidSource, WrongUsage
from store.formats import Sheet, to_json
from store.settings import home
from store.usage import require_known

_LOSS = "negative_log_likelihood"


def run(agent_id: str, *, is_written: bool, as_json: bool) -> None:
    """Fit, print both negative log-likelihoods, and with ``is_written`` replace what is on record."""
    agents = load_agents()
    require_known("agent", [agent_id], agents, f"there are {', '.join(agents)}")
    family = agents[agent_id].made()
    if not isinstance(family, FittedToPeople):
        raise WrongUsage(f"{agent_id}: not fitted to people: its parameters are chosen when it is generated")
    with console.progress(f"fit {agent_id}"):
        fits, training_set = family.estimate(home())
    try:
        on_record = recorded(agent_id).fits
    except InvalidSource:
        on_record = ()
    if is_written:
        record(agent_id, fits, training_set)
    result = _totals("on record", on_record), _totals("now", fits)
    if as_json:
        console.write(to_json({"agent_id": agent_id, "training_set": training_set, "fits": result}))
    else:
        headers = ("fit", "participants", "responses", "negative log-likelihood (nats)", "at a bound")
        console.show(Sheet(headers, tuple(tuple(row.values()) for row in result)))


def _totals(name: str, fits: Iterable[Fit]) -> dict[str, object]:
    by_participant: dict[str | None, list[Fit]] = defaultdict(list)
    for fit in fits:
        by_participant[fit.participant_id].append(fit)
    losses = [fit for own in by_participant.values() for fit in own if fit.parameter == _LOSS]
    return {
        "fit": name,
        "n_participants": len(by_participant),
        "n_responses": sum(loss.n_training or 0 for loss in losses),
        "negative_log_likelihood_nats": sum(loss.value for loss in losses) if losses else None,
        "n_at_a_bound": sum(any(fit.is_at_bound for fit in own) for own in by_participant.values()),
    }
