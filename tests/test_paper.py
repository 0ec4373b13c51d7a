"""The paper's tables and claims from runs: hand-checked cells, scipy as the oracle, planted judges with known claims."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from planted_runs import planted_run, rated_items, run_of, unrated_items
from scipy import stats

from logitjudge.core import Item
from logitjudge.errors import InputError, NotObserved
from logitjudge.measures import claims, paper, permutation, pools, repeats
from logitjudge.measures.costs import bias_cost
from logitjudge.measures.matrices import picks, score_position_matrix
from logitjudge.run import SampledRun

CASES, ROOT = Path(__file__).parent / "cases", Path(__file__).resolve().parents[1]
BIASED = "position=0.8,0,0,0,0.3;interaction=3:0.4;order_noise=0.5"


def named(run, model="judge-8B", data="set.jsonl", verdict="direct", **more):
    about = {"configuration": {"model": model, "data": data}, "verdict": verdict, **more}
    return replace(run, provenance=about)


def planted(spec=BIASED, model="judge-8B", data="set.jsonl", count=40, design="balanced", seed=0, **more):
    return named(planted_run(f"{spec};seed={seed}", rated_items(count, seed=seed), design), model, data, **more)


def sampled(run, picked, **about):
    made = named(run, **about)
    return SampledRun(picked, run.items, run.orderings, run.scores, provenance=made.provenance)


@pytest.fixture(scope="module")
def case():
    made = json.loads((CASES / "paper_k2.json").read_text())
    items = [Item(f"i{n}", {}, human=(rating,)) for n, rating in enumerate(made["ratings"])]
    return made, named(run_of(made["probs"], "1,2;2,1", items))


def test_the_hand_checked_case(case):
    made, run = case
    figure = paper.figure_5([run], draws=50).set_index(["estimator", "position"])["share"]
    for estimator, share in made["figure_5"].items():
        assert figure[(estimator, 1)] == pytest.approx(share)
        assert figure[(estimator, 2)] == pytest.approx(1 - share)
    pearson = permutation.table_2([run], draws=50).set_index("measure").loc["pearson"]
    assert pearson["permutation"] == pytest.approx(made["permutation"])
    assert pearson["repeat"] == pytest.approx(made["repeat"])
    assert pearson["difference"] == pytest.approx(made["permutation"] - made["repeat"])
    [row] = permutation.table_3([run], draws=50).to_dict("records")
    assert row["permutation"] == pytest.approx(made["sd"])
    assert row["repeat"] == 0
    ranks = paper.table_4([run], draws=50).set_index("estimator")
    assert ranks.loc["hard", "rank"] == made["rank"]
    assert ranks.loc["hard", "of"] == 2
    table = paper.table_5([run]).set_index(["estimator", "score"])
    for score in (1, 2):
        assert table.loc[("hard", score), ["p1", "p2"]].tolist() == pytest.approx(made["table_5"])
    best = paper.table_6([run], draws=50).set_index(["estimator", "among"])
    assert best.loc[("hard", 2), "cost"].tolist() == pytest.approx([made["cost"]] * 2)  # ten = K! for K = 2
    assert best.loc[("hard", 2), "ordering"].tolist() == ["1,2", "1,2"]


def test_correlations_are_scipys_and_the_frames_name_the_protocol():
    run = planted(verdict="feedback")
    table = permutation.table_2([run], draws=100).set_index("measure")
    mean = np.round(picks(run).mean(axis=1) @ run.scores, 9)  # equal means tie, whatever the rounding
    once = picks(run)[:, 0] @ run.scores
    for measure, of in (("pearson", stats.pearsonr), ("spearman", stats.spearmanr)):
        assert table.loc[measure, "permutation"] == pytest.approx(of(mean, run.ratings).statistic)
        assert table.loc[measure, "repeat"] == pytest.approx(of(once, run.ratings).statistic)
        assert table.loc[measure, "low"] < table.loc[measure, "difference"] < table.loc[measure, "high"]
    assert set(table["protocol"]) == {"feedback"}
    assert "the paper's judges write feedback" in pools.protocol_note([run])
    assert "differ" in pools.protocol_note([run, planted()])


def test_a_full_run_gives_the_tables_of_its_ten_orderings():
    full, ten = planted(design="full"), planted()
    for of in (paper.figure_5, paper.table_4, paper.table_5):
        np.testing.assert_allclose(
            of([full]).select_dtypes("number").to_numpy(float),
            of([ten]).select_dtypes("number").to_numpy(float),
            atol=1e-9,
        )
    table = paper.table_6([full], draws=50).set_index(["estimator", "among"])
    r = [stats.pearsonr(column, full.ratings).statistic for column in (full.probs() @ full.scores).T]
    for among in (10, 120):
        row = table.loc[("soft", among)]
        run = full if among == 120 else ten
        o = [",".join(map(str, o.values((1, 2, 3, 4, 5)))) for o in full.orderings].index(row["ordering"])
        assert row["cost"] == pytest.approx(bias_cost(score_position_matrix(run), row["ordering"]))
        costs = [bias_cost(score_position_matrix(run), o) for o in run.orderings]
        assert row["cost"] == pytest.approx(min(costs))
        members = r if among == 120 else [r[full.orderings.index(o)] for o in ten.orderings]
        assert row["corr_rank"] == 1 + sum(x > r[o] + 1e-12 for x in members)
        assert row["low"] <= row["corr_rank"] <= row["high"] <= row["of"] == among
    missing = paper.table_6([ten], draws=50).set_index(["estimator", "among"]).loc[("soft", 120)]
    assert np.isnan(missing["corr_rank"])
    assert "not all of these orderings were read" in missing["note"]
    with pytest.raises(NotObserved, match="--orderings balanced"):
        paper.figure_5([planted(design="cyclic")])


def test_figure_5_intervals_are_those_of_the_mean():
    run = planted(count=200)
    row = paper.figure_5([run], draws=2000).set_index(["estimator", "position"]).loc[("soft", 1)]
    first = np.take_along_axis(run.probs(), run.shown[None, :, :1], axis=2).mean(axis=(1, 2))
    assert row["share"] == pytest.approx(first.mean())
    assert row["high"] - row["low"] == pytest.approx(2 * stats.sem(first) * stats.t.ppf(0.975, 199), rel=0.07)


def test_runs_without_ratings_have_no_correlations_and_constant_scores_have_a_reason():
    run = named(planted_run(BIASED, unrated_items(10)))
    assert permutation.table_2([run]).empty
    assert paper.table_4([run]).empty
    assert paper.table_6([run], draws=10)["note"].tolist() == ["no ratings"] * 4
    same = planted("quality_scale=0;label=0,0,0,0,5")
    row = permutation.table_2([same], draws=10).iloc[0]
    assert np.isnan(row["permutation"])
    assert row["note"].startswith("degenerate: permutation")
    assert paper.table_4([same], draws=10)["note"].str.startswith("degenerate").all()
    one = named(planted_run(BIASED, rated_items(12, clusters=1)))
    assert np.isnan(permutation.table_2([one], draws=10)["low"]).all()
    assert paper.table_4([one], draws=10)[["low", "high"]].to_numpy().tolist() == [[1, 10]] * 2


# --- repeat ---------------------------------------------------------------------------------------------------------


def test_repeat_at_a_temperature_is_drawn_from_the_powers():
    run = planted(count=12)
    again = repeats.repeat(run, temperature=2.0, n=5, draws=20_000)
    q = run.probs()[:, 0] ** 0.5
    q /= q.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(again.score, q @ run.scores, atol=1e-12)
    np.testing.assert_allclose(again.sd**2, q @ run.scores**2 - (q @ run.scores) ** 2, atol=1e-12)
    np.testing.assert_allclose(again.draws.mean(axis=0), again.score, atol=0.03)
    np.testing.assert_allclose(again.draws.var(axis=0), again.sd**2 / 5, rtol=0.08)
    cold = repeats.repeat(run, temperature=0.001, draws=3)
    np.testing.assert_allclose(cold.score, repeats.repeat(run).score, atol=1e-6)
    assert repeats.repeat(run).draws is None


def test_repeat_at_a_temperature_has_a_range_around_its_expectation():
    row = permutation.table_2([planted()], temperature=1.0, draws=300).iloc[0]
    assert row["repeat_low"] < row["repeat"] < row["repeat_high"]
    assert "p^(1/1)" in row["how"]
    half = row["high"] - row["difference"]  # draws of the repeat are part of its uncertainty
    assert half > (row["repeat_high"] - row["repeat_low"]) / 2 * 0.95
    assert permutation.table_3([planted()], temperature=1.0)["repeat"].iloc[0] > 0


def test_judges_that_write_must_be_sampled():
    for about in ({"verdict": "feedback"}, {"option_tokens": 2}):
        with pytest.raises(NotObserved, match="--verdict sampled"):
            repeats.repeat(planted(**about), temperature=0.7)
    with pytest.raises(InputError, match="temperature -1"):
        repeats.repeat(planted(), temperature=-1)
    with pytest.raises(NotObserved, match="nothing to repeat"):
        repeats.repeat(named(planted_run(BIASED, rated_items(3), "reverse")))


def test_sampled_runs_are_repeats_and_permutations():
    run = planted(verdict="feedback", count=30)
    one = pools.only(run, np.array([0]))
    rng = np.random.default_rng(0)
    answers = rng.integers(1, 6, (30, 1, 4)).astype(float)
    answers[0, 0, :3] = np.nan
    other = sampled(one, answers, verdict="sampled")
    again = repeats.repeat(run, sampled=other)
    np.testing.assert_allclose(again.score, np.nanmean(answers[:, 0], axis=1))
    np.testing.assert_allclose(again.sd[1:], answers[1:, 0].std(axis=1, ddof=1))
    assert np.isnan(again.sd[0])
    table = permutation.table_2([run], sampled=[other], draws=20)
    assert table["how"].iloc[0] == "sampled: 4 texts an item"
    with pytest.raises(InputError, match="2 sampled runs"):
        permutation.table_2([run], sampled=[other, other])
    ten = sampled(run, picks(run).argmax(axis=2)[..., None] + 1.0, verdict="sampled")
    row = permutation.table_2([ten], draws=20).iloc[0]
    assert np.isnan(row["identity_expected"])
    assert row["permutation"] == pytest.approx(permutation.table_2([run], draws=20).iloc[0]["permutation"])
    assert set(paper.figure_5([ten], draws=20)["estimator"]) == {"hard"}


def test_the_placebo_is_the_mean_of_rewordings():
    run = planted(count=20)
    words = [named(pools.only(planted(count=20, seed=s), np.array([0]))) for s in range(3)]
    words = [replace(word, items=run.items) for word in words]
    row = permutation.table_2([run], placebo=words, draws=20).iloc[0]
    mean = np.mean([picks(word)[:, 0] @ word.scores for word in words], axis=0)
    assert row["placebo"] == pytest.approx(stats.pearsonr(mean, run.ratings).statistic)
    assert row["placebos"] == 3
    assert permutation.table_2([run], draws=20).iloc[0]["placebos"] == 0


# --- pools ----------------------------------------------------------------------------------------------------------


def test_pools_count_items_or_datasets_alike():
    runs = [planted(data="a.jsonl", count=10), planted(data="b.jsonl", count=30, seed=1), planted(model="other")]
    first, second = pools.pool(runs, "items")
    assert (first.model, second.model, len(first.runs)) == ("judge-8B", "other", 2)
    joined = first.matrix("hard")
    single = [score_position_matrix(run, "hard") for run in runs[:2]]
    np.testing.assert_allclose(joined.picks, single[0].picks + single[1].picks)
    k = 2
    wanted = sum(m.picks[k] * m.values[k] for m in single) / joined.picks[k]
    np.testing.assert_allclose(joined.values[k], wanted, atol=1e-12)
    even = pools.pool(runs, "datasets")[0]
    np.testing.assert_allclose(even.matrix("hard").values, np.mean([m.values for m in single], axis=0), atol=1e-12)
    np.testing.assert_allclose(
        even.position_distribution("soft"),
        np.mean([score_position_matrix(run).position_distribution() for run in runs[:2]], axis=0),
    )


def test_a_dataset_without_a_row_leaves_it_to_the_others():
    never = planted("label=0,0,-40,0,0", data="a.jsonl", count=10)
    runs = [never, planted(data="b.jsonl", count=10)]
    found = pools.pool(runs, "datasets")[0].matrix("hard")
    np.testing.assert_allclose(found.values[2], score_position_matrix(runs[1], "hard").values[2])
    alone = pools.pool([never, replace(never, provenance={**never.provenance})], "datasets")[0].matrix("hard")
    assert alone.reasons[2] == "score 3 was never picked"


def test_pools_refuse_what_does_not_fit():
    with pytest.raises(InputError, match="one design"):
        pools.pool([planted(), planted(design="full")])
    with pytest.raises(InputError, match="way to pool"):
        pools.pool([planted()], "readings")


def test_names_are_short():
    made = named(planted(), "/home/me/models/Qwen3-8B/", "summeval:/data/x.jsonl?criteria=coherence")
    assert pools.about(made)[:2] == ("Qwen3-8B", "summeval?criteria=coherence")
    assert pools.about(replace(made, provenance={})) == ("-", "-", "-")


# --- claims ---------------------------------------------------------------------------------------------------------


def test_p_is_the_binomial():
    holds = dict.fromkeys("abcdefg", True) | {"b": False}
    made = claims.claim("c", "", holds, [0.5] * 7)
    assert made.p == pytest.approx(stats.binomtest(6, 7, 0.5, alternative="greater").pvalue)
    assert made.attainable == pytest.approx(0.5**7)
    mixed = claims.claim("c", "", {"a": True, "b": False}, [0.1, 0.3])
    assert mixed.p == pytest.approx(1 - 0.9 * 0.7)
    assert claims.claim("c", "", {}, []).p is None


def test_claims_hold_of_judges_in_which_they_were_planted():
    runs = [
        planted("position=1.2,0.3,0,0,0.6", "small-1B", "a.jsonl"),
        planted("position=1.2,0.3,0,0,0.6", "small-1B", "b.jsonl", seed=1),
        planted("position=0.4,0.1,0,0,0.2", "small-9B", "a.jsonl"),
        planted("position=0.4,0.1,0,0,0.2", "small-9B", "b.jsonl", seed=1),
        planted("position=-0.8,0,0,0.5,0", "other", "a.jsonl"),
        planted("position=-0.8,0,0,0.5,0", "other", "b.jsonl", seed=1),
    ]
    found = {claim.name: claim for claim in claims.claims(runs, "soft")}
    assert found["first_position_preferred"].holds == {"small-1B": True, "small-9B": True, "other": False}
    assert found["first_position_preferred"].p == pytest.approx(0.5)
    assert found["direction_is_the_models"].count == 3
    assert found["direction_is_the_models"].attainable == pytest.approx(0.125)
    assert found["smaller_models_worse"].holds == {"small-1B / small-9B": True}
    assert found["smaller_models_worse"].attainable == 0.5
    assert found["ends_and_second"].holds == {"small-1B": True, "small-9B": True, "other": False}
    assert found["same_on_all_datasets"].count == 3
    assert found["same_on_all_datasets"].p == pytest.approx(0.2**3)
    assert found["primacy_and_recency"].holds["other"] is False
    assert found["recency"].holds["small-1B"] is True
    frame = claims.to_frame(tuple(found.values()))
    assert (frame["p"].dropna() >= frame["attainable"].dropna() - 1e-12).all()
    assert {"cheapest_in_the_better_half", "permutation_helps", "less_bias_is_not_better_agreement"} <= set(found)


def test_tau_over_models_is_exact():
    for n in (3, 4, 5):
        rng = np.random.default_rng(n)
        a, b = rng.normal(size=n), rng.normal(size=n)
        tau, p, least = claims._kendall(a, b)
        oracle = stats.kendalltau(a, b, alternative="greater", method="exact")
        assert (tau, p) == (pytest.approx(oracle.statistic), pytest.approx(oracle.pvalue))
        assert least == pytest.approx(1 / np.prod(np.arange(1, n + 1)))


def test_claims_want_one_protocol_and_sizes_can_be_given():
    with pytest.raises(InputError, match="one protocol"):
        claims.claims([planted(), planted(verdict="feedback")])
    runs = [planted("position=1,0,0,0,0", "gpt mini"), planted("position=0.1,0,0,0,0", "gpt")]
    assert claims.smaller_models_worse(runs).p is None
    same = {"gpt mini": 8.0, "gpt": 80.0}
    named_runs = [named(runs[0], "gpt-4.1"), named(runs[1], "gpt-4.2")]
    assert claims.smaller_models_worse(named_runs, sizes={"gpt-4.1": 1.0, "gpt-4.2": 2.0}).count == 1
    assert claims.smaller_models_worse(runs, sizes=same).p is None  # two families


# --- the script -----------------------------------------------------------------------------------------------------


def test_the_script_prints_every_table(tmp_path):
    import logitjudge as lj

    items = [replace(item, fields={"instruction": "x", "response": "y"}) for item in rated_items(24)]
    for name, spec in (("a", BIASED), ("b", "position=0.3,0,0,0,0")):
        lj.judge(f"planted:{spec}", items, rubric="helpfulness", orderings="balanced", out=tmp_path / name)
    done = subprocess.run(
        [
            sys.executable,
            ROOT / "scripts" / "paper_tables.py",
            tmp_path / "a",
            tmp_path / "b",
            "--draws",
            "20",
            "--csv",
            tmp_path,
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for heading in ("Figure 5", *(f"Table {n}" for n in range(2, 7)), "The claims"):
        assert heading in done.stdout
    text = " ".join(done.stdout.split())
    assert "Protocol: direct; the paper's judges write feedback" in text
    assert "not run" in text
    assert "0 by construction at temperature 0" in text
    assert "nan" not in text.lower().replace("nanmean", "")
    assert len(list(tmp_path.glob("*.csv"))) == 7
    wrong = subprocess.run(
        [sys.executable, ROOT / "scripts" / "paper_tables.py", tmp_path / "x"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (wrong.returncode, wrong.stderr.startswith("error: there is no run")) == (2, True)
