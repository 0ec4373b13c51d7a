"""Agreement part by part: by hand, against scipy and scikit-learn on the resampled data, and where there is no number."""

import io
import json
import warnings

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from planted_runs import case_file, case_run, planted_run, rated_items, rubric_of, unrated_items
from rich.console import Console
from scipy import stats
from sklearn.metrics import cohen_kappa_score

from logitjudge.cli._sections.people import show
from logitjudge.core import Item
from logitjudge.debiasers import debias
from logitjudge.errors import InputError
from logitjudge.measures import closeness, weighted
from logitjudge.measures.agreement import agreement
from logitjudge.measures.breakdown import MEASURES, OVER_SYSTEMS, VARYING, Rated, _How, _of_part, breakdown
from logitjudge.report.agreement import section
from logitjudge.run import SampledRun

CASE = case_file("breakdown")
NOISY = "position=0.8,0,0,0,0.3;order_noise=1.5;item_position_sd=1;quality_sd=1"


def rows_of(made, part="pooled", level="items", criterion=None):
    found = {r.measure: r for r in made if (r.part, r.level, r.criterion) == (part, level, criterion)}
    assert tuple(found) == (MEASURES if level == "items" else OVER_SYSTEMS)
    return found


def judged_items(documents=24, systems=10, criteria=("coherence", "fluency"), raters=3, seed=0):
    """Documents x systems x criteria; systems and documents differ in quality, raters add noise."""
    rng = np.random.default_rng(seed)
    level = {s: rng.uniform(2.5, 3.5) for s in range(systems)}
    return [
        Item(
            f"d{d}-s{s}-{c}",
            {"instruction": "x"},
            human=tuple(np.clip(np.round(level[s] + rng.normal(0, 0.7) + rng.normal(0, 0.6, raters)), 1, 5)),
            cluster=f"d{d}",
            groups={"system": f"s{s}", "criterion": c},
        )
        for d in range(documents)
        for s in range(systems)
        for c in criteria
    ]


def test_small_cases_by_hand():
    people = zip(CASE["ratings"], CASE["criteria"], strict=True)
    items = [Item(f"i{n}", {}, human=tuple(r), groups={"criterion": c}) for n, (r, c) in enumerate(people)]
    made = breakdown(case_run(CASE["probs"], [[1, 2, 3]], items), draws=50)
    for part, name in (("criterion", "a"), ("criterion", "b"), ("mean", None)):
        found = rows_of(made, part, criterion=name)
        for measure, expected in CASE[name or part].items():
            assert found[measure].value == pytest.approx(expected, abs=1e-9), (part, name, measure)


@settings(deadline=None, max_examples=40)
@given(st.integers(3, 25), st.integers(0, 2**32 - 1))
def test_weighted_measures_are_those_of_the_resampled_data(count, seed):
    """Against scipy and scikit-learn. Copies of an item tie in tau-b, and are no pair of the pair accuracy."""
    rng = np.random.default_rng(seed)
    x, y = rng.integers(0, 5, count) / 2, rng.integers(0, 5, count).astype(float)
    a, b, levels = rng.integers(0, 4, count), rng.integers(0, 4, count), np.array([1, 2, 3, 4])
    weight = rng.multinomial(count, np.full(count, 1 / count), size=3).astype(float)
    tables = weighted.confusion(a, b, 4, weight)
    for n, times in enumerate(weight.astype(int)):
        xs, ys, us, vs = (np.repeat(z, times) for z in (x, y, a, b))
        if np.ptp(xs) and np.ptp(ys):
            assert weighted.kendall(x, y, weight)[n] == pytest.approx(stats.kendalltau(xs, ys).statistic, abs=1e-9)
        else:
            assert np.isnan(weighted.kendall(x, y, weight)[n])
        kappa = weighted.quadratic_kappa(tables, levels)[n]
        if np.ptp(us) and np.ptp(vs):
            assert kappa == pytest.approx(cohen_kappa_score(us, vs, weights="quadratic", labels=range(4)))
        else:
            assert np.isnan(kappa)
        assert weighted.hits(tables)[n] == pytest.approx(np.mean(us == vs))
        who = np.repeat(np.arange(count), times)
        pairs = [(i, j) for i in range(count) for j in range(i) if who[i] != who[j]]
        tie = [0 if abs(xs[i] - xs[j]) <= 0.5 else np.sign(xs[i] - xs[j]) for i, j in pairs]
        right = [ours == np.sign(ys[i] - ys[j]) for ours, (i, j) in zip(tie, pairs, strict=True)]
        if pairs:
            assert weighted.pairs(x, y, weight, 0.5)[n] == pytest.approx(np.mean(right))


