"""Every scoring rule once more, in plain Python, from the text of a CSV file of the archive.

Nothing here comes from store, ingest, generate or models_sql. A rule turns each row that it should score
into an :class:`Answer`; an estimator turns answers into an :class:`Expected` metric. Sums are exact
(``math.fsum`` or ``Fraction``). Standard errors treat episodes as independent and rows within one as not.
"""

import csv
import io
import math
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from itertools import pairwise, product
from typing import NamedTuple

import numpy as np

Row = Mapping[str, str]

CLIP = 1e-5
TRIMMED_SHARE = Fraction(5, 100)
N_BALLOONS = 45
N_RESTLESS_TRIALS = 80
N_FORCED_TRIALS = 4


class Answer(NamedTuple):
    """One row of a rule: its episode and its value, or why it has none (``unparsed`` or ``error``)."""

    episode: str
    value: float | None
    why_not: str | None = None


@dataclass(frozen=True)
class Expected:
    """One metric: the value over what could be scored, its standard error, and the counts."""

    value_scored: float | None
    se: float | None
    n_planned: int
    n_scored: int
    n_unparsed: int
    n_error: int
    n_clusters: int

    @property
    def value(self) -> float | None:
        """The value if no planned row is missing: never a partial score."""
        return self.value_scored if self.n_scored == self.n_planned else None


# ---- cells ----


def rows_of(text: str | bytes) -> list[Row]:
    """Return the data rows of a CSV text, with or without a byte order mark."""
    decoded = text.decode("utf-8-sig") if isinstance(text, bytes) else text.removeprefix("\ufeff")
    return list(csv.DictReader(io.StringIO(decoded, newline="")))


def number(cell: str | None) -> float | None:
    """Return a finite number; None for anything else and for the archive's missing-value code -9999."""
    try:
        value = float(cell or "")
    except ValueError:
        return None
    return value if math.isfinite(value) and value != -9999 else None


def probability(cell: str | None) -> float | None:
    """Return a number in [0, 1]."""
    value = number(cell)
    return value if value is not None and 0 <= value <= 1 else None


def label(cell: str | None) -> str:
    """Return a whole number without its decimals, so that run 3 and run 3.0 are one; else the text."""
    value = number(cell)
    return str(int(value)) if value is not None and value.is_integer() else cell or ""


def arm(cell: str | None) -> str | None:
    """Return the chosen arm, 0 or 1."""
    return label(cell) if label(cell) in ("0", "1") else None


# ---- estimators ----


def by_episode(answers: Iterable[Answer]) -> dict[str, list[float]]:
    """Return the scored values of each episode that has any."""
    episodes: dict[str, list[float]] = defaultdict(list)
    for answer in answers:
        if answer.value is not None:
            episodes[answer.episode].append(answer.value)
    return dict(episodes)


def clustered_se_of_mean(episodes: Mapping[str, Sequence[float]]) -> float | None:
    """Return sqrt(G/(G-1) sum over episodes of (sum of deviations)^2) / n; None for a single episode.

    None, too, where the sums of episodes agree although the values in them differ.
    """
    n_clusters, n = len(episodes), sum(map(len, episodes.values()))
    if n_clusters < 2:
        return None
    mean = Fraction(sum(Fraction(value) for values in episodes.values() for value in values), n)
    squares = sum(
        (sum(Fraction(value) for value in values) - len(values) * mean) ** 2 for values in episodes.values()
    )
    if squares == 0 and len({value for values in episodes.values() for value in values}) > 1:
        return None
    return math.sqrt(Fraction(n_clusters, n_clusters - 1) * squares) / n


def mean(answers: Sequence[Answer], scale: float = 1, n_absent: int = 0) -> Expected | None:
    """Return the mean of the scored rows; rows that the source should have and has not are errors."""
    if not answers:
        return None
    episodes = by_episode(answers)
    values = [value for group in episodes.values() for value in group]
    se = clustered_se_of_mean(episodes)
    return Expected(
        value_scored=scale * math.fsum(values) / len(values) if values else None,
        se=None if se is None else scale * se,
        n_planned=len(answers) + n_absent,
        n_scored=len(values),
        n_unparsed=sum(answer.why_not == "unparsed" for answer in answers),
        n_error=sum(answer.why_not == "error" for answer in answers) + n_absent,
        n_clusters=len(episodes),
    )


def absent(answers: Sequence[Answer], n_per_episode: int) -> int:
    """Return how many rows the episodes fall short of their length."""
    n_rows: dict[str, int] = defaultdict(int)
    for answer in answers:
        n_rows[answer.episode] += 1
    return sum(max(n_per_episode - n, 0) for n in n_rows.values())


def percentile(values: Sequence[float], share: Fraction) -> Fraction:
    """Return the percentile with linear interpolation between its two neighbours."""
    ordered = sorted(map(Fraction, values))
    place = share * (len(ordered) - 1)
    low = ordered[math.floor(place)]
    return low + (place - math.floor(place)) * (ordered[math.ceil(place)] - low)


# ---- choices between two arms ----


def best_arms(row: Row) -> tuple[str, ...] | None:
    """Return the arms whose mean is the largest, both if they tie; None if a mean is not known."""
    means = number(row.get("mean0")), number(row.get("mean1"))
    if None in means:
        return None
    return tuple(str(i) for i, each in enumerate(means) if each == max(means))


def credited_choice(row: Row, credited: tuple[str, ...] | None, *, is_sound: bool) -> Answer:
    """Return 1 for a credited choice, 0 for another, and a reason for one that cannot be judged."""
    choice, run = arm(row["choice"]), label(row["run"])
    if choice is None:
        return Answer(run, None, "unparsed")
    if credited is None or not is_sound:
        return Answer(run, None, "error")
    return Answer(run, float(choice in credited))


