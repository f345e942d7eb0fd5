"""Are comparisons of two models right? Verdicts at random, and those of the CogBench archive, against SciPy
and statsmodels; and what cannot be compared says why and has no number."""

import math
import os
from dataclasses import replace

import duckdb
import numpy as np
import pytest
from pytest import approx
from scipy import stats
from spec.paired_lakes import PRIMARY, PairedLake, Verdict, of_two_means, weighted_least_squares
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.power import TTestPower
from statsmodels.stats.weightstats import ttost_paired
from support import built

from ingest.pipeline import ingest
from store.compare import Compared, compare, resolve
from store.errors import CheckFailed
from store.manifest import load_sources
from store.settings import Home

# answered items, in nats and as a share; played trials, as a share and in points
NLL, ACCURACY, ARMS, POINTS = "politeness", "false_belief_qa", "restless_bandit", "bart"
STATISTICS = (
    "difference",
    "se",
    "ci_low",
    "ci_high",
    "p",
    "p_holm",
    "both_right",
    "mcnemar_p",
    "equivalence_p",
    "detectable",
    "bootstrap_low",
    "bootstrap_p",
)
A, B = Compared("a", "column"), Compared("b", "column")
SEEDS = range(6)


@pytest.fixture
def lake():
    return PairedLake()


def compared(lake, **choices):
    """Return the comparison of every mode by its id."""
    found = compare(lake.con, A, B, **choices)
    return {each.mode_id: each for each in found}


def exactly(number):
    return approx(number, rel=1e-9, abs=1e-13)


def answered(values, clusters=None, weights=None):
    return [
        Verdict(
            episode=clusters[i] if clusters is not None else f"e{i}",
            item=f"i{i}",
            value=float(value),
            weight=1.0 if weights is None else float(weights[i]),
        )
        for i, value in enumerate(values)
    ]


# --- against other libraries ---


@pytest.mark.parametrize("seed", SEEDS)
def test_answers_that_weigh_differently_are_a_weighted_regression(lake, seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(20, 200))
    clusters = [f"p{i}" for i in rng.integers(0, 12, n)]
    weights = rng.choice([1.0, 0.25, 3.0], n)
    pull = dict.fromkeys(clusters, 0.0) | {f"p{i}": rng.normal() for i in range(12)}
    a = rng.exponential(2, n) + [abs(pull[each]) for each in clusters]
    b = rng.exponential(2.2, n)
    lake.add("a", NLL, answered(a, clusters, weights))
    lake.add("b", NLL, answered(b, clusters, weights))

    found = compared(lake)[NLL]

    fitted = weighted_least_squares(a - b, weights, clusters)
    assert found.status == "tested"
    assert found.test == "paired t over clusters"
    assert (found.n_pairs, found.n_clusters) == (n, len(set(clusters)))
    assert found.difference == exactly(np.average(a, weights=weights) - np.average(b, weights=weights))
    assert (found.difference, found.se) == (exactly(fitted.difference), exactly(fitted.se))
    assert (found.p, found.ci_low, found.ci_high) == (
        exactly(fitted.p),
        exactly(fitted.low),
        exactly(fitted.high),
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_one_answer_for_each_cluster_is_the_textbook_paired_t(lake, seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 60))
    a, b = rng.normal(1.0, 0.5, n), rng.normal(1.05, 0.4, n)
    lake.add("a", NLL, answered(a))
    lake.add("b", NLL, answered(b))
    margin = 0.3

    found = compared(lake, margins={NLL: margin})[NLL]

    expected = stats.ttest_rel(a, b)
    interval = expected.confidence_interval()
    assert (found.t, found.p, found.degrees_of_freedom) == (
        exactly(expected.statistic),
        exactly(expected.pvalue),
        n - 1,
    )
    assert (found.ci_low, found.ci_high) == (exactly(interval.low), exactly(interval.high))
    assert (found.margin, found.equivalence_p) == (margin, exactly(ttost_paired(a, b, -margin, margin)[0]))
    effect = found.detectable / (a - b).std(ddof=1)
    assert TTestPower().power(effect, n, 0.05) == approx(0.8, abs=1e-9)
    # statsmodels finds the same root to a few digits
    assert effect == approx(TTestPower().solve_power(nobs=n, alpha=0.05, power=0.8), rel=1e-4)