@pytest.mark.parametrize("digits", [0, 1, 6])
@pytest.mark.parametrize("levels", [2, 5, 300])
def test_sums_over_pairs_are_those_of_every_pair(digits, levels):
    rng = np.random.default_rng(levels)
    x, y = np.round(rng.normal(size=300), digits), rng.integers(0, levels, 300) / 2
    weight = rng.multinomial(300, np.full(300, 1 / 300), size=3).astype(float)
    ours, theirs = x[:, None] - x, np.sign(y[:, None] - y)

    def over(block, w):
        return w @ block @ w

    for n, w in enumerate(weight):
        untied = np.sqrt(over(ours != 0, w) * over(theirs != 0, w))
        assert weighted.kendall(x, y, weight)[n] == pytest.approx(over(np.sign(ours) * theirs, w) / untied, abs=1e-12)
    for threshold in np.quantile(np.abs(ours), [0, 0.1, 0.5, 1]) + 1e-9:
        right = np.where(np.abs(ours) <= threshold, 0, np.sign(ours)) == theirs
        itself = (weight**2).sum(axis=1)
        expected = [(over(right, w) - own) / (w.sum() ** 2 - own) for w, own in zip(weight, itself, strict=True)]
        assert weighted.pairs(x, y, weight, threshold) == pytest.approx(expected, abs=1e-12)


def test_over_systems_is_scipy_s():
    rng = np.random.default_rng(2)
    x, y = rng.integers(0, 6, (5, 9)).astype(float), rng.normal(size=(5, 9))
    found = weighted.over_systems(x, y)
    oracles = (stats.pearsonr, stats.spearmanr, stats.kendalltau)
    for name, oracle in zip(OVER_SYSTEMS, oracles, strict=True):
        np.testing.assert_allclose(found[name], [oracle(a, b)[0] for a, b in zip(x, y, strict=True)])
    x[0] = 2
    x[1, 3] = np.nan
    assert all(
        np.isnan(column[:2]).all() and np.isfinite(column[2:]).all() for column in weighted.over_systems(x, y).values()
    )


def test_pooled_correlations_are_those_of_agreement():
    run = planted_run(NOISY, judged_items(documents=21))
    found, known = rows_of(breakdown(run)), agreement(run)
    for name in ("pearson", "spearman"):
        assert (found[name].value, found[name].low, found[name].high) == pytest.approx(
            (known[name].value, known[name].low, known[name].high), abs=1e-6
        )


def test_pairs_have_the_calibrated_threshold():
    run = planted_run(NOISY, judged_items(documents=8))
    row, pairs = rows_of(breakdown(run))["pair_accuracy"], closeness.pair_accuracy(debias(run).score, run.ratings)
    assert pairs.threshold > 0
    assert (row.value, row.threshold) == pytest.approx((pairs.value, pairs.threshold), abs=1e-9)
    assert row.low < row.value < row.high


def test_a_resample_without_a_criterion_has_no_mean():
    rated = Rated.of(planted_run(NOISY, rated_items(6)), "mean_prob")
    how = _How("mean_prob", "system", "slots", "human", 20, 0)
    statistic = _of_part(rated, np.array([True, True, True, False, False, False]), "items", how)
    made = statistic(np.array([[1.0] * 6, [0, 0, 0, 2, 2, 2]]))
    assert np.isfinite(made[0]).all()
    assert np.isnan(made[1]).all()


def test_parts_are_runs_of_their_items():
    """A criterion's rows are those of a run with its items alone; the mean is their mean; systems are means of items."""
    run = planted_run(NOISY, judged_items(), provenance={"raters": "same", "ratings_name": "human experts"})
    made = breakdown(run, draws=300)
    values = {}
    for name in ("coherence", "fluency"):
        alone = breakdown(run.select([item.groups["criterion"] == name for item in run.items]), draws=300)
        for level in ("items", "systems"):
            found, same = rows_of(made, "criterion", level, name), rows_of(alone, "pooled", level)
            for measure, row in found.items():
                other = same[measure]
                assert (row.value, row.low, row.high, row.ceiling, row.share, row.note) == (
                    other.value, other.low, other.high, other.ceiling, other.share, other.note,
                )  # fmt: skip
                values.setdefault((level, measure), []).append(row)
    for (level, measure), rows in values.items():
        mean = rows_of(made, "mean", level)[measure]
        assert mean.value == pytest.approx(np.mean([row.value for row in rows]))
        assert mean.low < mean.value < mean.high
    ceilings = [row.ceiling for row in values["items", "pearson"]]
    mean = rows_of(made, "mean")["pearson"]
    assert mean.ceiling == pytest.approx(np.mean(ceilings))
    assert mean.share == pytest.approx(mean.value / mean.ceiling)


