import numpy as np
import pytest
from planted_runs import case_file, case_run, planted_run, rated_items, rubric_of, run_of, unrated_items

from logitjudge.errors import InputError, NoLogProbabilities, NotObserved
from logitjudge.measures.decomposition import ON, decomposition
from logitjudge.orderings import parse
from logitjudge.run import Run, SampledRun

ALL = "position=0.8,0,0,0,0.3;interaction=3:0.4;order_noise=0.3;item_position_sd=0.2"
FOUR = "position=0.8,0,0,0.3;interaction=3:0.4;order_noise=0.3;item_position_sd=0.2"
CLR = ["score", "position", "score x position", "left"]
CLR += [f"item x {name}" for name in CLR]


@pytest.mark.parametrize("case", case_file("decomposition")["cases"], ids=lambda case: case["name"])
def test_cases_that_can_be_checked_by_hand(case):
    if "probs" in case:
        run = case_run(case["probs"], case["orderings"])
    else:
        logp = np.array(case["logp"], dtype=float)
        scores = tuple(range(1, logp.shape[2] + 1))
        run = Run(logp, np.zeros(logp.shape), unrated_items(len(logp)), parse(case["orderings"], scores), scores)
    found = decomposition(run, case["on"])
    assert found.total == pytest.approx(case["total"])
    assert [term.name for term in found.terms] == [
        name for name in order_of(case["on"]) if name in case["squares"] or True
    ]
    for term in found.terms:
        squares = case["squares"].get(term.name)
        assert term.squares == (None if squares is None else pytest.approx(squares, abs=1e-12))
        assert bool(term.reason) >= (squares is None)
    for name, freedom in case["freedom"].items():
        assert found[name].freedom == freedom
    for name, chance in case["chance"].items():
        assert found[name].chance == pytest.approx(chance, abs=1e-12)


def order_of(on):
    if on == "clr":
        return CLR
    common = ["position", "score x position", "left"]
    return [*common, "item", *(f"item x {name}" for name in common)]


@pytest.mark.parametrize("on", ON)
@pytest.mark.parametrize(
    "design", ["balanced", "cyclic", "full", "random:10", "williams", "identity", "1,2,3,4,5;2,1,3,4,5"]
)
def test_shares_add_up_whatever_the_design(on, design):
    found = decomposition(planted_run(ALL, rated_items(9), design), on)
    assert sum(term.share for term in found.terms if term.share is not None) == pytest.approx(1, abs=1e-9)
    assert sum(term.squares for term in found.terms if term.squares is not None) == pytest.approx(found.total)
    orderings = len(parse(design, range(1, 6)))
    whole = 9 * orderings * 4 if on == "clr" else 9 * orderings - 1
    assert sum(term.freedom for term in found.terms) == whole


@pytest.mark.parametrize("design", ["balanced", "full", "cyclic", "random:6", "random:20"])
def test_clr_equals_a_regression_on_dummies(design):
    """An oracle in long form: the drop of the residual as each term's columns are added, for all items at once."""
    run = planted_run(FOUR, rated_items(4, 4), design, rubric_of(4))
    items, orders, levels = run.logp.shape
    y = (run.logp - run.logp.mean(axis=2, keepdims=True)).ravel()
    i, o, k = (index.ravel() for index in np.indices(run.logp.shape))
    p = np.array([ordering.position_of for ordering in run.orderings])[o, k]
    reading = np.eye(items * orders)[i * orders + o]

    def dummies(code):
        made = np.eye(code.max() + 1)[code]
        return made - reading @ (reading.T @ made) / levels

    columns = {
        "score": dummies(k),
        "position": dummies(p),
        "score x position": dummies(k * levels + p),
        "left": dummies(o * levels + k),
        "item x score": dummies(i * levels + k),
        "item x position": dummies(i * levels + p),
        "item x score x position": dummies((i * levels + k) * levels + p),
    }
    found = decomposition(run)
    x, before = np.zeros((len(y), 0)), (y**2).sum()
    for name, new in columns.items():
        x = np.hstack([x, new])
        after = ((y - x @ np.linalg.lstsq(x, y, rcond=1e-9)[0]) ** 2).sum()
        assert (found[name].squares or 0) == pytest.approx(before - after, abs=1e-8), name
        before = after
    assert (found["item x left"].squares or 0) == pytest.approx(before, abs=1e-8)


@pytest.mark.parametrize("design", ["balanced", "full", "random:20"])
def test_expected_score_equals_a_regression_on_dummies(design):
    run = planted_run(FOUR, rated_items(4, 4), design, rubric_of(4, first=3))
    e = run.probs() @ run.scores
    items, orders = e.shape
    y = (e - e.mean()).ravel()
    i, o = (index.ravel() for index in np.indices(e.shape))
    places = np.array([ordering.position_of for ordering in run.orderings])
    indicator = np.eye(4)[places]  # (O, K, P)
    by_position = np.einsum("okp,k->op", indicator, run.scores.astype(float))
    cells = indicator.reshape(orders, -1)
    own = np.eye(items)[i]

    def each(columns):
        return (own[:, :, None] * columns[o][:, None, :]).reshape(len(y), -1)

    columns = {
        "position": by_position[o],
        "score x position": cells[o],
        "left": np.eye(orders)[o],
        "item": own,
        "item x position": each(by_position),
        "item x score x position": each(cells),
    }
    found = decomposition(run, "expected")
    x, before = np.ones((len(y), 1)), (y**2).sum()
    for name, new in columns.items():
        x = np.hstack([x, new])
        after = ((y - x @ np.linalg.lstsq(x, y, rcond=1e-9)[0]) ** 2).sum()
        assert (found[name].squares or 0) == pytest.approx(before - after, abs=1e-9), name
        before = after