def rewards(rows: Iterable[Row]) -> list[Answer]:
    """Return what the environment paid, whatever the agent wrote."""
    return [
        Answer(label(row["run"]), reward, None if reward is not None else "error")
        for row in rows
        for reward in [number(row["reward"])]
    ]


def horizon(text: str | bytes) -> dict[str, Expected | None]:
    """Games with four forced trials: the choices after those, what they earned, and every reward."""
    rows = rows_of(text)
    choices = []
    free_rows = []
    for row in rows:
        trial = number(row["trial"])
        if trial is None or trial >= N_FORCED_TRIALS:
            is_sound = trial is not None and number(row["reward"]) is not None
            choices.append(credited_choice(row, best_arms(row), is_sound=is_sound))
            free_rows.append(row)
    n_free: dict[str, int] = defaultdict(int)
    for row in free_rows:
        n_free[label(row["run"])] += 1
    earned = rewards(free_rows)
    return {
        "optimal_choice": mean(choices, scale=100),
        "mean_reward": mean(rewards(rows)),
        "mean_reward_free": mean(earned),
        # games are of one free choice or of six
        **{
            f"mean_reward_horizon_{n}": mean([answer for answer in earned if n_free[answer.episode] == n])
            for n in (1, 6)
        },
    }


def instrumental(text: str | bytes) -> dict[str, Expected | None]:
    """Interleaved casinos; (run, trial) may repeat, and some files do not know the means."""
    rows = rows_of(text)
    choices = [
        credited_choice(row, best_arms(row), is_sound=number(row["reward"]) is not None) for row in rows
    ]
    return {"better_action": mean(choices, scale=100), "mean_reward": mean(rewards(rows))}


# ---- restless bandit ----


def restless(text: str | bytes) -> dict[str, Expected | None]:
    """80 trials a run; the file says whether each choice was right."""
    rows = rows_of(text)
    better: list[Answer] = []
    quadratic: list[Answer] = []
    adjusted: list[Answer] = []
    confidences: list[Answer] = []
    ranges = confidence_ranges(rows)
    for row in rows:
        run, confidence = label(row["run"]), probability(row["confidence"])
        is_right = {0.0: 0.0, 1.0: 1.0}.get(number(row["accurate"]))
        why_not = None
        if arm(row["choice"]) is None:
            why_not = "unparsed"
        elif number(row["reward"]) is None or is_right is None:
            why_not = "error"
        better.append(Answer(run, None if why_not else is_right, why_not))
        why_not = why_not or (None if confidence is not None else "unparsed")
        quadratic.append(quadratic_score(run, is_right, confidence, why_not))
        scaled = None if confidence is None else min_max_scaled(confidence, *ranges[run])
        adjusted.append(quadratic_score(run, is_right, scaled, why_not))
        confidences.append(Answer(run, confidence, None if confidence is not None else "unparsed"))
    n_absent = absent(better, N_RESTLESS_TRIALS)
    return {
        "better_arm": mean(better, scale=100, n_absent=n_absent),
        "mean_reward": mean(rewards(rows), n_absent=n_absent),
        "quadratic_score": mean(quadratic, n_absent=n_absent),
        "adjusted_quadratic_score": mean(adjusted, n_absent=n_absent),
        "mean_confidence": mean(confidences, n_absent=n_absent),
    }


def quadratic_score(
    run: str, is_right: float | None, confidence: float | None, why_not: str | None
) -> Answer:
    """Return 1 - (right - confidence)^2."""
    if why_not or is_right is None or confidence is None:
        return Answer(run, None, why_not)
    return Answer(run, 1 - (is_right - confidence) ** 2)


def confidence_ranges(rows: Iterable[Row]) -> dict[str, tuple[float, float]]:
    """Return the lowest and the highest confidence of each run that reports any."""
    reported: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        confidence = probability(row["confidence"])
        if confidence is not None:
            reported[label(row["run"])].append(confidence)
    return {run: (min(values), max(values)) for run, values in reported.items()}


def min_max_scaled(value: float, lowest: float, highest: float) -> float:
    """Scale to the range of the run; a run with one confidence throughout has none and keeps it."""
    return (value - lowest) / (highest - lowest) if highest > lowest else value


# ---- balloons ----


def bart(text: str | bytes) -> dict[str, Expected | None]:
    """45 balloons a run; pumps as written, and those of the balloons that were banked."""
    rows = rows_of(text)
    pumped: list[Answer] = []
    banked: list[Answer] = []
    for row in rows:
        pumps, maximum = number(row["pumps"]), number(row["max_pumps"])
        why_not = None
        if pumps is None or not 0 <= pumps <= (math.inf if maximum is None else maximum):
            why_not = "unparsed"
        elif number(row["reward"]) is None or maximum is None or row["exploded"] not in ("True", "False"):
            why_not = "error"
        answer = Answer(label(row["run"]), None if why_not else pumps, why_not)
        pumped.append(answer)
        # a balloon of which nobody knows whether it was banked may have been
        if row["exploded"] != "True":
            banked.append(answer)
    n_absent = absent(pumped, N_BALLOONS)
    return {
        "mean_reward": mean(rewards(rows), n_absent=n_absent),
        "mean_pumps": mean(pumped, n_absent=n_absent),
        "mean_pumps_banked": mean(banked),
    }


# ---- urns ----


@dataclass(frozen=True)
class Urn:
    """One question and its report; ``likelihood`` is that of the drawn colour in the left urn."""

    run: str
    prior: float | None
    likelihood: float | None
    report: float | None
    is_sound: bool

    @property
    def posterior(self) -> float | None:
        """Exact Bayes on the visible information; None if that is impossible or cannot be read."""
        if not self.is_sound:
            return None
        left = Fraction(self.prior) * Fraction(self.likelihood)
        right = (1 - Fraction(self.prior)) * (1 - Fraction(self.likelihood))
        return float(left / (left + right)) if left + right else None

    @property
    def clipped(self) -> float | None:
        """The report moved into [1e-5, 1 - 1e-5]."""
        return None if self.report is None else min(max(self.report, CLIP), 1 - CLIP)