@pytest.mark.parametrize("seed", SEEDS)
def test_right_or_wrong_answers_of_clusters_of_one_are_mcnemars_test(lake, seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(5, 400))
    a, b = rng.integers(0, 2, n), (rng.random(n) < 0.7).astype(int)
    lake.add("a", ACCURACY, answered(a))
    lake.add("b", ACCURACY, answered(b))

    found = compared(lake)[ACCURACY]

    flips = [[np.sum(a & b), np.sum(a & ~b & 1)], [np.sum(~a & b & 1), np.sum(~a & ~b & 1)]]
    assert [[found.both_right, found.a_only], [found.b_only, found.both_wrong]] == flips
    assert found.test == "exact McNemar"
    assert found.p == found.mcnemar_p == exactly(mcnemar(flips, exact=True).pvalue)
    # error and interval stay those of the difference, in the unit of the metric
    assert found.se == exactly(100 * (a - b).std(ddof=1) / math.sqrt(n))
    assert found.difference == exactly(100 * (a - b).mean())


@pytest.mark.parametrize("seed", SEEDS)
def test_right_or_wrong_answers_in_clusters_are_tested_over_clusters(lake, seed):
    rng = np.random.default_rng(seed)
    n_clusters, n_each = int(rng.integers(4, 20)), 10
    a, b = rng.integers(0, 2, (n_clusters, n_each)), rng.integers(0, 2, (n_clusters, n_each))
    clusters = [f"s{i}" for i in np.repeat(range(n_clusters), n_each)]
    lake.add("a", ACCURACY, answered(a.ravel(), clusters))
    lake.add("b", ACCURACY, answered(b.ravel(), clusters))

    found = compared(lake)[ACCURACY]

    expected = stats.ttest_rel(100 * a.mean(axis=1), 100 * b.mean(axis=1))
    assert (found.test, found.p) == ("paired t over clusters", exactly(expected.pvalue))
    both = a.ravel() & b.ravel()
    flips = [
        [both.sum(), (a.ravel() - both).sum()],
        [(b.ravel() - both).sum(), a.size - (a | b).sum()],
    ]
    assert found.mcnemar_p == exactly(mcnemar(flips, exact=True).pvalue)
    assert "McNemar's p takes rows of one story as independent" in found.note


@pytest.mark.parametrize("seed", SEEDS)
def test_episodes_of_other_lengths_are_pairs_and_differ_as_the_two_values_do(lake, seed):
    rng = np.random.default_rng(seed)
    rows = {"a": [], "b": []}
    for who, verdicts in rows.items():
        for episode in range(12):
            for step in range(int(rng.integers(2, 30))):
                value = float(rng.normal(5 + episode / 4 + (who == "a"), 2))
                verdicts.append(Verdict(f"{episode}", value, step=step))
        lake.add(who, POINTS, verdicts)

    found = compared(lake)[POINTS]

    both = rows["a"] + rows["b"]
    fitted = of_two_means(
        [each.value for each in both],
        [True] * len(rows["a"]) + [False] * len(rows["b"]),
        np.ones(len(both)),
        [each.episode for each in both],
    )
    assert (found.pair, found.n_pairs, found.n_clusters) == ("episode", 12, 12)
    assert (found.difference, found.se) == (exactly(fitted.difference), exactly(fitted.se))
    assert found.difference == exactly(found.value_a - found.value_b)
    assert found.p == exactly(2 * stats.t.sf(abs(fitted.difference / fitted.se), 11))
    assert found.equivalence_p is None and found.note == "no test of equivalence: no margin is stated"


def test_all_tested_modes_are_corrected_together(lake):
    rng = np.random.default_rng(7)
    modes = [NLL, ACCURACY, ARMS, POINTS, "self_assessment", "two_step", "bayesian_urn"]
    for mode_id in modes:
        scale = rng.choice([0.02, 0.2, 1.0])
        for model in "ab":
            lake.add(
                model, mode_id, [Verdict(f"{i}", rng.random() + scale * (model == "a")) for i in range(20)]
            )
    # nothing to test: it takes no part in the correction
    lake.add("a", "nonliteral_number", [Verdict("1", 1.0)])
    lake.add("b", "nonliteral_number", [Verdict("1", 2.0)])

    found = compared(lake)

    corrected = multipletests([found[mode_id].p for mode_id in modes], method="holm")[1]
    assert [found[mode_id].p_holm for mode_id in modes] == [exactly(p) for p in corrected]
    assert found["nonliteral_number"].p_holm is None


