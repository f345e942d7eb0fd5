"""A small archive in the CogBench CSV schema, made here, so that the demo needs no download.

Three seeded stand-ins, named ``demo-...`` so that none can fill a published cell, play seven environments.
A world is everything that can happen, drawn before play; a player is given only a ``...Seen``: what the
instructions and the trials so far have shown.

The bytes are the same on every machine: ``RandomState`` streams are frozen, draws are integers or sort keys,
every written number is an integer over a power of ten, and sums are exact (``math.fsum``).
"""

import codecs
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from generate.demo_scores import (
    FLAGS,
    Scores,
    Table,
    score_balloons,
    score_offers,
    score_restless,
    score_reward,
    score_two_step,
    score_urn,
)

REVISION = "1"

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Rng = np.random.RandomState


def _ints(rng: Rng, low: int, high: int, shape: tuple[int, ...]) -> Ints:
    """Draw integers uniform on low..high-1."""
    # the default integer type, and with it the stream, differs between platforms
    draws: Ints = rng.randint(low, high, size=shape, dtype=np.int64)
    return draws


def _bell(rng: Rng, sd: int, shape: tuple[int, ...]) -> Ints:
    """Draw integers of mean 0; three uniforms on -sd..sd add up to that SD within 1/2."""
    total: Ints = _ints(rng, -sd, sd + 1, (3, *shape)).sum(axis=0)
    return total


def _shuffled(rng: Rng, values: Ints, n_rows: int) -> Ints:
    """Return ``n_rows`` independent shuffles of ``values``."""
    return values[np.argsort(rng.random_sample((n_rows, values.size)), axis=1, kind="stable")]


def _flat(shape: tuple[int, ...], columns: Mapping[str, NDArray[Any]]) -> Table:
    """Return runs x trials arrays as table columns, with ``run`` and ``trial`` beside them."""
    indices = {"run": np.arange(shape[0])[:, None], "trial": np.arange(shape[1])}
    return {
        name: np.broadcast_to(values, shape).ravel() for name, values in (indices | dict(columns)).items()
    }


# ---- what a player sees, and the players ----


@dataclass(frozen=True, slots=True)
class ArmsSeen:
    """A choice between two arms, asked of all runs at once.

    Attributes
    ----------
    arms, points
        Arm chosen (-1: in another task) and whole points paid, runs x earlier trials that are still shown.
    typical_points, spread_points
        What the instructions say about payoffs: their middle and their SD.
    """

    arms: Ints
    points: Ints
    typical_points: float
    spread_points: float

    def tally(self) -> Ints:
        """Return plays and points (first axis) of each arm: 2 x runs x 2."""
        played = self.arms[..., None] == np.arange(2)
        return np.stack([played.sum(axis=1), (played * self.points[..., None]).sum(axis=1)])


@dataclass(frozen=True, slots=True)
class ArmChoice:
    """The arm that each run chooses, and how sure the player is that it is the better one, in per cent."""

    arms: Ints
    sure_pct: Ints


@dataclass(frozen=True, slots=True)
class BalloonSeen:
    """Earlier balloons, runs x balloons; ``same`` marks those with the letter of the balloon to come."""

    same: Bools
    pumps: Ints
    exploded: Bools


@dataclass(frozen=True, slots=True)
class UrnSeen:
    """Prior and red share of the left urn, in tenths, and whether the ball is red: runs x questions."""

    prior: Ints
    red_share: Ints
    is_red: Bools

    def colour_share(self) -> Ints:
        """Return the share of the drawn colour in the left urn, in tenths."""
        return np.where(self.is_red, self.red_share, 10 - self.red_share)


@dataclass(frozen=True, slots=True)
class OfferSeen:
    """500 sooner or the later amount a year after; ``is_now``: the sooner date is today. Runs x questions."""

    later_amount: Ints
    is_now: Bools