def urns_of(text: str | bytes, *, is_human: bool) -> list[Urn]:
    """Read questions; model files give the likelihood of red, the human file that of the drawn colour."""
    urns = []
    for row in rows_of(text):
        prior, red = probability(row["prior"]), probability(row["lh"])
        colour = row["red_observation"]
        is_sound = prior is not None and red is not None and colour in ("True", "False")
        drawn = red
        if not is_human and colour != "True":
            drawn = 1 - red if red is not None and colour == "False" else None
        urns.append(Urn(label(row["run"]), prior, drawn, number(row["left_pred"]), is_sound))
    return urns


def urn(text: str | bytes, *, is_human: bool = False) -> dict[str, Expected | None]:
    """Reports of a posterior: strict, clipped, trimmed, and what they weigh."""
    urns = urns_of(text, is_human=is_human)
    strict, clipped = [], []
    for each in urns:
        posterior = each.posterior
        if posterior is None:
            strict.append(Answer(each.run, None, "error"))
            clipped.append(Answer(each.run, None, "error"))
            continue
        is_legal = each.report is not None and 0 <= each.report <= 1
        strict.append(
            Answer(each.run, abs(each.report - posterior)) if is_legal else Answer(each.run, None, "unparsed")
        )
        clipped.append(
            Answer(each.run, None, "unparsed")
            if each.clipped is None
            else Answer(each.run, 1 - abs(posterior - each.clipped))
        )
    return {
        "posterior_mae": mean(strict),
        "posterior_score": mean(clipped),
        "posterior_score_trimmed": trimmed_mean(clipped),
        **belief_weights(urns),
    }


def trimmed_mean(scores: Sequence[Answer]) -> Expected | None:
    """Mean of the scores whose error lies strictly below the 95th percentile of the errors.

    Its standard error is that of the Winsorised scores, over the share that is kept (Tukey and McLaughlin,
    1963).
    """
    scored = [score for score in scores if score.value is not None]
    if not scored:
        return mean(scores)
    cut = percentile([score.value for score in scored], TRIMMED_SHARE)
    # a report that has no score stays missing
    kept = mean([score for score in scores if score.value is None or score.value > cut])
    if kept is None:
        return None
    whole = mean([Answer(score.episode, max(score.value, cut)) for score in scored])
    is_spread = kept.n_scored > 0 and whole.se is not None
    se = whole.se * whole.n_scored / kept.n_scored if is_spread else None
    return replace(kept, se=se, n_clusters=whole.n_clusters)


def logit(p: float) -> float:
    """Return the log odds; infinite at 0 and 1."""
    if p in (0, 1):
        return math.inf if p else -math.inf
    return math.log(p / (1 - p))


def belief_weights(urns: Sequence[Urn]) -> dict[str, Expected | None]:
    """Least squares without an intercept: report logit on prior logit and likelihood logit."""
    names = ("prior_weight", "likelihood_weight", "weight_difference", "weight_ratio")
    if not urns:
        return dict.fromkeys(names)
    usable: list[tuple[str, float, float, float]] = []
    for each in urns:
        if None not in (each.prior, each.likelihood, each.clipped):
            logits = logit(each.prior), logit(each.likelihood), logit(each.clipped)
            if all(map(math.isfinite, logits)):
                usable.append((each.run, *logits))
    solution = least_squares(usable)
    n_clusters = len({run for run, *_ in usable})

    def expected(value: float | None, variance: float | None) -> Expected:
        return Expected(
            value_scored=value,
            se=None if variance is None else math.sqrt(variance),
            n_planned=len(urns),
            n_scored=len(usable),
            n_unparsed=len(urns) - len(usable),
            n_error=0,
            n_clusters=n_clusters,
        )

    if solution is None:
        return {name: expected(None, None) for name in names}
    (prior, likelihood), covariance = solution
    ratio = prior / likelihood
    gradients = {
        "prior_weight": (1, 0),
        "likelihood_weight": (0, 1),
        "weight_difference": (1, -1),
        # delta method
        "weight_ratio": (1 / likelihood, -ratio / likelihood),
    }
    values = dict(zip(names, (prior, likelihood, prior - likelihood, ratio), strict=True))
    return {
        name: expected(
            values[name],
            None if covariance is None else max(float(np.array(g) @ covariance @ np.array(g)), 0.0),
        )
        for name, g in gradients.items()
    }


def least_squares(
    usable: Sequence[tuple[str, float, float, float]],
) -> tuple[tuple[float, float], np.ndarray | None] | None:
    """Solve the normal equations in exact arithmetic; None if the two predictors are proportional.

    The covariance is the cluster sandwich with the factor G/(G-1); None for a single cluster, and where
    reports differ and all follow exactly.
    """
    exact = [(run, Fraction(x), Fraction(z), Fraction(y)) for run, x, z, y in usable]
    xx = sum(x * x for _, x, _, _ in exact)
    xz = sum(x * z for _, x, z, _ in exact)
    zz = sum(z * z for _, _, z, _ in exact)
    xy = sum(x * y for _, x, _, y in exact)
    zy = sum(z * y for _, _, z, y in exact)
    determinant = xx * zz - xz * xz
    # logits are rounded, so that proportional ones leave a remainder
    if determinant <= Fraction(1, 10**12) * xx * zz:
        return None
    prior, likelihood = (zz * xy - xz * zy) / determinant, (xx * zy - xz * xy) / determinant
    pulls: dict[str, np.ndarray] = defaultdict(lambda: np.zeros(2))
    yy = sum(y * y for *_, y in exact)
    is_exact = True
    for run, x, z, y in exact:
        residual = y - prior * x - likelihood * z
        # logits are rounded
        is_exact &= residual * residual <= yy / 10**24
        pulls[run] += np.array([float(x * residual), float(z * residual)])
    covariance = None
    if len(pulls) > 1 and not (is_exact and len({y for *_, y in exact}) > 1):
        bread = np.array([[float(zz), float(-xz)], [float(-xz), float(xx)]]) / float(determinant)
        meat = sum(np.outer(pull, pull) for pull in pulls.values())
        covariance = len(pulls) / (len(pulls) - 1) * bread @ meat @ bread
    return (float(prior), float(likelihood)), covariance