def test_equal_p_values_are_corrected_alike(lake):
    for mode_id in (NLL, "self_assessment", "pragmatic_interpretation"):
        lake.add("a", mode_id, answered([1.0, 2.0, 4.0]))
        lake.add("b", mode_id, answered([1.5, 2.0, 3.0]))
    found = compared(lake)
    tested = [each for each in found.values() if each.p is not None]
    corrected = multipletests([each.p for each in tested], method="holm")[1]
    assert [each.p_holm for each in tested] == [exactly(p) for p in corrected]
    assert len({each.p for each in tested}) == 1


@pytest.mark.parametrize("seed", range(3))
def test_the_bootstrap_is_a_percentile_interval_over_whole_clusters(lake, seed):
    rng = np.random.default_rng(seed)
    n_clusters, n_each = 40, 5
    clusters = np.repeat(range(n_clusters), n_each)
    a = rng.normal(1, 0.3, n_clusters)[clusters] + rng.normal(0, 0.1, clusters.size)
    b = rng.normal(1.1, 0.3, n_clusters)[clusters] + rng.normal(0, 0.1, clusters.size)
    for model, values in (("a", a), ("b", b)):
        lake.add(model, NLL, answered(values, [f"p{i}" for i in clusters]))

    found = compared(lake)[NLL]

    means = (a - b).reshape(n_clusters, n_each).mean(axis=1)
    expected = stats.bootstrap(
        (means,), np.mean, n_resamples=20_000, method="percentile", rng=np.random.default_rng(1)
    )
    interval = expected.confidence_interval
    # two thousand draws place an end within a tenth of a standard error
    tolerance = 0.15 * found.se
    assert found.bootstrap_low == approx(interval.low, abs=tolerance)
    assert found.bootstrap_high == approx(interval.high, abs=tolerance)
    assert found.bootstrap_p == approx(found.p, abs=0.06)


def test_the_bootstrap_says_the_same_again_and_the_opposite_the_other_way_round(lake):
    rng = np.random.default_rng(3)
    for model in "ab":
        lake.add(model, NLL, answered(rng.random(30)))
    first, second = compared(lake)[NLL], compared(lake)[NLL]
    [turned] = compare(lake.con, B, A, modes=[NLL])

    assert first == second
    assert (turned.bootstrap_low, turned.bootstrap_high) == (
        exactly(-first.bootstrap_high),
        exactly(-first.bootstrap_low),
    )
    assert (turned.bootstrap_p, turned.difference) == (first.bootstrap_p, -first.difference)


# --- pairs ---


def test_missing_pairs_are_named_and_nothing_is_computed_over_the_rest(lake):
    lake.add("a", NLL, answered(range(1, 11)))
    others = answered(range(1, 11))
    del others[3]
    others += [Verdict("e90", 1.0, item="i90"), Verdict("e91", 1.0, item="i91")]
    lake.add("b", NLL, others)

    found = compared(lake)[NLL]

    assert found.status == "unpaired"
    assert found.reason == (
        "A lacks 2 of 12 pairs: episode e90 item i90, episode e91 item i91; "
        "B lacks 1 of 12 pairs: episode e3 item i3"
    )
    assert (found.n_pairs, found.n_a_lacks, found.n_b_lacks) == (9, 2, 1)
    assert (found.value_a, found.value_b) == (5.5, exactly(53 / 11))
    assert {getattr(found, name) for name in STATISTICS} == {None}


def test_the_first_missing_pairs_stand_for_many(lake):
    lake.add("a", NLL, answered(range(9)))
    lake.add("b", NLL, answered(range(2)))
    assert compared(lake)[NLL].reason == (
        "B lacks 7 of 9 pairs: episode e2 item i2, episode e3 item i3, episode e4 item i4, "
        "episode e5 item i5, episode e6 item i6, ..."
    )


@pytest.mark.parametrize("status", ["unparsed", "error", "too_long", "missing_option"])
def test_an_answer_without_a_score_is_a_missing_pair(lake, status):
    lake.add("a", ACCURACY, answered([1, 0, 1, 1]))
    answers = answered([1, 1, 0, 1])
    answers[2] = replace(answers[2], value=None, status=status)
    lake.add("b", ACCURACY, answers)

    found = compared(lake)[ACCURACY]

    assert (found.status, found.reason) == ("unpaired", "B lacks 1 of 4 pairs: episode e2 item i2")
    assert (found.value_a, found.value_b, found.difference, found.both_right) == (75.0, None, None, None)


def test_a_run_that_failed_everywhere_was_asked_and_lacks_every_pair(lake):
    lake.add("a", ACCURACY, answered([1, 0]))
    lake.add("b", ACCURACY, [replace(each, value=None, status="error") for each in answered([1, 0])])
    found = compared(lake)[ACCURACY]
    assert (found.status, found.n_b_lacks) == ("unpaired", 2)