@dataclass(frozen=True, slots=True)
class Uniform:
    """Every legal action with equal probability, every report uniform."""

    rng: Rng

    def arm(self, seen: ArmsSeen) -> ArmChoice:
        """Choose one of two arms."""
        shape = seen.arms.shape[:1]
        return ArmChoice(_ints(self.rng, 0, 2, shape), _ints(self.rng, 0, 101, shape))

    def pumps(self, seen: BalloonSeen) -> Ints:
        """Return the pump at which to bank: a coin before each, since nothing is seen until a burst."""
        n_heads_first: Ints = _ints(self.rng, 0, 2, (len(seen.same), 128)).cumprod(axis=1).sum(axis=1)
        return n_heads_first

    def posterior(self, seen: UrnSeen) -> Ints:
        """Return the reported probability of the left urn, in millionths."""
        return _ints(self.rng, 0, 101, seen.prior.shape) * 10_000

    def later(self, seen: OfferSeen) -> Ints:
        """Return 1 where the later amount is taken."""
        return _ints(self.rng, 0, 2, seen.is_now.shape)


@dataclass(frozen=True, slots=True)
class Greedy(Uniform):
    """Acts on what paid so far, or on what lies in front of it."""

    def arm(self, seen: ArmsSeen) -> ArmChoice:
        """Choose an arm that was never tried, else the larger sample mean; always 80 % sure."""
        plays, points = seen.tally()
        # sample means compared without a division
        lead = points[:, 1] * plays[:, 0] - points[:, 0] * plays[:, 1]
        lead = np.where((plays == 0).any(axis=1), plays[:, 0] - plays[:, 1], lead)
        arms = np.where(lead == 0, _ints(self.rng, 0, 2, lead.shape), lead > 0)
        return ArmChoice(arms, np.full_like(arms, 80))

    def pumps(self, seen: BalloonSeen) -> Ints:
        """One pump more for each banked balloon of this letter, one less for each that burst."""
        n_net = (np.where(seen.exploded, -1, 1) * seen.same).sum(axis=1)
        return np.where(n_net > 0, 1 + n_net, 1)

    def posterior(self, seen: UrnSeen) -> Ints:
        """Report the share of the drawn colour in the left urn, blind to the prior."""
        return seen.colour_share() * 100_000

    def later(self, seen: OfferSeen) -> Ints:
        """Take money that is on offer now unless waiting adds half."""
        return np.where(seen.is_now, seen.later_amount >= 750, 1)