# ---- two-step task ----

# readout -> weight of its mean: least squares with -1/+1 coding gives a quarter of each difference
STAY_CONTRAST = {
    (True, True): Fraction(1, 4),
    (True, False): Fraction(-1, 4),
    (False, True): Fraction(-1, 4),
    (False, False): Fraction(1, 4),
}


class Stay(NamedTuple):
    """A trial that has a next one in its run: what it was like, and whether the choice was made again."""

    run: str
    is_common: bool
    is_rewarded: bool
    is_stay: bool


def stays_of(text: str | bytes) -> list[Stay]:
    """Pair consecutive rows of one run label, in file order.

    A choice counts as it is written. A missing one is a switch, and its trial a rare transition.
    """
    runs: dict[str, list[Row]] = defaultdict(list)
    for row in rows_of(text):
        runs[label(row["run"])].append(row)
    return [
        Stay(
            run=run,
            is_common=bool(here["action1"]) and here["action1"] == here["state"],
            is_rewarded=(number(here["reward"]) or 0) > 0,
            is_stay=bool(here["action1"]) and here["action1"] == following["action1"],
        )
        for run, rows in runs.items()
        for here, following in pairwise(rows)
    ]


def stay_interaction(stays: Sequence[Stay]) -> Expected | None:
    """Interaction of reward and common transition on staying; none if a combination did not occur."""
    if not stays:
        return None
    cells: dict[tuple[bool, bool], list[Stay]] = defaultdict(list)
    for stay in stays:
        cells[stay.is_common, stay.is_rewarded].append(stay)
    means = {cell: Fraction(sum(s.is_stay for s in members), len(members)) for cell, members in cells.items()}
    is_whole = len(cells) == len(STAY_CONTRAST)
    pulls: dict[str, Fraction] = defaultdict(Fraction)
    for cell, members in cells.items():
        for stay in members:
            pulls[stay.run] += STAY_CONTRAST[cell] * (stay.is_stay - means[cell]) / len(members)
    n_clusters = len(pulls)
    se = None
    squares = sum(pull**2 for pull in pulls.values())
    if is_whole and n_clusters > 1 and (squares > 0 or len({stay.is_stay for stay in stays}) == 1):
        se = math.sqrt(Fraction(n_clusters, n_clusters - 1) * squares)
    return Expected(
        value_scored=float(sum(STAY_CONTRAST[cell] * means[cell] for cell in cells)) if is_whole else None,
        se=se,
        n_planned=len(stays),
        n_scored=len(stays),
        n_unparsed=0,
        n_error=0,
        n_clusters=n_clusters,
    )


def two_step(text: str | bytes) -> dict[str, Expected | None]:
    """Reward of every trial, and what a reward does to the next first-stage choice."""
    return {
        "mean_reward": mean(rewards(rows_of(text))),
        "stay_interaction": stay_interaction(stays_of(text)),
    }


# ---- temporal discounting ----

READOUTS = {
    "discounting_score": "score",
    "present_bias": "present bias",
    "subadditivity": "subaddictivity",
    "delay_speedup_asymmetry": "delay-speedup asymmetry-1",
    "delay_length_asymmetry": "delay-length asymmetry-2",
}


def discounting(text: str | bytes) -> dict[str, Expected | None]:
    """Finished readouts, one row a run, averaged as they are."""
    rows = rows_of(text)
    return {
        metric: mean(
            [
                Answer(label(row["run"]), value, None if value is not None else "unparsed")
                for row in rows
                for value in [number(row[column])]
            ]
        )
        for metric, column in READOUTS.items()
    }


# experiment -> (Table 3 row, its metrics)
Oracle = Callable[[str | bytes], Mapping[str, Expected | None]]
EXPERIMENTS: Mapping[str, tuple[str, Oracle]] = {
    "BART": ("bart", bart),
    "HorizonTask": ("horizon_autonomous", horizon),
    "InstrumentalLearning": ("instrumental_learning", instrumental),
    "ProbabilisticReasoning": ("bayesian_urn", urn),
    "RestlessBandit": ("restless_bandit", restless),
    "TemporalDiscounting": ("temporal_discounting", discounting),
    "TwoStepTask": ("two_step", two_step),
}


def metrics_of(experiment: str, engine: str, text: str | bytes) -> dict[str, Expected]:
    """Return every metric that a data file has rows for."""
    _, rule = EXPERIMENTS[experiment]
    is_human_urn = experiment == "ProbabilisticReasoning" and engine == "human"
    metrics = urn(text, is_human=True) if is_human_urn else rule(text)
    return {name: expected for name, expected in metrics.items() if expected is not None}


# ---- uniform agents ----


def weighted_mean(values: Sequence[Fraction | float], weights: Sequence[float] | None = None) -> float:
    """Return the mean of exact values by weight."""
    weights = [1.0] * len(values) if weights is None else weights
    pairs = [(Fraction(value), Fraction(weight)) for value, weight in zip(values, weights, strict=True)]
    return float(sum(value * weight for value, weight in pairs) / sum(weight for _, weight in pairs))