def test_what_both_left_out_is_missing_too(lake):
    # two runs with the same limit answered the same questions, and not all
    for model in "ab":
        lake.add(model, NLL, answered([1.0, 2.0, 3.0]), n_absent=7)
    found = compared(lake)[NLL]
    assert (found.status, found.n_pairs) == ("unpaired", 3)
    assert found.reason == "A is incomplete: 7 of 10 planned rows have no answer"
    assert {getattr(found, name) for name in STATISTICS} == {None}


def test_played_trials_are_pairs_where_both_played_the_same_ones(lake):
    rng = np.random.default_rng(5)
    for model in "ab":
        trials = [
            Verdict(f"{episode}", float(rng.integers(0, 2)), step=step)
            for episode in range(6)
            for step in range(10)
        ]
        lake.add(model, ARMS, trials)
    found = compared(lake)[ARMS]
    assert (found.pair, found.n_pairs, found.n_clusters) == ("item", 60, 6)
    assert found.both_right + found.a_only + found.b_only + found.both_wrong == 60


def test_trials_of_other_environments_are_no_pairs_although_their_numbers_are_the_same(lake):
    rng = np.random.default_rng(6)
    hidden = {"a": (0.25, 0.75), "b": (0.75, 0.25)}
    for model in "ab":
        trials = [
            Verdict(
                f"{episode}", float(rng.integers(0, 2)), step=step, hidden=hidden["a" if episode else model]
            )
            for episode in range(6)
            for step in range(10)
        ]
        lake.add(model, ARMS, trials)
    found = compared(lake)[ARMS]
    assert (found.pair, found.n_pairs, found.n_clusters) == ("episode", 6, 6)
    assert (found.test, found.both_right, found.mcnemar_p) == ("paired t over clusters", None, None)
    assert "in 1 of 6 episodes of one number the two met other environments" in found.note


def test_what_is_not_known_of_an_environment_is_no_difference(lake):
    rng = np.random.default_rng(7)
    for model, hidden in (("a", (0.25, 0.75)), ("b", (None, 0.5))):
        lake.add(
            model,
            ARMS,
            [
                Verdict(f"{e}", float(rng.integers(0, 2)), step=s, hidden=hidden)
                for e in range(4)
                for s in range(5)
            ],
        )
    assert (compared(lake)[ARMS].pair, compared(lake)[ARMS].n_pairs) == ("item", 20)


def test_trials_whose_right_option_follows_from_earlier_choices_are_no_pairs(lake):
    # a card-sorting rule switches after so many right answers of whoever plays
    for model, credited in (("a", "colour"), ("b", "shape")):
        trials = [
            Verdict(
                f"{e}",
                float((e + s) % (2 if model == "a" else 3) > 0),
                step=s,
                credited=credited if s else "form",
            )
            for e in range(4)
            for s in range(5)
        ]
        lake.add(model, "wcst_autonomous", trials)
    found = compared(lake)["wcst_autonomous"]
    assert (found.pair, found.n_pairs, found.both_right) == ("episode", 4, None)
    assert found.note == "no flip table: the two played other trials, so an episode is a pair"


def test_questions_that_follow_from_answers_are_no_pairs(lake):
    for model in "ab":
        lake.add(
            model,
            "temporal_discounting",
            [
                Verdict(f"{e}", float((e + s + (model == "b")) % 2), step=s)
                for e in range(4)
                for s in range(5)
            ],
        )
    found = compared(lake)["temporal_discounting"]
    assert (found.pair, found.n_pairs, found.both_right) == ("episode", 4, None)


def test_an_episode_with_a_trial_without_a_score_is_a_missing_pair(lake):
    trials = [Verdict(f"{e}", float(s % 2), step=s) for e in range(4) for s in range(5)]
    lake.add("a", ARMS, trials)
    lake.add("b", ARMS, [replace(trials[0], value=None, status="error"), *trials[1:]])
    found = compared(lake)[ARMS]
    assert (found.pair, found.reason) == ("episode", "B lacks 1 of 4 pairs: episode 0")