def test_the_level_of_systems_is_over_their_means():
    run = planted_run("order_noise=3;quality_scale=0.1", judged_items(documents=6))
    score = debias(run, "mean_logp").score
    names = sorted({item.groups["system"] for item in run.items})
    which = [[item.groups["system"] == name for item in run.items] for name in names]
    x, y = ([np.mean(z[np.array(w)]) for w in which] for z in (score, run.ratings))
    found = rows_of(breakdown(run, "mean_logp"), level="systems")
    assert found["pearson"].value == pytest.approx(stats.pearsonr(x, y)[0])
    assert found["spearman"].value == pytest.approx(stats.spearmanr(np.round(x, 9), np.round(y, 9))[0])
    assert found["kendall"].value == pytest.approx(stats.kendalltau(np.round(x, 9), np.round(y, 9)).statistic)
    assert all(row.low < row.value < row.high and row.systems == 10 for row in found.values())


def test_too_few_systems_have_no_number_and_no_systems_no_rows():
    few = breakdown(planted_run(NOISY, judged_items(systems=7)), draws=20)
    for part, criterion in (("pooled", None), ("mean", None), ("criterion", "fluency")):
        for row in rows_of(few, part, "systems", criterion).values():
            assert (row.value, row.low, row.high) == (None, None, None)
            assert "too few systems (7 < 8)" in row.note
    none = breakdown(planted_run(NOISY, rated_items(30)), draws=20)
    assert {row.level for row in none} == {"items"}
    assert {row.part for row in none} == {"pooled"}


def test_constant_columns_give_none_with_a_reason():
    """A judge that says "5" to everything: no correlation, no kappa, no pairs; hits and errors are numbers."""
    items = judged_items(documents=6)
    made = breakdown(planted_run("quality_scale=0", items), draws=50)
    for part, criterion in (("pooled", None), ("criterion", "fluency"), ("mean", None)):
        for measure, row in rows_of(made, part, criterion=criterion).items():
            if measure in VARYING:
                assert (row.value, row.low, row.high, row.share, row.threshold) == (None,) * 5, measure
                assert "degenerate" in row.note
            else:
                assert row.value is not None
    same = [Item(f"i{n}", {}, human=(3,)) for n in range(9)]
    found = rows_of(breakdown(planted_run(NOISY, same), draws=50))
    assert found["kappa_winner"].value is None
    assert found["pearson"].note == "degenerate: the ratings do not vary"
    assert closeness.quadratic_kappa(np.full(4, 5.0), np.arange(1.0, 5.0), np.arange(1, 6)) is None


@pytest.mark.parametrize("count", [0, 1, 2])
def test_too_few_items_give_none_with_a_reason(count):
    items = [*rated_items(max(count, 1)), *unrated_items(2)]
    run = planted_run(NOISY, items).select([n < count or n > 0 for n in range(len(items))])
    found = rows_of(breakdown(run, draws=20))
    assert found["pearson"].value is None
    assert found["pearson"].note == ("no ratings" if count == 0 else f"too few rated items ({count} < 3)")
    assert found["pearson"].items == count


def test_one_cluster_has_no_interval_and_few_are_flagged():
    one = rows_of(breakdown(planted_run(NOISY, rated_items(20, clusters=1)), draws=50))
    assert all(row.low is None and "one cluster" in row.note for row in one.values() if row.value is not None)
    few = rows_of(breakdown(planted_run(NOISY, rated_items(30, clusters=9)), draws=200))
    assert few["kendall"].note == "too few clusters (9 < 20)"