def uniform_nll(n_legal: int) -> float:
    """Expected negative log-likelihood of a response, in nats, if every option has 1/k."""
    return math.log(n_legal)


def uniform_credited_pct(n_legal: int, n_credited: int = 1) -> Fraction:
    """Expected share of credited choices, in percent."""
    return Fraction(100 * n_credited, n_legal)


def uniform_interval_error(target: float, low: float, high: float) -> Fraction:
    """Expected distance from the target of a report anywhere in [low, high]: two triangles over the width."""
    t, a, b = map(Fraction, (target, low, high))
    if not a <= t <= b:
        return abs(t - (a + b) / 2)
    return ((t - a) ** 2 / 2 + (b - t) ** 2 / 2) / (b - a)


def uniform_grid_error(target: float, low: float, high: float, spacing: float = 1) -> Fraction:
    """Expected distance from the target of a report at one of low, low + spacing, ..., high."""
    point, points = Fraction(low), []
    while point <= Fraction(high):
        points.append(point)
        point += Fraction(spacing)
    return sum((abs(Fraction(target) - point) for point in points), Fraction()) / len(points)


class Balloon(NamedTuple):
    """What uniform decisions are expected to earn with one balloon, and how often they pump it."""

    reward: Fraction
    pumps: Fraction


def uniform_balloon(maximum: int) -> Balloon:
    """Skip or inflate with one half each; the balloon holds k pumps in (M - k)/M of all cases."""
    holds = [Fraction(maximum - k, maximum) for k in range(maximum)]
    return Balloon(
        reward=sum((k * Fraction(1, 2 ** (k + 1)) * holds[k] for k in range(maximum)), Fraction()),
        pumps=sum((Fraction(1, 2 ** (k + 1)) * holds[k] for k in range(maximum)), Fraction()),
    )


Known = tuple["Known", ...] | None
"""A node and what is known below it: None if it is not known itself, else its children."""

Distribution = Mapping[Fraction, Fraction]


class Tree(NamedTuple):
    """What uniform choices earn on a planning tree, in how many reveals, over how many known-node sets."""

    expected_return: Fraction
    reveals: Fraction
    n_known_sets: int


def uniform_tree(branching: Sequence[int], node_values: Sequence[float]) -> Tree:
    """STOP and every open node are equally likely: dynamic programming over all sets of known nodes."""
    values = tuple(map(Fraction, node_values))
    layer: dict[Known, Fraction] = {(None,) * branching[0]: Fraction(1)}
    expected_return, reveals, n_known_sets = Fraction(), Fraction(), 0
    depth = 0
    while layer:
        following: dict[Known, Fraction] = defaultdict(Fraction)
        for known, probability in layer.items():
            onward = list(_reveals(known, tuple(branching[1:])))
            stop = probability / (1 + len(onward))
            expected_return += stop * _mean(_best_below(known, tuple(branching), values))
            reveals += stop * depth
            n_known_sets += 1
            for more in onward:
                following[more] += stop
        layer, depth = dict(following), depth + 1
    return Tree(expected_return, reveals, n_known_sets)


def _reveals(children: Known, branching: tuple[int, ...]) -> list[Known]:
    """Return what can be known after one more reveal; ``branching`` is that below the children."""
    onward: list[Known] = []
    for place, child in enumerate(children):
        if child is None:
            more: list[Known] = [(None,) * branching[0] if branching else ()]
        else:
            more = _reveals(child, branching[1:])
        onward += [(*children[:place], one, *children[place + 1 :]) for one in more]
    return onward


@cache
def _best_below(children: Known, branching: tuple[int, ...], values: tuple[Fraction, ...]) -> Distribution:
    """Distribution of the best path that starts at one of the children."""
    paths = []
    for child in children:
        if child is None:
            # whatever lies below it is not known either: every path counts at the mean
            paths.append({sum(values) / len(values) * len(branching): Fraction(1)})
        else:
            below = _best_below(child, branching[1:], values) if child else {Fraction(): Fraction(1)}
            paths.append(_sum({v: Fraction(values.count(v), len(values)) for v in values}, below))
    best: Distribution = paths[0]
    for other in paths[1:]:
        best = _maximum(best, other)
    return best


def _sum(one: Distribution, other: Distribution) -> Distribution:
    total: dict[Fraction, Fraction] = defaultdict(Fraction)
    for (a, p), (b, q) in product(one.items(), other.items()):
        total[a + b] += p * q
    return dict(total)


def _maximum(one: Distribution, other: Distribution) -> Distribution:
    largest: dict[Fraction, Fraction] = defaultdict(Fraction)
    for (a, p), (b, q) in product(one.items(), other.items()):
        largest[max(a, b)] += p * q
    return dict(largest)


def _mean(distribution: Distribution) -> Fraction:
    return sum((value * probability for value, probability in distribution.items()), Fraction())


def uniform_tree_by_play(branching: Sequence[int], node_values: Sequence[float]) -> Tree:
    """The same for small trees, without the above: every order of reveals on every tree there can be."""
    nodes: list[tuple[int, ...]] = []
    fringe: list[tuple[int, ...]] = [()]
    for width in branching:
        fringe = [(*node, child) for node in fringe for child in range(width)]
        nodes += fringe
    ways = [[leaf[:n] for n in range(1, len(leaf) + 1)] for leaf in fringe]
    center = Fraction(sum(map(Fraction, node_values)), len(node_values))
    seen: set[frozenset[tuple[int, ...]]] = set()

    def play(
        known: frozenset[tuple[int, ...]], tree: Mapping[tuple[int, ...], Fraction]
    ) -> tuple[Fraction, Fraction]:
        seen.add(known)
        score = max(sum(tree[node] if node in known else center for node in way) for way in ways)
        played = [
            play(known | {node}, tree)
            for node in nodes
            if node not in known and (len(node) == 1 or node[:-1] in known)
        ]
        share = Fraction(1, 1 + len(played))
        return (
            share * (score + sum(earned for earned, _ in played)),
            share * sum(1 + more for _, more in played),
        )

    trees = list(product(map(Fraction, node_values), repeat=len(nodes)))
    played = [play(frozenset(), dict(zip(nodes, tree, strict=True))) for tree in trees]
    return Tree(
        Fraction(sum(earned for earned, _ in played), len(trees)),
        Fraction(sum(more for _, more in played), len(trees)),
        len(seen),
    )