@dataclass(frozen=True, slots=True)
class Bayes(Uniform):
    """Acts on a posterior."""

    def arm(self, seen: ArmsSeen) -> ArmChoice:
        """Choose by one posterior draw (Thompson); how sure is the share of 100 more draws that agree."""
        plays, points = seen.tally()
        weight = plays + 1  # the typical payoff counts as one play
        noise = seen.spread_points * _bell(self.rng, 1000, (*weight.shape, 101)) / 1000
        draws = ((points + seen.typical_points) / weight)[..., None] + noise / np.sqrt(weight)[..., None]
        wins = draws[:, 1] > draws[:, 0]
        return ArmChoice(wins[:, 0].astype(np.int64), (wins[:, 1:] == wins[:, :1]).sum(axis=1))

    def pumps(self, seen: BalloonSeen) -> Ints:
        """Pump up to one over the posterior mean hazard of this letter, under a Beta(1, 3) prior."""
        n_pumps, n_bursts = (seen.pumps * seen.same).sum(axis=1), (seen.exploded & seen.same).sum(axis=1)
        target: Ints = (4 + n_pumps) // (1 + n_bursts)
        return target

    def posterior(self, seen: UrnSeen) -> Ints:
        """Report the exact posterior, rounded once."""
        left = seen.prior * seen.colour_share()
        total = left + (10 - seen.prior) * (10 - seen.colour_share())
        millionths: Ints = (left * 1_000_000 + total // 2) // total
        return millionths

    def later(self, seen: OfferSeen) -> Ints:
        """Wait where waiting adds a quarter, whatever the date."""
        return np.where(seen.later_amount >= 625, 1, 0)


PLAYERS: Mapping[str, type[Uniform]] = {"demo-uniform": Uniform, "demo-greedy": Greedy, "demo-bayes": Bayes}


# ---- two-armed bandits: HorizonTask, InstrumentalLearning, RestlessBandit ----


@dataclass(frozen=True, slots=True)
class BanditWorld:
    """A set of two-armed bandits; arrays are runs x trials, and x 2 arms where a value belongs to an arm.

    Hidden: ``means`` in points (a restless world adds those after its last step) and ``payoffs`` in units of
    1/``units`` point, but for the chosen arm's whole points. Visible: the ``tasks`` that trials belong to,
    the arms that they prescribe (``forced``; -1 is a free choice), payoffs as the instructions describe
    them (``typical_points``, ``spread_points``), and the last ``n_shown`` trials.
    """

    means: NDArray[Any]
    payoffs: Ints
    tasks: Ints
    forced: Ints
    lengths: Ints
    typical_points: float = 50
    spread_points: float = 8
    n_shown: int = 100
    units: int = 1


def play_bandit(world: BanditWorld, player: Uniform) -> Table:
    """Play all trials; payoffs in points, confidence as a probability."""
    shape = world.tasks.shape
    arms, rewards, sure_pct = np.full((3, *shape), -1, dtype=np.int64)
    for t in range(shape[1]):
        shown = slice(max(0, t - world.n_shown), t)
        known_arms = np.where(world.tasks[:, shown] == world.tasks[:, t, None], arms[:, shown], -1)
        points = rewards[:, shown] // world.units
        choice = player.arm(ArmsSeen(known_arms, points, world.typical_points, world.spread_points))
        arms[:, t] = np.where(world.forced[:, t] < 0, choice.arms, world.forced[:, t])
        rewards[:, t] = world.payoffs[np.arange(shape[0]), t, arms[:, t]]
        sure_pct[:, t] = choice.sure_pct
    columns = {
        "task": world.tasks,
        "choice": arms,
        "reward": rewards / world.units,
        "confidence": sure_pct / 100,
        **{f"mean{arm}": world.means[:, : shape[1], arm].astype(np.float64) for arm in (0, 1)},
        **{f"reward{arm}": world.payoffs[..., arm] / world.units for arm in (0, 1)},
    }
    is_played = (np.arange(shape[1]) < world.lengths[:, None]).ravel()
    return {name: values[is_played] for name, values in _flat(shape, columns).items()}


def horizon_world(rng: Rng) -> BanditWorld:
    """200 games of 5 or 10 trials; the first four are forced, one to three of them to arm 1."""
    base = 40 + 20 * _ints(rng, 0, 2, (200,))
    gap = np.array([4, 8, 12, 20, 30])[_ints(rng, 0, 5, (200,))] * (2 * _ints(rng, 0, 2, (200,)) - 1)
    order = _shuffled(rng, np.arange(2), 200)
    means = np.take_along_axis(np.stack([base, base + gap], axis=1), order, axis=1)
    means = means[:, None].repeat(10, axis=1)
    # drawn in hundredths of a point, rounded to whole points
    payoffs = means + (_bell(rng, 800, means.shape) + 50) // 100
    n_ones = np.array([1, 2, 2, 3])[_ints(rng, 0, 4, (200, 1))]
    forced = np.full((200, 10), -1, dtype=np.int64)
    forced[:, :4] = _shuffled(rng, np.arange(4), 200) < n_ones
    return BanditWorld(means, payoffs, np.zeros_like(forced), forced, 5 + 5 * _ints(rng, 0, 2, (200,)))


def instrumental_world(rng: Rng) -> BanditWorld:
    """10 runs of four tasks x 24 trials, interleaved; an arm pays one point with chance 1/4 or 3/4."""
    tasks = _shuffled(rng, np.repeat(np.arange(1, 5), 24), 10)
    quarters = np.array([[1, 1], [1, 3], [3, 1], [3, 3]])[tasks - 1]
    payoffs = (_ints(rng, 0, 4, quarters.shape) < quarters).astype(np.int64)
    return BanditWorld(quarters / 4, payoffs, tasks, np.full_like(tasks, -1), np.full(10, 96), 0.5, 0.5)


_BLOCK_LENGTHS = (21, 20, 20, 19)


def restless_world(rng: Rng) -> BanditWorld:
    """10 runs of 80 trials: means of 40 and 60 points that swap after every block, noise of SD 8 points."""
    better = (_ints(rng, 0, 2, (10, 1)) + np.repeat(np.arange(5), [*_BLOCK_LENGTHS, 1])) % 2
    means = np.where(better[..., None] == np.arange(2), 60, 40)
    payoffs = 100 * means[:, :80] + _bell(rng, 800, (10, 80, 2))
    tasks = np.zeros((10, 80), dtype=np.int64)
    return BanditWorld(means, payoffs, tasks, tasks - 1, np.full(10, 80), n_shown=8, units=100)


def play_restless(world: BanditWorld, player: Uniform) -> Table:
    """Play, and label each choice by the means after the trial's step, as the original does."""
    table = play_bandit(world, player)
    n_runs, better = len(world.means), world.means[:, 1:].argmax(axis=2)
    return table | {
        "accurate": (table["choice"] == better.ravel()).astype(np.int64),
        "block": np.tile(np.repeat(np.arange(4), _BLOCK_LENGTHS), n_runs),
        "block_trial": np.tile(np.concatenate([np.arange(n) for n in _BLOCK_LENGTHS]), n_runs),
    }


# ---- BART ----


@dataclass(frozen=True, slots=True)
class BalloonWorld:
    """Hidden: each letter's maximum (runs x 3) and the pump that bursts a balloon. Visible: its letter."""

    maxima: Ints
    burst_at: Ints
    letters: Ints


def balloon_world(rng: Rng) -> BalloonWorld:
    """10 runs of 45 balloons; each run gives the maxima 128, 32 and 8 to its three letters anew."""
    maxima = _shuffled(rng, np.array([128, 32, 8]), 10)
    letters = _shuffled(rng, np.repeat(np.arange(3), 15), 10)
    # hazard 1 / (maximum - pumps) is a burst point uniform on 1..maximum, and each maximum divides 128
    burst_at = 1 + _ints(rng, 0, 128, letters.shape) % np.take_along_axis(maxima, letters, axis=1)
    return BalloonWorld(maxima, burst_at, letters)


def play_balloons(world: BalloonWorld, player: Uniform) -> Table:
    """Play all balloons; pumps include the one that bursts, a banked pump is one point."""
    letters = world.letters
    pumps, exploded = np.zeros_like(letters), np.zeros(letters.shape, dtype=np.bool_)
    for t in range(letters.shape[1]):
        same = letters[:, :t] == letters[:, t, None]
        target = player.pumps(BalloonSeen(same, pumps[:, :t], exploded[:, :t]))
        exploded[:, t] = target >= world.burst_at[:, t]
        pumps[:, t] = np.minimum(target, world.burst_at[:, t])
    nth_of_letter = (letters[..., None] == np.arange(3)).cumsum(axis=1) - 1
    columns = {
        "pumps": pumps,
        "reward": np.where(exploded, 0, pumps),
        "max_pumps": np.take_along_axis(world.maxima, letters, axis=1),
        "exploded": exploded,
        "balloon_trial": np.take_along_axis(nth_of_letter, letters[..., None], axis=2)[..., 0],
        "balloon_idx": letters,
    }
    return _flat(letters.shape, columns)


# ---- ProbabilisticReasoning ----


def urn_world(rng: Rng) -> UrnSeen:
    """100 runs of two questions: an informative likelihood, then an informative prior."""
    clear = np.array([1, 2, 3, 7, 8, 9])[_ints(rng, 0, 6, (100, 2))]
    vague = np.array([4, 5, 5, 6])[_ints(rng, 0, 4, (100, 2))]
    prior, red_share = np.where([False, True], clear, vague), np.where([True, False], clear, vague)
    is_left = _ints(rng, 0, 10, (100, 2)) < prior
    is_red = _ints(rng, 0, 10, (100, 2)) < np.where(is_left, red_share, 10 - red_share)
    return UrnSeen(prior, red_share, is_red)


def play_urn(seen: UrnSeen, player: Uniform) -> Table:
    """Ask all questions; no answer changes a later one."""
    columns = {
        "informative_lh": np.array([True, False]),
        "prior": seen.prior / 10,
        "lh": seen.red_share / 10,
        "left_pred": player.posterior(seen) / 1_000_000,
        "red_observation": seen.is_red,
    }
    return _flat(seen.prior.shape, columns)


# ---- TemporalDiscounting ----


def offer_world(rng: Rng) -> OfferSeen:
    """10 runs of 8 trades, each offered from today and again from a year on."""
    amounts = 500 + 25 * _ints(rng, 1, 13, (10, 8))
    return OfferSeen(amounts.repeat(2, axis=1), np.tile([True, False], (10, 8)))


def play_offers(seen: OfferSeen, player: Uniform) -> Table:
    """Count later choices (0..16), and flag each of the first four trades that was answered both ways.

    Columns and ranges are the archive's; the questionnaire is this project's own.
    """
    later = player.later(seen)
    flags = (later[:, 0::2] != later[:, 1::2]).astype(np.int64)
    columns = {"score": later.sum(axis=1)} | dict(zip(FLAGS, flags.T, strict=False))
    return _flat((len(later), 1), {name: values[:, None] for name, values in columns.items()})


# ---- TwoStepTask ----


@dataclass(frozen=True, slots=True)
class TwoStepWorld:
    """Hidden, runs x trials: rates of the four aliens (in 1/10,000), their payoffs, common transitions."""

    rates: Ints
    payoffs: Ints
    is_common: Bools


def two_step_world(rng: Rng) -> TwoStepWorld:
    """50 runs of 20 trials; rates drift with SD 0.025 within 0.25..0.75, 7 of 10 transitions are common."""
    rates = np.empty((50, 20, 4), dtype=np.int64)
    rates[:, 0] = _ints(rng, 2500, 7501, (50, 4))
    for t in range(1, 20):
        rates[:, t] = np.clip(rates[:, t - 1] + _bell(rng, 250, (50, 4)), 2500, 7500)
    payoffs = (_ints(rng, 0, 10_000, rates.shape) < rates).astype(np.int64)
    return TwoStepWorld(rates, payoffs, _ints(rng, 0, 10, (50, 20)) < 7)


def play_two_step(world: TwoStepWorld, player: Uniform) -> Table:
    """Play all trials; ship X commonly reaches planet X with aliens D and F, ship Y planet Y with J and K."""
    runs, shape = np.arange(len(world.rates)), world.is_common.shape
    ships, planets, aliens, rewards = np.zeros((4, *shape), dtype=np.int64)
    for t in range(shape[1]):
        ships[:, t] = player.arm(ArmsSeen(ships[:, :t], rewards[:, :t], 0.5, 0.5)).arms
        planets[:, t] = np.where(world.is_common[:, t], ships[:, t], 1 - ships[:, t])
        here = np.where(planets[:, :t] == planets[:, t, None], aliens[:, :t], -1)
        aliens[:, t] = player.arm(ArmsSeen(here, rewards[:, :t], 0.5, 0.5)).arms
        rewards[:, t] = world.payoffs[runs, t, 2 * planets[:, t] + aliens[:, t]]
    columns = {
        "action1": np.array(["X", "Y"])[ships],
        "state": np.array(["X", "Y"])[planets],
        "action2": np.array(["D", "F", "J", "K"])[2 * planets + aliens],
        "reward": rewards,
        **{f"probs{letter}": world.rates[..., i] / 10_000 for i, letter in enumerate("ABCD")},
    }
    return _flat(shape, columns)


# ---- files ----


@dataclass(frozen=True, slots=True)
class Experiment:
    """One folder of the archive: how to draw its world, play one engine in it and score one table.

    ``columns`` are those of a data file beside ``run``. ``scores`` are the columns of ``scores_data.csv`` in
    the archive's order; each but an interval (``_CI``) is followed by the column of its label. An experiment
    that is ``scored_together`` has one score per engine, as run 0; any other has one per run.
    """

    draw: Callable[[Rng], Any]
    play: Callable[[Any, Uniform], Table]
    score: Callable[[Table], Scores]
    columns: str
    scores: tuple[str, ...]
    scored_together: bool = False


_P1, _P2 = "performance_score1", "performance_score2"
_B1, _B2, _B3, _B4 = (f"behaviour_score{i}" for i in (1, 2, 3, 4))

EXPERIMENTS: Mapping[str, Experiment] = {
    "BART": Experiment(
        balloon_world,
        play_balloons,
        score_balloons,
        "trial,pumps,reward,max_pumps,exploded,balloon_trial,balloon_idx",
        (_P1, _B1, _B2),
    ),
    "HorizonTask": Experiment(
        horizon_world,
        play_bandit,
        score_reward("rewards mean", "Directed Exploration", "Random Exploration"),
        "trial,mean0,mean1,reward0,reward1,choice,reward",
        (_P1, _B1, _B2, f"{_B1}_CI", f"{_B2}_CI", f"{_P1}_CI"),
        scored_together=True,
    ),
    "InstrumentalLearning": Experiment(
        instrumental_world,
        play_bandit,
        score_reward(
            "mean_reward",
            "learning_rate",
            "optimism_bias",
            "difference to optimal LR",
            "difference to optimal optimism bias",
        ),
        "trial,task,mean0,mean1,reward0,reward1,choice,reward",
        (_P1, _B1, _B2, _B3, _B4),
    ),
    "ProbabilisticReasoning": Experiment(
        urn_world,
        play_urn,
        score_urn,
        "informative_lh,prior,lh,left_pred,red_observation",
        tuple(column for score in (_P1, _B1, _B2, _B3, _B4) for column in (score, f"{score}_CI")),
        scored_together=True,
    ),
    "RestlessBandit": Experiment(
        restless_world,
        play_restless,
        score_restless,
        "trial,block,block_trial,choice,reward,confidence,accurate",
        (_P1, _B1, _B2, _P2, _B3),
    ),
    "TemporalDiscounting": Experiment(
        offer_world,
        play_offers,
        score_offers,
        ",".join((*FLAGS, "score")),
        (_P1, _B1, _B2, _B3, _B4),
    ),
    "TwoStepTask": Experiment(
        two_step_world,
        play_two_step,
        score_two_step,
        "trial,action1,state,action2,reward,probsA,probsB,probsC,probsD",
        (_P1, f"{_P1}_CI", _B1, f"{_B1}_CI"),
        scored_together=True,
    ),
}


def _csv(columns: list[str], rows: Iterable[Iterable[object]]) -> bytes:
    """Return CSV text; ``str`` of a float is its shortest exact form, the same everywhere."""
    return "".join(",".join(map(str, cells)) + "\n" for cells in (columns, *rows)).encode()


def _data_file(experiment: Experiment, table: Table, run_first: bool) -> bytes:
    columns = experiment.columns.split(",")
    columns = ["run", *columns] if run_first else [*columns, "run"]
    return _csv(columns, zip(*(table[column].tolist() for column in columns), strict=True))


def _scores_file(experiment: Experiment, tables: Mapping[str, Table]) -> bytes:
    labelled = [column for column in experiment.scores if not column.endswith("_CI")]
    columns = ["engine", "run"]
    for column in experiment.scores:
        columns += [column, f"{column}_name"] if column in labelled else [column]
    rows = []
    for engine, table in tables.items():
        groups = np.zeros_like(table["run"]) if experiment.scored_together else table["run"]
        for run in np.unique(groups).tolist():
            scores = experiment.score({name: values[groups == run] for name, values in table.items()})
            cells: dict[str, object] = {"engine": engine, "run": run}
            for column, (label, value) in zip(labelled, scores.items(), strict=True):
                cells |= {column: "" if value is None else value, f"{column}_name": label}
            # what is not computed stays empty, as in the archive
            rows.append([cells.get(column, "") for column in columns])
    return _csv(columns, rows)


def files() -> dict[str, bytes]:
    """Return the archive: path to bytes. All engines play the same world, each with a stream of its own."""
    archive = {}
    for seed, (name, experiment) in enumerate(EXPERIMENTS.items()):
        world = experiment.draw(Rng([seed, 0]))
        tables = {}
        for stream, (engine, player) in enumerate(PLAYERS.items(), start=1):
            table = tables[engine] = experiment.play(world, player(Rng([seed, stream])))
            content = _data_file(experiment, table, run_first=engine == "demo-greedy")
            archive[f"Experiments/{name}/data/{engine}.csv"] = content
        archive[f"Experiments/{name}/scores_data.csv"] = _scores_file(experiment, tables)
    # column order and byte order mark vary between files, as they do in the real archive
    marked = "Experiments/HorizonTask/data/demo-greedy.csv"
    archive[marked] = codecs.BOM_UTF8 + archive[marked]
    return archive


def write(folder: Path) -> list[Path]:
    """Write the archive under ``folder/generated/demo_archive/<revision>``, laid out as a mirror is."""
    paths = []
    for name, content in files().items():
        path = folder / "generated" / "demo_archive" / REVISION / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        paths.append(path)
    return paths