def test_perfect_agreement_is_flagged_and_near_perfect_is_not_wide():
    items = [Item(f"i{n}", {}, human=(n / 10 + 1,)) for n in range(30)]
    found = rows_of(breakdown(planted_run("quality_scale=3", items, "identity", rubric_of()), draws=100))
    assert (found["kendall"].value, found["kendall"].low) == (1, 1)
    assert found["kendall"].note == "degenerate: the agreement is perfect"
    odd = [*items[:-1], Item("odd", {}, human=(3.65,))]  # a resample that misses it is perfect
    near = planted_run("quality_scale=3", items, "identity", rubric_of())
    row = rows_of(breakdown(type(near)(near.logp, near.alias_mass, tuple(odd), near.orderings, near.scores)))[
        "spearman"
    ]
    assert 0.95 < row.low < row.value < row.high < 1


def test_raters_of_a_model_give_no_ceiling():
    items = judged_items(documents=21)
    people = planted_run(NOISY, items, provenance={"ratings_name": "human", "raters": "same"})
    model = planted_run(NOISY, items, provenance={"ratings_name": "GPT-4 reference", "raters": "same"})
    assert rows_of(breakdown(people, draws=20))["pearson"].ceiling is not None
    assert rows_of(breakdown(model, draws=20))["pearson"].ceiling is None


def test_intervals_hold_the_truth():
    """Nominal 95 %: 300 data sets of 30 clusters of 2; 99.9 % Monte Carlo band. Truths from one data set of 60,000 items."""

    def data(clusters, seed):
        rng = np.random.default_rng(seed)
        common, own = rng.normal(size=clusters).repeat(2), rng.normal(size=2 * clusters)
        truth = 3 + 0.9 * common + 0.5 * own
        ratings = np.clip(np.round(truth + rng.normal(0, 0.5, 2 * clusters)), 1, 5)
        spread = np.exp(-((np.arange(1, 6) - truth[:, None] - rng.normal(0, 0.8, (2 * clusters, 1))) ** 2))
        items = [Item(f"i{n}", {}, human=(r,), cluster=f"c{n // 2}") for n, r in enumerate(ratings)]
        return case_run((spread / spread.sum(axis=1, keepdims=True))[:, None], [[1, 2, 3, 4, 5]], items)

    measures = ("kendall", "kappa_winner", "exact_rounded", "absolute_error")
    large = rows_of(breakdown(data(1500, 0), draws=2))
    hits = dict.fromkeys(measures, 0)
    for seed in range(1, 301):
        found = rows_of(breakdown(data(30, seed), draws=120))
        for name in measures:
            hits[name] += found[name].low <= large[name].value <= found[name].high
    for name, count in hits.items():
        assert 0.90 <= count / 300 <= 0.99, (name, count)


def test_a_sampled_run_has_its_picks():
    rng = np.random.default_rng(3)
    items = rated_items(25)
    run = planted_run("", items)
    picks = np.clip(np.round(run.ratings[:, None, None] + rng.normal(0, 1, (25, len(run.orderings), 2))), 1, 5)
    picks[3] = np.nan
    found = rows_of(breakdown(SampledRun(picks, items, run.orderings, run.scores), "mean_winner", draws=50))
    assert found["pearson"].items == 24
    assert found["exact_winner"].value > 0


def test_arguments_are_checked():
    run = planted_run(NOISY, rated_items(5))
    with pytest.raises(InputError, match="draws is 1"):
        breakdown(run, draws=1)
    with pytest.raises(InputError, match="unknown debiaser"):
        breakdown(run, "mean_porb")


def test_nothing_warns_and_the_section_is_json():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for count in range(1, 6):
            run = planted_run("order_noise=1", judged_items(documents=count, systems=count))
            json.dumps(section(run, draws=20), allow_nan=False)
            frame = breakdown(run, draws=20).to_frame()
            assert list(frame.measure[:9]) == list(MEASURES)


def test_the_tables_fit_80_columns():
    criteria = ("coherence", "consistency", "fluency", "relevance")
    console = Console(width=80, file=io.StringIO())
    show(console, section(planted_run(NOISY, judged_items(documents=20, systems=8, criteria=criteria)), draws=50))
    text = console.file.getvalue()
    assert max(map(len, text.splitlines())) <= 80
    for part in ("consistency", "mean", "all", "Over 8 systems", "ceiling"):
        assert part in text
    few = Console(width=80, file=io.StringIO())
    show(few, section(planted_run(NOISY, judged_items(documents=20, systems=3)), draws=50))
    assert "too few systems (3 < 8)." in few.file.getvalue()