# ---- card sorting ----


class Sorted(NamedTuple):
    """One trial: the dimension that rules, the key card that matches on each dimension, the card chosen."""

    rule: int
    cards: tuple[int, ...]
    chosen: int | None

    @property
    def category(self) -> int | None:
        """The dimension on which the chosen card alone matches; None if it is none or several."""
        matched = [dimension for dimension, card in enumerate(self.cards) if card == self.chosen]
        return matched[0] if len(matched) == 1 else None

    @property
    def is_wrong(self) -> bool:
        """Whether the card was not sorted by the rule."""
        return self.category != self.rule


def perseverates(before: Sorted, now: Sorted) -> bool:
    """Wrong in the category that was wrong already."""
    return before.is_wrong and now.is_wrong and now.category == before.category


def loses_set(before: Sorted, now: Sorted) -> bool:
    """Wrong, after a right choice, in another category."""
    return not before.is_wrong and now.is_wrong and now.category != before.category


def card_errors(
    episodes: Mapping[str, Sequence[Sorted]], is_error: Callable[[Sorted, Sorted], bool]
) -> Expected | None:
    """Share of transitions that are such an error, in percent; a transition needs a choice at both ends."""
    answers = [
        Answer(episode, None, "unparsed")
        if None in (before.chosen, now.chosen)
        else Answer(episode, float(is_error(before, now)))
        for episode, trials in episodes.items()
        for before, now in pairwise(trials)
    ]
    return mean(answers, scale=100)


def uniform_card_error(
    before: Sorted, now: Sorted, n_cards: int, is_error: Callable[[Sorted, Sorted], bool]
) -> Fraction:
    """Share of all pairs of choices that are such an error."""
    pairs = list(product(range(1, n_cards + 1), repeat=2))
    errors = sum(is_error(before._replace(chosen=a), now._replace(chosen=b)) for a, b in pairs)
    return Fraction(errors, len(pairs))


# ---- what an engine makes of the legal options ----


def human_nll(logprobs: Mapping[str, float], response: str) -> float:
    """Negative log-likelihood of a response among the options that are there, in nats."""
    highest = max(logprobs.values())
    total = math.fsum(math.exp(logprob - highest) for logprob in logprobs.values())
    return math.log(total) + highest - logprobs[response]


def credited_of_likeliest(logprobs: Mapping[str, float], credited: Sequence[str]) -> Fraction:
    """Share of the likeliest options that are credited."""
    likeliest = [option for option, logprob in logprobs.items() if logprob == max(logprobs.values())]
    return Fraction(sum(option in credited for option in likeliest), len(likeliest))


class Judged(NamedTuple):
    """What one row of a rule is worth, or why it is worth nothing."""

    value: float | None
    why_not: str | None = None


class Weighed(NamedTuple):
    """One row of a rule with its cluster and weight."""

    cluster: str
    judged: Judged
    weight: float


def likelihood(
    legal: Sequence[str] | None, given: Mapping[str, float | None], response: str, *, is_renormalised: bool
) -> Judged:
    """Judge one response, in nats: minus the log of what it was given, of all or of all that is legal."""
    sound = _sound(legal, given)
    if isinstance(sound, str):
        return Judged(None, sound)
    if response not in sound:
        return Judged(None, "error")
    return Judged(human_nll(sound, response) if is_renormalised else 0 - sound[response])


def predicted_choice(
    legal: Sequence[str] | None, given: Mapping[str, float | None], written: str | None, response: str
) -> Judged:
    """Judge by the likeliest legal options, or by what was written where nothing was said of them."""
    if legal and not set(given) & set(legal):
        choice = (written or "").strip()
        if choice not in legal:
            return Judged(None, "unparsed")
        return Judged(float(choice == response)) if response in legal else Judged(None, "error")
    sound = _sound(legal, given)
    if isinstance(sound, str):
        return Judged(None, sound)
    return (
        Judged(float(credited_of_likeliest(sound, [response])))
        if response in sound
        else Judged(None, "error")
    )


def credited_probability(
    legal: Sequence[str] | None, given: Mapping[str, float | None], credited: Sequence[str] | None
) -> Judged:
    """Judge by what all credited options together have of what is legal."""
    sound = _sound(legal, given)
    if isinstance(sound, str):
        return Judged(None, sound)
    if credited is None:
        return Judged(None, "error")
    return Judged(math.fsum(math.exp(-human_nll(sound, option)) for option in credited if option in sound))


def _sound(legal: Sequence[str] | None, given: Mapping[str, float | None]) -> dict[str, float] | str:
    """Return what every legal option was given, or why that is not known."""
    if not legal:
        return "error"
    sound: dict[str, float] = {}
    for option in legal:
        logprob = given.get(option)
        if logprob is None or math.isnan(logprob) or logprob == math.inf:
            return "missing_option"
        sound[option] = logprob
    return "error" if max(sound.values()) == -math.inf else sound