@pytest.mark.parametrize(
    ("levels", "design", "freedom"),
    [
        (5, "cyclic", (4, 4, 12, 0)),
        (4, "cyclic", (3, 3, 6, 0)),
        (3, "balanced", (2, 2, 4, 4)),
        (4, "balanced", (3, 3, 8, 10)),
        (5, "balanced", (4, 4, 16, 16)),
        (6, "balanced", (5, 5, 24, 26)),
        (5, "full", (4, 4, 16, 456)),
        (5, "identity", (4, 0, 0, 0)),
        (2, "full", (1, 1, 0, 0)),
    ],
)
def test_what_a_design_identifies(levels, design, freedom):
    """Cyclic leaves no residual; balanced is whole for odd K and one dimension short for even K."""
    found = decomposition(planted_run("order_noise=1", rated_items(3, levels), design, rubric_of(levels)))
    assert tuple(found[name].freedom for name in CLR[:4]) == freedom
    for term in found.terms:
        assert (term.squares is None) == (term.freedom == 0)
        short = term.freedom == 0 or (term.whole is not None and term.freedom < term.whole)
        assert bool(term.reason) == short
    assert found.balanced == (design != "identity")


def test_reasons():
    cyclic = decomposition(planted_run(ALL, rated_items(3), "cyclic"))
    assert (
        cyclic["left"].reason
        == "the run's 5 ordering(s) leave nothing: the terms before it hold noise and neighbours, too"
    )
    assert cyclic["score x position"].reason == "the run's 5 ordering(s) do not identify 4 of its 16 dimension(s)"
    identity = decomposition(planted_run(ALL, rated_items(3), "identity"))
    assert identity["position"].reason == "the run's 1 ordering(s) do not identify it"
    alone = decomposition(planted_run(ALL, rated_items(1)))
    assert alone["item x position"].reason == "there is one item"
    assert alone["position"].chance is None
    two = decomposition(planted_run("", rated_items(3, 2), "full", rubric_of(2)), "expected")
    assert two["score x position"].reason == "with two scores there is none on this scale"


def test_planted_terms_come_back():
    size = 6 * 120
    found = decomposition(planted_run("position=2,-1,0,0.5,1", rated_items(6), "full"))
    b = np.array([2, -1, 0, 0.5, 1]) - 0.5
    assert found["position"].squares == pytest.approx(size * (b**2).sum())
    for name in ("score x position", "left", "item x position", "item x score x position", "item x left"):
        assert found[name].squares == pytest.approx(0, abs=1e-9)
    found = decomposition(planted_run("interaction=3:0.8", rated_items(6), "full"))
    d = np.random.default_rng(3).normal(0, 0.8, (5, 5))
    d = d - d.mean(axis=0) - d.mean(axis=1, keepdims=True) + d.mean()
    assert found["score x position"].squares == pytest.approx(size * (d**2).sum() / 5 * 3 / 4)
    assert found["left"].squares == pytest.approx(0, abs=1e-9)
    found = decomposition(planted_run("item_position_sd=1", rated_items(6), "full"))
    assert found["item x position"].share > 0.1
    for name in ("score x position", "left", "item x score x position", "item x left"):
        assert found[name].squares == pytest.approx(0, abs=1e-9)


def test_noise_alone_shows_what_chance_says():
    noisy = [decomposition(planted_run(f"order_noise=1;seed={s}", unrated_items(40))) for s in range(60)]
    for name in ("position", "score x position", "left"):
        ratio = [found[name].share / found[name].chance for found in noisy]
        assert np.mean(ratio) == pytest.approx(1, abs=0.25)
    biased = decomposition(planted_run("order_noise=1;position=1,0,0,0,0", unrated_items(40)))
    assert biased["position"].share > 20 * biased["position"].chance


def test_frames_and_names():
    found = decomposition(planted_run(ALL, rated_items(4)))
    frame = found.to_frame()
    assert list(frame["name"]) == CLR
    assert list(frame.columns) == ["name", "freedom", "whole", "squares", "share", "chance", "reason"]
    assert "<table" in found._repr_html_()
    with pytest.raises(InputError, match="unknown term 'positon'.*Did you mean 'position'"):
        found["positon"]
    with pytest.raises(InputError, match="unknown scale 'logit'"):
        decomposition(planted_run(ALL, rated_items(4)), "logit")


@pytest.mark.parametrize("on", ON)
def test_nothing_to_decompose(on):
    flat = run_of(np.full((3, 2, 2), 0.5), "1,2;2,1")
    with pytest.raises(NotObserved, match="no variance"):
        decomposition(flat, on)
    run = planted_run("", rated_items(3))
    with pytest.raises(NoLogProbabilities):
        decomposition(SampledRun(np.ones((3, 10, 2)), run.items, run.orderings, run.scores), on)