def test_tied_options_share_the_credit_and_leave_no_flip_table(lake):
    # the first option of a tie never wins: both runs tie, one of them everywhere
    lake.add("a", ACCURACY, answered([0.5, 0.5, 0.5, 0.5]))
    lake.add("b", ACCURACY, answered([0.5, 1, 0, 1]))
    found = compared(lake)[ACCURACY]
    assert found.difference == exactly(50 - 62.5)
    assert found.test == "paired t over clusters"
    assert (found.both_right, found.mcnemar_p) == (None, None)
    assert found.note == "no flip table: some items are right in part"


def test_a_share_of_unequal_weights_is_not_left_to_mcnemar(lake):
    weights = [1, 1, 3, 1, 2]
    lake.add("a", ACCURACY, answered([1, 0, 1, 1, 0], weights=weights))
    lake.add("b", ACCURACY, answered([1, 1, 0, 0, 0], weights=weights))
    found = compared(lake)[ACCURACY]
    assert found.test == "paired t over clusters"
    assert (found.both_right, found.a_only, found.b_only, found.both_wrong) == (1, 2, 1, 1)


# --- nothing to test against ---


def test_every_mode_has_a_row_that_says_who_lacks_it(lake):
    lake.add("a", NLL, answered([1.0, 2.0]))
    lake.add("b", ACCURACY, answered([1, 0]))
    lake.add("a", "self_assessment", [])
    found = compared(lake)
    assert len(found) == 27
    assert {each.status for each in found.values()} == {"absent"}
    assert found[NLL].reason == "B has no answer of this mode"
    assert found[ACCURACY].reason == "A has no answer of this mode"
    assert found["self_assessment"].reason == "neither has an answer of this mode"
    assert found[ARMS].reason == "neither has a run of this mode"
    assert (found[NLL].value_a, found[NLL].difference) == (1.5, None)


def test_an_infinite_value_has_no_difference(lake):
    lake.add("a", NLL, answered([1.0, math.inf, 2.0]))
    lake.add("b", NLL, answered([1.0, 1.0, 2.0]))
    found = compared(lake)[NLL]
    assert (found.status, found.reason) == ("untested", "the value of A is infinite")
    assert (found.value_a, found.value_b, found.n_pairs) == (math.inf, approx(4 / 3), 3)
    assert {getattr(found, name) for name in STATISTICS} == {None}


def test_one_cluster_has_a_difference_and_no_error(lake):
    lake.add("a", NLL, answered([1.0, 3.0], ["p", "p"]))
    lake.add("b", NLL, answered([1.0, 2.0], ["p", "p"]))
    found = compared(lake)[NLL]
    assert (found.status, found.reason) == ("untested", "one cluster does not show how clusters differ")
    assert (found.difference, found.se, found.p, found.bootstrap_p) == (0.5, None, None, None)


def test_equal_differences_have_an_error_of_zero_and_no_test(lake):
    values = np.random.default_rng(2).random(20)
    lake.add("a", NLL, answered(values + 0.3))
    lake.add("b", NLL, answered(values))
    found = compared(lake)[NLL]
    assert (found.status, found.reason) == ("untested", "every pair differs by the same")
    assert (found.difference, found.se, found.ci_low, found.p) == (exactly(0.3), 0, exactly(0.3), None)
    assert (found.bootstrap_p, found.equivalence_p, found.detectable) == (None, None, None)


def test_a_model_and_its_double_agree_on_every_pair(lake):
    for model in "ab":
        lake.add(model, NLL, answered([0.1, 0.2, 0.7]))
        lake.add(model, ACCURACY, answered([1, 0, 1]))
    found = compared(lake)
    assert (found[NLL].reason, found[NLL].p) == ("A and B agree on every pair", None)
    # of no flips none falls to either side
    assert (found[ACCURACY].status, found[ACCURACY].p, found[ACCURACY].se) == ("tested", 1.0, 0)


def test_clusters_that_agree_by_chance_are_no_proof(lake):
    clusters = ["p", "p", "q", "q"]
    lake.add("a", NLL, answered([1.0, 2.0, 3.0, 4.0], clusters))
    lake.add("b", NLL, answered([0.0, 3.0, 4.0, 3.0], clusters))
    found = compared(lake)[NLL]
    assert found.reason == "the clusters agree although the pairs in them differ"
    assert (found.difference, found.se, found.p) == (0, None, None)


def test_two_versions_of_a_rule_are_not_compared(lake):
    lake.add("a", NLL, answered([1.0, 2.0]))
    lake.add("b", NLL, answered([1.0, 2.0]), sha="v2")
    with pytest.raises(CheckFailed, match="politeness: expected one version of its scorer, found v1, v2"):
        compared(lake)