def weighed(rows: Sequence[Weighed], scale: float = 1) -> dict[str, float | int | None]:
    """Return the weighted mean of what could be judged, its standard error by clusters, and the counts."""
    scored = [(row.cluster, row.judged.value, row.weight) for row in rows if row.judged.value is not None]
    values, weights = [value for _, value, _ in scored], [weight for _, _, weight in scored]
    n_infinite = sum(math.isinf(value) for value in values)
    mean = math.inf if n_infinite else weighted_mean(values, weights) if values else None
    clusters = {cluster for cluster, _, _ in scored}
    se = None
    if len(clusters) > 1 and not n_infinite and mean is not None:
        pulls: dict[str, Fraction] = defaultdict(Fraction)
        for cluster, value, weight in scored:
            pulls[cluster] += Fraction(weight) * (Fraction(value) - Fraction(mean))
        squares = float(sum(pull**2 for pull in pulls.values()))
        se = scale * math.sqrt(len(clusters) / (len(clusters) - 1) * squares) / math.fsum(weights)
    reasons = [row.judged.why_not for row in rows]
    return {
        "value_scored": None if mean is None else scale * mean,
        "se": se,
        "n_planned": len(rows),
        "n_scored": len(scored),
        "n_clusters": len(clusters),
        "n_infinite": n_infinite,
        **{f"n_{name}": reasons.count(name) for name in ("unparsed", "error", "too_long", "missing_option")},
    }


# ---- printing ----


# ---- what a written answer says ----


def options_named(text: str, options: Sequence[str]) -> list[str]:
    """Return the options that a text without spaces around it names, in their order."""
    if text in options:
        return [text]
    for fold in (str, _small):
        named = [option for option in options if _occurs(fold(text), fold(option))]
        if named:
            return named
    return []


def _small(text: str) -> str:
    """Write capitals small, letter by letter: a sharp s stays one letter."""
    return "".join(letter.lower() for letter in text)


def _occurs(text: str, option: str) -> bool:
    return any(
        text.startswith(option, at) and not _goes_on(text, option, at)
        for at in range(len(text) - len(option) + 1)
    )


def _goes_on(text: str, option: str, at: int) -> bool:
    """Tell whether the word or the number that an option is found in is longer than the option."""
    before, after = text[:at], text[at + len(option) :]
    if (before and _is_of_a_word(before[-1])) or (after and _is_of_a_word(after[0])):
        return True
    if option[0].isdecimal() and before:
        head, mark = before[:-1], before[-1]
        if mark in ".," and head and head[-1].isdecimal():
            return True
        if mark in "+-" and not (head and _is_of_a_word(head[-1])):
            return True
    return option[-1].isdecimal() and len(after) > 1 and after[0] in ".," and after[1].isdecimal()


def _is_of_a_word(letter: str) -> bool:
    return letter == "_" or unicodedata.category(letter)[0] in "LN"


_SIGNS = "+-−"
_DIGITS = "0123456789"


def number_read(text: str) -> tuple[float | None, bool]:
    """Return the one number that a text holds, and whether it holds any.

    Letter by letter: a word swallows the digits in it, and a number what is joined to it.
    """
    found: list[float | None] = []
    at = 0
    while at < len(text):
        start = at
        if text.startswith("..", at):
            at += len(text[at:]) - len(text[at:].lstrip("."))
        elif _is_letter(text[at]):
            at = _end_of_joined(text, at + 1, ".'’-")
        elif (first := _first_digit(text, at)) is not None:
            at = _end_of_joined(text, first + 1, ".,/:^*×=+-−–—")
            written = text[start:at]
            if (number := _as_number(written)) is not None:
                found.append(number)
            elif not any(_is_of_a_word(letter) and letter not in _DIGITS for letter in written) and not any(
                unicodedata.category(letter)[0] == "M" for letter in written
            ):
                found.append(None)
        else:
            at += 1
    one = found[0] if found and None not in found and len(set(found)) == 1 else None
    return one, bool(found)


def _is_letter(letter: str) -> bool:
    return letter == "_" or unicodedata.category(letter)[0] == "L"


def _first_digit(text: str, at: int) -> int | None:
    """Return where the first digit of a number stands that begins here; None if none does."""
    at += text[at] in _SIGNS
    at += text[at : at + 1] == "."
    return at if text[at : at + 1] and text[at] in _DIGITS else None


def _end_of_joined(text: str, at: int, joints: str) -> int:
    """Return where a run of letters and digits ends, with all that the joints join to it."""
    while at < len(text):
        if _is_of_a_word(text[at]) or unicodedata.category(text[at])[0] == "M":
            at += 1
        elif text[at] in joints and text[at + 1 : at + 2] and _is_of_a_word(text[at + 1]):
            at += 2
        else:
            break
    return at


def _as_number(written: str) -> float | None:
    """Return a number that is written in digits, one point, one sign and one exponent at most."""
    unsigned = written[1:] if written[0] in _SIGNS else written
    mantissa, *exponents = unsigned.replace("E", "e").split("e")
    whole, *decimals = mantissa.split(".")
    power = exponents[0][1:] if exponents and exponents[0][:1] in tuple(_SIGNS) else "".join(exponents)
    is_number = (
        len(exponents) <= 1
        and len(decimals) <= 1
        and all(letter in _DIGITS for letter in whole + "".join(decimals) + power)
        and all(decimals)
        and bool(whole or decimals)
        and (not exponents or bool(power))
    )
    return float(written.replace("−", "-")) if is_number else None


def printed(value: float | None, decimals: int) -> str | None:
    """Print as C does: the exact binary value, rounded once, ties to even."""
    if value is None or math.isnan(value) or value == -math.inf:
        return None
    return "+∞" if value == math.inf else f"{value:.{decimals}f}"


# ---- CogniRank ----

BLANKS = " \t"
LINE_ENDS = "\r\n"
QUOTES = {'"': '"', "'": "'", "`": "`", "“": "”", "‘": "’"}