def test_the_value_of_every_primary_target_is_a_weighted_mean():
    # the difference of two models is one of two means
    assert {row["estimator"] for row in PRIMARY.values()} == {"mean"}


# --- lakes that were built ---


def verdicts_of(con, model, mode_id):
    """Return what the primary rule of a mode says of a column: by episode and step, with clusters."""
    return con.execute(
        """
        select scored.episode_id, scored.step_index, clusters.cluster_id, scored.value, scored.weight
        from int_scored as scored
        inner join table_3 as cells using (run_id, mode_id)
        inner join int_clusters as clusters using (run_id, mode_id, episode_id)
        where cells.column_id = ? and cells.mode_id = ? and scored.rule = ?
        """,
        [model, mode_id, PRIMARY[mode_id]["rule"]],
    ).fetchall()


def assert_like_a_regression(con, one, another, found):
    scale = float(PRIMARY[found.mode_id]["scale"])
    rows = [verdicts_of(con, name, found.mode_id) for name in (one, another)]
    both = [row for side in rows for row in side]
    fitted = of_two_means(
        [scale * row[3] for row in both],
        [True] * len(rows[0]) + [False] * len(rows[1]),
        [row[4] for row in both],
        [row[2] for row in both],
    )
    assert (found.difference, found.se) == (exactly(fitted.difference), exactly(fitted.se))
    assert found.n_clusters == len({row[2] for row in both})
    assert found.p == exactly(2 * stats.t.sf(abs(fitted.difference / fitted.se), found.n_clusters - 1))
    half = stats.t.ppf(0.975, found.n_clusters - 1) * fitted.se
    assert (found.ci_low, found.ci_high) == (
        exactly(found.difference - half),
        exactly(found.difference + half),
    )
    if found.both_right is not None:
        sides = [{row[:2]: row[3] for row in side} for side in rows]
        pairs = [(sides[0][key], sides[1][key]) for key in sides[0]]
        flips = [[pairs.count((1, 1)), pairs.count((1, 0))], [pairs.count((0, 1)), pairs.count((0, 0))]]
        assert [[found.both_right, found.a_only], [found.b_only, found.both_wrong]] == flips
        assert found.mcnemar_p == exactly(mcnemar(flips, exact=True).pvalue)
    if found.margin is not None:
        lower = stats.t.sf((fitted.difference + found.margin) / fitted.se, found.n_clusters - 1)
        upper = stats.t.cdf((fitted.difference - found.margin) / fitted.se, found.n_clusters - 1)
        assert found.equivalence_p == exactly(max(lower, upper))
    effect = found.detectable / fitted.se / math.sqrt(found.n_clusters)
    assert TTestPower().power(effect, found.n_clusters, 0.05) == approx(0.8, abs=1e-9)


def assert_comparison(lake, one, another):
    """Compare two columns of a built lake with the regression; return the ids of the modes by status."""
    with duckdb.connect(str(lake.database), read_only=True) as con:
        found = compare(con, resolve(con, one), resolve(con, another))
        tested = [each for each in found if each.status == "tested"]
        for each in tested:
            assert_like_a_regression(con, one, another, each)
    corrected = multipletests([each.p for each in tested], method="holm")[1]
    assert [each.p_holm for each in tested] == [exactly(p) for p in corrected]
    return {
        status: [each.mode_id for each in found if each.status == status] for status in ("tested", "unpaired")
    }


def test_two_players_of_the_demo_compare_as_a_regression_says(demo_lake):
    by_status = assert_comparison(demo_lake, "demo-bayes", "demo-greedy")
    assert {"restless_bandit", "instrumental_learning", "horizon_autonomous", "bart", "two_step"} <= {
        *by_status["tested"]
    }
    # each was asked urns of its own
    assert by_status["unpaired"] == ["bayesian_urn"]


@pytest.mark.mirror
@pytest.mark.parametrize(
    "engines",
    [("gpt-4_cot", "gpt-4_sb"), ("claude-1_cot", "claude-1_sb"), ("hf_Yi-34B", "hf_Yi-6B")],
)
def test_two_archived_engines_compare_as_a_regression_says(archive, engines):
    by_status = assert_comparison(archive, *engines)
    assert len(by_status["tested"]) >= 4


@pytest.fixture(scope="module")
def archive(tmp_path_factory, project):
    """The archive of CogBench, built."""
    lake = Home(tmp_path_factory.mktemp("compared") / "lake")
    ingest(lake, [load_sources()["cogbench"]], mirror=os.environ["COGLAKE_MIRROR"])
    built(lake, project)
    return lake