def answer_match(
    answer_format: str, response: str, credited: Sequence[str], choices: Sequence[str] = ()
) -> int:
    """Credit of an answer in words: 1 if it is an accepted one in its format, else 0."""
    said = response.strip(BLANKS + LINE_ENDS)
    accepted = [text.strip(BLANKS + LINE_ENDS) for text in credited]
    line = _first_line(said)
    if answer_format == "choice":
        named = options_named(line, choices)
        return int(len(named) == 1 and named[0] in accepted)
    if answer_format == "integer":
        number, _ = number_read(line)
        return int(number is not None and number in [int(text) for text in accepted])
    if answer_format == "word":
        return int(not set(map(_spelling, _words(line))).isdisjoint(map(_spelling, accepted)))
    if answer_format == "text":
        return int(_running_text(said) in map(_running_text, accepted))
    laid_out = {"action": _action, "steps": _steps, "grid": _grid}[answer_format]
    read = line if answer_format == "action" else said
    return int(_spelling(laid_out(read)) in [_spelling(laid_out(text)) for text in accepted])


def _first_line(text: str) -> str:
    return text.replace("\r", "\n").split("\n")[0].strip(BLANKS)


def _spelling(text: str) -> str:
    return unicodedata.normalize("NFC", text.replace("\0", "\N{REPLACEMENT CHARACTER}"))


def _words(line: str) -> Iterable[str]:
    """Yield what a line may stand for, with a stop and quotes taken off or left."""
    for first in (_bare, _unstopped, _unquoted):
        for second in (_bare, _unstopped, _unquoted):
            if first is not second or first is _bare:
                yield second(first(line))


def _bare(text: str) -> str:
    return text


def _unstopped(text: str) -> str:
    return text.removesuffix(".")


def _unquoted(text: str) -> str:
    is_quoted = len(text) > 1 and QUOTES.get(text[0]) == text[-1]
    return text[1:-1] if is_quoted else text


def _running_text(text: str) -> str:
    spaced = "".join(
        " " if letter in "\t\n\v\f\r\x85" or unicodedata.category(letter)[0] == "Z" else letter
        for letter in text
    )
    # the small form of a dotted capital I is one letter
    letters = ("i" if letter == "İ" else letter.lower() for letter in _spelling(spaced))
    return _spelling(" ".join(filter(None, "".join(letters).split(" "))))


def _lines(text: str) -> list[str]:
    """Return the lines up to the first blank one, without spaces around them."""
    lines = [line.strip(BLANKS) for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n")]
    return lines[: lines.index("", 1)] if "" in lines[1:] else lines


def _grid(text: str) -> str:
    return "\n".join(" ".join(filter(None, line.replace("\t", " ").split(" "))) for line in _lines(text))


def _steps(text: str) -> str:
    return "\n".join(_action(_unnumbered(line)) for line in _lines(text))


def _unnumbered(line: str) -> str:
    rest = line.lstrip(_DIGITS)
    is_numbered = rest != line and rest[:1] in tuple(".)") and rest[1:2] in tuple(BLANKS)
    return rest[1:].lstrip(BLANKS) if is_numbered else line


def _action(line: str) -> str:
    """Take off backticks, and spaces beside brackets and commas, from left to right."""
    if len(line) > 1 and line[0] == line[-1] == "`":
        line = line[1:-1]
    kept = ""
    at = 0
    while at < len(line):
        closing = line.find('"', at + 1) if line[at] == '"' else -1
        if closing > 0:
            kept += line[at : closing + 1]
            at = closing + 1
        elif line[at] in "(),":
            kept = kept.rstrip(BLANKS) + line[at]
            at += 1 + len(line[at + 1 :]) - len(line[at + 1 :].lstrip(BLANKS))
        else:
            kept += line[at]
            at += 1
    return kept


class Given(NamedTuple):
    """One option that an engine gave a log-probability, in nats, and how long it is."""

    option: str
    nats: float | None
    n_tokens: int | None
    n_characters: int | None
    n_bytes: int | None


LENGTHS: dict[str, Callable[[Given], int | None]] = {
    "token": lambda given: given.n_tokens,
    "sum": lambda given: 1,
    "character": lambda given: given.n_characters,
    "byte": lambda given: given.n_bytes,
}


def normalised_likelihood(
    options: Sequence[Given], credited: str, readout: str, *, is_merged: bool = False
) -> tuple[Fraction | None, str]:
    """Credit of the likeliest options by one length, and the status; probability 0 is a number, too."""
    numbers = {given.option: _log_probability(given.nats) for given in options}
    if len(numbers) < len(options):
        return None, "error"
    if None in numbers.values():
        return None, "missing_option"
    possible = {option: Fraction(nats) for option, nats in numbers.items() if nats not in (None, -math.inf)}
    if credited not in numbers:
        return None, "error"
    lengths = {given.option: LENGTHS[readout](given) for given in options}
    if not possible or (is_merged and readout != "sum") or not all(lengths.values()):
        return None, "error"
    quotients = {option: nats / (lengths[option] or 1) for option, nats in possible.items()}
    best = [option for option, quotient in quotients.items() if quotient == max(quotients.values())]
    return Fraction(best.count(credited), len(best)), "ok"


def _log_probability(nats: float | None) -> float | None:
    is_one = nats is not None and not math.isnan(nats) and nats <= 1e-6 and nats != -9999
    return nats if is_one else None


OUTPUT_FAILURES = ("unparsed", "too_long", "missing_option")


def verdict_score(verdict: float | None, status: str) -> tuple[float | None, str, str | None]:
    """Score of a verdict, its status, and the word with which its reason begins."""
    if status in OUTPUT_FAILURES:
        return None, status, None
    if status != "ok":
        return None, "error", status
    if verdict is None or (math.isfinite(verdict) and not 0 <= verdict <= 1):
        return None, "error", "error"
    return (verdict, "ok", None) if math.isfinite(verdict) else (None, "error", "not_finite")
