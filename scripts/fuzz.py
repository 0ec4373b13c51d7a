#!/usr/bin/env python3
"""Fuzz every reader of outside files: no traceback, no hang, no memory without end, nothing outside the folder that was named.

python scripts/fuzz.py --seconds 600 [--seed 0]
python scripts/fuzz.py --only rubrics --seed 12 --rounds 1     # a failure again, as it was printed

Hypothesis makes valid files and damages them: one value becomes another (another type, huge, not finite, nested, half a surrogate
pair), or bytes are cut, changed and put in. An outcome is right where the reader succeeds, or raises an `InputError` in words; on the
command line where the exit code is a known one and no traceback is printed. Every example runs in a cage, an empty folder: what a
name, a template or a YAML tag makes outside the folder that was named is found there. Exit code 1 where something failed.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import io
import json
import os
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

os.environ |= {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "OMP_NUM_THREADS": "1", "TQDM_DISABLE": "1"}
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from hypothesis import HealthCheck, Phase, given, seed as seeded, settings, strategies as st
from hypothesis.internal.conjecture import engine

from logitjudge import (
    datasets,
    judging,
    models,
    orderings,
    pairing,
    probing,
    prompts,
    registry,
    rubrics,
    scored,
    shards,
    store,
    sweep,
)
from logitjudge.backends._planted_spec import Planted
from logitjudge.cli import main as command
from logitjudge.core import ItemSet
from logitjudge.errors import InputError

LIMIT = 10  # seconds of one example
ROOM = 6 << 30  # bytes of address space beyond what is there at the start
GROWTH = 1 << 20  # KiB that one target may add to the largest memory
EXAMPLES = 30  # of a target in one round
LONGEST = 20_000  # characters of a message
CODES = {0, 1, 2, 3, 4}
PLANTED = "planted:position=0.5,0,0;quality_sd=1"
CAGE = Path(tempfile.gettempdir()) / f"logitjudge-fuzz-{os.getpid()}"
INSIDE, OUT = CAGE / "in", CAGE / "out"
BASES = Path(f"{CAGE}-bases")
THREE = {"name": "three", "criterion": "Is it true?", "levels": [{"score": k, "text": f"text {k}"} for k in (1, 2, 3)]}
ROWS = [
    {"id": f"i{n}", "instruction": f"Say {n}.", "response": f"It is {n}.", "human": 1 + n % 3, "system": "ab"[n % 2]}
    for n in range(4)
]
PAIRS = [
    {"id": f"p{n}", "instruction": "Say.", "response_1": f"one {n}", "response_2": "two", "gold": 1 + n % 2}
    for n in range(3)
]
PROMETHEUS = (
    "###The instruction to evaluate:\nSay.\n\n###Response to evaluate:\nIt is.\n\n###Reference Answer (Score 5):\nYes.\n\n"
    "###Score Rubrics:\n[Good?]\nScore 1: a\nScore 2: b\nScore 3: c\nScore 4: d\nScore 5: e\n\n###Feedback:"
)
HANNA = "Prompt,Human,Story,Model,Relevance,Coherence,Empathy,Surprise,Engagement,Complexity\np,h,s,m,1,2,3,4,5,1\n"
ADAPTERS: dict[str, Any] = {  # dataset -> a whole file of it: a value of JSON, JSON lines (a tuple), or a text
    "mt_bench": [
        {
            "idx": 0,
            "instruction": PROMETHEUS,
            "response_source": "x",
            "category": "c",
            "gpt4_score": [1, 2, 3],
            "gpt4_feedback": ["", "", ""],
        }
    ],
    "vicuna_bench": ({"idx": 0, "instruction": PROMETHEUS, "response_source": "x"},),
    "llmbar": [{"input": "Say.", "output_1": "one", "output_2": "two", "label": 1}],
    "evalbiasbench": {"length": [{"instruction": "Say.", "response1": "one", "response2": "two", "label": 1}]},
    "summeval": (
        {
            "id": "a",
            "model_id": "M1",
            "decoded": "s",
            "text": "t",
            "expert_annotations": [{"coherence": 1, "consistency": 2, "fluency": 3, "relevance": 4}] * 3,
        },
    ),
    "hanna": HANNA,
}
SWEEP = {
    "models": [{"model": PLANTED, "name": "one"}, "planted:position=0,0,1"],
    "data": ["in/items.jsonl"],
    "rubrics": ["in/rubric.yaml"],
    "designs": ["cyclic", "1,2,3;3,2,1"],
    "defaults": {"limit": 2, "seed": 0},
    "exclude": [{"models": "one", "designs": "cyclic"}],
}
POINTS = [{"name": "truth", "points": 3, "text": "Is it true?"}, {"name": "care", "points": 2}]
TEMPLATE = (
    "---\nsystem: You judge.\nprefill: 'The score is '\nlevel_line: '{{ option }} = {{ text }}'\nverdicts:\n"
    "  feedback: {marker: '[RESULT]', lead: ' '}\n---\n{{ instruction }}\n{{ response }}\n{{ criterion_line }}\n{{ levels }}\n"
)
ATTACKS = (
    "{{ ''.__class__.__mro__ }}",
    "{{ cycler.__init__.__globals__.os.mkdir('%s') }}",
    "{{ levels[0].__class__.__init__.__globals__ }}",
    "{{ levels | attr('__class__') }}",
    "{{ '%%s' | format(levels.__init__) }}",
    "{{ lipsum(n=99999) }}",
    "{{ 'a' * 10**12 }}",
    "{{ 10**10**8 }}",
    "{{ range(10**9) | list }}",
    "{{ (levels * 10**9) | length }}",
    "{{ 'x' | center(10**11) }}",
    "{%% include '/etc/passwd' %%}",
    "{%% set x = namespace() %%}{%% set x.a = x %%}{{ x.a.a }}",
    "{{ '{0.__class__}'.format(levels) }}",
    "{{ '%%1000000000d' %% 1 }}",
    "{{ self.__init__ }}",
)
TAGS = (
    "!!python/object/apply:os.mkdir ['%s']",
    "!!python/name:os.system",
    "!!python/object:os.stat_result {}",
    "!!binary aGk=",
    "!!set {a, b}",
    "2026-01-02",
    "!!omap [a: 1]",
    "&a [*a]",
    "{<<: 1}",
    "? [1, 2]\n: 3",
    "1_000",
    "0o17",
    "0x" + "f" * 300,
    "9" * 5000,
    "{1: a, 1: b}",
)
ESCAPE = CAGE / "escape"  # nothing may ever be there


# --- values and damage ---------------------------------------------------------------------------------------------

NAMES = ("../escape", "../../escape", str(ESCAPE), "..", ".", "a/../../escape", "/", "a\0b", "x" * 300, "con", "-", "~")
TEXTS = st.one_of(
    st.sampled_from(
        ["", " ", "1", "nan", "1e999", "\ud800", "a\udfffb", "\u2028", "\x00", "{{ 7 * 7 }}", "[", "{", "true"]
    ),
    st.sampled_from(NAMES),
    st.sampled_from(["9" * 5000, "x" * 100_000, "[" * 3000, "<script>alert(1)</script>", "=1+1", "{% for %}", "inf"]),
    st.text(max_size=12),
)
NUMBERS = st.one_of(
    st.sampled_from([0, -1, 1, 2, 7, 2**31, 2**63, 2**64, 10**400, -(10**400), 0.5, -0.0, 1e308, 1e-320, 10**6]),
    st.sampled_from([float("nan"), float("inf"), float("-inf")]),
    st.integers(-10, 10),
    st.floats(allow_nan=False),
)
PLAIN = st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS)
VALUES = st.one_of(
    PLAIN,
    st.recursive(
        PLAIN, lambda part: st.lists(part, max_size=3) | st.dictionaries(TEXTS, part, max_size=3), max_leaves=6
    ),
    st.sampled_from([40, 900, 3000]).map(lambda depth: _deep(depth)),
)


def _deep(depth: int) -> Any:
    made: Any = 1
    for n in range(depth):
        made = [made] if n % 2 else {"a": made}
    return made


def places(value: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Paths of all parts of a value of JSON."""
    yield above
    if len(above) > 20:
        return
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list | tuple) else ()
    for key, part in parts:
        yield from places(part, (*above, key))


def damaged(draw: Callable[..., Any], value: Any, most: int = 2) -> Any:
    """A value of JSON with some of its parts replaced, removed, repeated, or given another name."""
    made = json.loads(json.dumps(value))
    for _ in range(draw(st.integers(0, most))):
        made = _hit(draw, made)
    return made


def _hit(draw: Callable[..., Any], value: Any) -> Any:
    *above, last = draw(st.sampled_from([*places(value)])) or [None]
    if last is None:
        return draw(VALUES)
    parent = value
    for key in above:
        parent = parent[key]
    kind = draw(st.sampled_from(["replace", "replace", "replace", "remove", "repeat", "rename"]))
    if kind == "replace":
        parent[last] = draw(VALUES)
    elif kind == "remove":
        del parent[last]
    elif isinstance(parent, list):
        parent.insert(last, parent[last])
    else:
        parent[draw(TEXTS)] = parent[last] if kind == "repeat" else parent.pop(last)
    return value


def bitten(draw: Callable[..., Any], data: bytes, most: int = 3) -> bytes:
    """Bytes of which some were cut out, changed, repeated, or put in."""
    for _ in range(draw(st.integers(0, most))):
        at = draw(st.integers(0, len(data)))
        end = draw(st.integers(at, min(len(data), at + 40)))
        new = draw(
            st.one_of(
                st.binary(max_size=8),
                st.just(data[at:end] * 2),
                st.sampled_from([b"\xff\xfe", b"\0" * 8, b"\xff" * 8, b"\n", b'"']),
            )
        )
        data = data[:at] if draw(st.integers(0, 9)) == 0 else data[:at] + new + data[end:]
    return data


def text_of(value: Any) -> str:
    """JSON as a careless program writes it: NaN, halves of surrogate pairs."""
    with contextlib.suppress(RecursionError):
        return json.dumps(value, ensure_ascii=True)
    return "[" * 100_000


def write(draw: Callable[..., Any], path: Path, text: str | bytes) -> Path:
    """Write a file, in one case of four with damaged bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    data = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    path.write_bytes(bitten(draw, data) if draw(st.integers(0, 3)) == 0 else data)
    return path


def tried(call: Callable[..., Any], *args: Any, **named: Any) -> Any:
    """What a reader gives; None where it refuses in words."""
    try:
        return call(*args, **named)
    except InputError as error:
        message = str(error)
        assert message.strip(), "an error without words"
        assert len(message) < LONGEST, f"a message of {len(message):,} characters: {message[:300]} ..."
        return None


def said(*words: str) -> int:
    """Exit code of a command; a traceback, an unknown code or text that cannot be printed is a failure."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors=how) for how in ("strict", "backslashreplace"))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = command(list(words))
    err.flush()
    message = err.buffer.getvalue().decode()
    assert "Traceback (most recent call last)" not in message, f"{' '.join(words)}\n{message[-3000:]}"
    assert code in CODES, f"exit code {code}: {' '.join(words)}"
    assert len(message) < LONGEST, f"stderr has {len(message):,} characters: {message[:300]} ..."
    return code


# --- targets: each takes hypothesis' draw --------------------------------------------------------------------------


def rows_of(draw: Callable[..., Any]) -> list[Any]:
    """Rows of items or of pairs, damaged."""
    made: list[Any] = damaged(draw, draw(st.sampled_from([ROWS, PAIRS, [{**row, "rubric": THREE} for row in ROWS]])))
    return made if isinstance(made, list) else [made]


def items(draw: Callable[..., Any]) -> None:
    """Item files of every suffix; where one is read, it is judged too."""
    suffix = draw(st.sampled_from([".jsonl", ".csv", ".parquet", ".json", ".tsv", ""]))
    path = INSIDE / f"items{suffix}"
    if suffix == ".parquet":
        write(draw, path, parquet(draw))
    else:
        write(draw, path, spread(draw) if suffix in (".csv", ".tsv") else "\n".join(map(text_of, rows_of(draw))))
    if (made := tried(datasets.load, str(path), limit=draw(st.sampled_from([None, 1, 3])))) is not None:
        judged(draw, made, path)


def judged(draw: Callable[..., Any], made: ItemSet, path: Path) -> None:
    """Judge what was read, now and then by the command."""
    if draw(st.integers(0, 3)) == 0:
        said(
            "run",
            "--model",
            PLANTED,
            "--data",
            str(path),
            "--out",
            str(OUT),
            "--rubric",
            "in/rubric.yaml",
            "--limit",
            "3",
        )
        return
    pairs = "response_1" in made.items[0].fields
    with_rubric = {} if pairs else {"rubric": draw(st.sampled_from(["item", "in/rubric.yaml"]))}
    model = PLANTED if not pairs else "planted:slot=0.5"
    if tried(pairing.pairwise if pairs else judging.judge, model, made, out=OUT, **with_rubric) is not None:
        said("show", str(OUT))
        said("report", str(OUT), "--out", str(OUT / "report.html"))


def spread(draw: Callable[..., Any]) -> str:
    """A CSV file of rows, with quotes missing here and there."""
    rows = [row for row in rows_of(draw) if isinstance(row, dict)] or ROWS
    quote = draw(st.sampled_from(['"', '"', ""]))
    cells = [[*rows[0]], *([row.get(name, "") for name in rows[0]] for row in rows)]
    texts = [[cell if isinstance(cell, str) else text_of(cell) for cell in row] for row in cells]
    return "\n".join(",".join(quote + text[:200_000].replace('"', '""') + quote for text in row) for row in texts)


def parquet(draw: Callable[..., Any]) -> bytes:
    """A Parquet file whose columns have odd types."""
    columns: dict[str, Any] = {
        name: pa.array([str(row[name]) for row in ROWS]) for name in ("id", "instruction", "response")
    }
    for _ in range(draw(st.integers(0, 2))):
        name = draw(
            st.sampled_from(["id", "instruction", "response", "human", "rubric", "cluster", "messages", "system"])
        )
        columns[name] = odd(draw, 4)
    sink = io.BytesIO()
    with contextlib.suppress(pa.ArrowInvalid):  # seconds that are too many to be milliseconds: the file is cut off
        pq.write_table(pa.table(columns), sink)
    return sink.getvalue()


def odd(draw: Callable[..., Any], length: int) -> pa.Array:
    """A column of some type of Arrow's."""
    kinds: list[tuple[Any, Any]] = [
        (1, pa.timestamp("ns", "UTC")), (2**62, pa.timestamp("us")), (b"\xff", pa.binary()), ([1.5, None], pa.list_(pa.float64())),
        ({"a": 1}, pa.struct([("a", pa.int32())])), ([("k", 1)], pa.map_(pa.string(), pa.int32())), (None, pa.null()),
        (3, pa.duration("s")), (1, pa.date32()), ("x", pa.dictionary(pa.int8(), pa.string())), (float("nan"), pa.float32()),
        (2**63, pa.uint64()), (True, pa.bool_()), ([], pa.list_(pa.list_(pa.int8()))), ("x" * 10_000, pa.large_string()),
        (2**40, pa.time64("us")), (-(2**62), pa.timestamp("s")), (2**31 - 1, pa.int32()), (-5.0, pa.float64()),
    ]  # fmt: skip
    value, kind = draw(st.sampled_from(kinds))
    values = [value if draw(st.booleans()) else None for _ in range(length)]
    return pa.array(values, type=kind)


def adapters(draw: Callable[..., Any]) -> None:
    """Files of the known data sets, and their options."""
    name = draw(st.sampled_from(sorted(ADAPTERS)))
    base = ADAPTERS[name]
    if isinstance(base, str):
        rows = damaged(draw, [line.split(",") for line in base.splitlines()])
        text = "\n".join(",".join(row) for row in rows if _cells(row)) if isinstance(rows, list) else str(rows)
    elif isinstance(base, tuple):
        made = damaged(draw, list(base))
        text = "\n".join(map(text_of, made)) if isinstance(made, list) else text_of(made)
    else:
        text = text_of(damaged(draw, base))
    path = write(draw, INSIDE / "data.json", text)
    option = draw(
        st.sampled_from(["", "", "?systems=x", "?criteria=", "?rotate=true", "?biases=length", "?subsets=all", "?a&b"])
    )
    tried(datasets.load, f"{name}:{path}{option}", limit=draw(st.sampled_from([None, 2])))


def _cells(row: Any) -> bool:
    return isinstance(row, list) and all(isinstance(cell, str) for cell in row)


def specs(draw: Callable[..., Any]) -> None:
    """Texts of the command line: data, orderings, planted judges, shards, models, plug-ins."""
    seeds = ["balanced", "random:20", "1,2,3;3,2,1", "latin:2", "demo", "mt_bench:x?systems=a", "planted:mass=0.5", "2/8", "a/b",
             "position=0.5,0,0;first=0.1", "interaction=3:0.5", "seed=1", "shared:cyclic", "x.py:y", "~a"]  # fmt: skip
    text = draw(st.one_of(st.sampled_from(seeds), TEXTS, st.sampled_from(seeds).map(str.encode).flatmap(_bitten_text)))
    tried(orderings.parse, text, draw(st.sampled_from([(1, 2, 3), (0, 1), tuple(range(1, 13))])))
    tried(Planted.parse, text)
    tried(shards.parse, text)
    tried(datasets.load, text)
    tried(rubrics.load, text)
    tried(prompts.load, text)
    tried(models.parse, text)
    if (judge := tried(models.parse, f"planted:{text}")) is not None:
        tried(judging.judge, f"planted:{judge.name}", "in/items.jsonl", rubric="in/rubric.yaml", out=OUT)
    for trace in (text, f"shared:{text}"):
        tried(
            judging.judge, PLANTED, "in/items.jsonl", rubric="in/rubric.yaml", out=OUT, verdict="feedback", trace=trace
        )


@st.composite
def _bitten_text(draw: Callable[..., Any], data: bytes) -> str:
    return bitten(draw, data).decode("utf-8", "replace")


def bomb(draw: Callable[..., Any]) -> str:
    """A short YAML text that means a value of 10 ** 9 parts."""
    lines = ["a: &a [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"{new}: &{new} [{', '.join([f'*{old}'] * 10)}]" for old, new in zip("abcdefgh", "bcdefghi", strict=True)]
    return "\n".join(
        [*lines, f"{draw(st.sampled_from(['criterion', 'levels', 'models', 'data', 'defaults', 'criteria', 'x']))}: *i"]
    )


def yaml_of(draw: Callable[..., Any], value: Any) -> str:
    """YAML of a damaged value, perhaps with a tag in it, or a bomb."""
    if draw(st.integers(0, 15)) == 0:
        return bomb(draw)
    try:
        made = damaged(draw, value)
        text = draw(st.sampled_from([yaml.safe_dump, text_of]))(made)
    except (RecursionError, yaml.YAMLError):
        text = "[" * 20_000
    if draw(st.integers(0, 4)) == 0:
        tag = draw(st.sampled_from(TAGS)).replace("%s", str(ESCAPE))
        found = [*re.finditer(r"(?<=: )[^\n]*$", text, re.MULTILINE)]
        spot = draw(st.sampled_from(found)) if found else None
        text = text[: spot.start()] + tag + text[spot.end() :] if spot else tag
    return text


def rubric_files(draw: Callable[..., Any]) -> None:
    """Rubric files, ours and Prometheus'."""
    other = {"criteria": "Is it true?", **{f"score{k}_description": f"text {k}" for k in (1, 2, 3)}}
    base = draw(st.sampled_from([THREE, other]))
    suffix = draw(st.sampled_from([".yaml", ".json"]))
    text = yaml_of(draw, base) if suffix == ".yaml" else text_of(damaged(draw, base))
    path = write(draw, INSIDE / f"mine{suffix}", text)
    if tried(rubrics.load, path) is not None and draw(st.integers(0, 2)) == 0:
        said(
            "run",
            "--model",
            "planted:quality_sd=1",
            "--data",
            "in/items.jsonl",
            "--out",
            str(OUT),
            "--rubric",
            str(path),
        )


def templates(draw: Callable[..., Any]) -> None:
    """Templates: damaged, and hostile."""
    attack = draw(st.sampled_from(["", *ATTACKS])).replace("%%", "%").replace("%s", str(ESCAPE))
    front, body = TEMPLATE.split("---\n")[1:]
    if draw(st.booleans()):
        front = yaml_of(draw, yaml.safe_load(front)) + "\n"
    text = (
        f"---\n{front}---\n{body}{attack}" if draw(st.integers(0, 4)) else f"---\nlevel_line: '{attack}'\n---\n{body}"
    )
    path = write(draw, INSIDE / "mine.j2", text)
    verdict = draw(st.sampled_from(["direct", "feedback"]))
    if tried(prompts.load, path, verdict) is None:
        return
    if draw(st.integers(0, 3)) == 0:
        said("prompts", "--data", "in/items.jsonl", "--rubric", "in/rubric.yaml", "--template", str(path))
    tried(judging.judge, PLANTED, "in/items.jsonl", rubric="in/rubric.yaml", template=path, out=OUT)


def criteria(draw: Callable[..., Any]) -> None:
    """Files of criteria with points."""
    base = draw(st.sampled_from([POINTS, {"criteria": POINTS}]))
    path = write(draw, INSIDE / "points.yaml", yaml_of(draw, base))
    if tried(scored.criteria_of, path) is not None and draw(st.booleans()):
        tried(scored.scored_pairs, "planted:slot=0.5", "in/pairs.jsonl", points=path, out=OUT)


def sweeps(draw: Callable[..., Any]) -> None:
    """Sweep files: planned, priced, and now and then judged."""
    path = write(draw, INSIDE / "sweep.yaml", yaml_of(draw, SWEEP))
    if (runs := tried(sweep.planned, path)) is None or len(runs) > 8:
        return
    how = draw(st.integers(0, 5))
    if how == 0:
        said("sweep", str(path), "--out", str(OUT), "--dry-run")
    elif how == 1:
        said("sweep", str(path), "--out", str(OUT))
    elif how < 4:
        tried(sweep.sweep, path, OUT)


def probes(draw: Callable[..., Any]) -> None:
    """Parameters of the probes, from Python and from the command line."""
    name = draw(st.sampled_from(registry.names("probes")))
    known = [*probing.parameters_of(name), "nonsense"]
    given = {draw(st.sampled_from(known)): draw(VALUES) for _ in range(draw(st.integers(0, 2)))}
    made = tried(probing.make, name, given)
    if made is not None and draw(st.integers(0, 3)) == 0:
        tried(
            probing.run_probe,
            "planted:quality_sd=1",
            name,
            "in/items.jsonl",
            out=OUT,
            limit=2,
            orderings="cyclic",
            parameters=given,
        )
    if draw(st.integers(0, 5)) == 0:
        sets = [word for key, value in given.items() for word in ("--set", f"{key}={value}"[:500])]
        said(
            "probe",
            name,
            "--model",
            "planted:quality_sd=1",
            "--data",
            "in/items.jsonl",
            "--out",
            str(OUT),
            "--limit",
            "2",
            *sets,
        )


def run_folders(draw: Callable[..., Any]) -> None:
    """Run folders of every kind, one file of which is damaged."""
    kind = draw(st.sampled_from(["run", "run", "pairs", "written", "sampled", "unfinished"]))
    shutil.copytree(BASES / kind, OUT)
    spoil(draw, OUT)
    partial = draw(st.booleans())
    run = tried(store.load_run, OUT, partial=partial, aliases=draw(st.sampled_from(["ignore", "ignore", "sum"])))
    if run is not None:
        for look in (run.readings, run.traces, run.top_tokens, run.to_frame, run._repr_html_, run.__repr__):
            tried(look)
        tried(models.from_dict, run.provenance["model"])
    words = draw(st.sampled_from(LOOKS))
    said(
        *(word.replace("OUT", str(OUT)).replace("BASE", str(BASES / "run")) for word in words),
        *["--partial"][: partial and words[0] in PARTIAL],
    )
    if draw(st.integers(0, 5)) == 0:
        tried(shards.merge, CAGE / "out2", [OUT])
    if draw(st.integers(0, 5)) == 0:
        tried(judging.judge, PLANTED, "in/items.jsonl", rubric="in/rubric.yaml", out=OUT)


PARTIAL = ("show", "report")
LOOKS = [
    ("show", "OUT"), ("show", "OUT", "--json"), ("show", "OUT", "--section", "all"), ("report", "OUT", "--out", "OUT/report.html"),
    ("report", "OUT", "--json"), ("compare", "OUT", "BASE"), ("calibrate", "OUT"), ("select", "OUT", "--draws", "5"),
    ("plan", "OUT", "--budget", "50", "--draws", "5"), ("prompts", "OUT", "--item", "i0", "--ordering", "1,2,3"),
    ("detect", "OUT", "--scores", "in/scores.csv", "--ordering", "1,2,3", "--draws", "100"), ("card", "OUT"),
    ("export", "OUT", "--scores", "OUT/s.csv"), ("export", "OUT", "--soft-labels", "OUT/s.jsonl"),
    ("export", "OUT", "--without-texts", "OUT/copy"), ("export", "OUT", "--review", "OUT/r.jsonl"),
]  # fmt: skip


def submissions(draw: Callable[..., Any]) -> None:
    """Files of scores that somebody submitted."""
    rows = damaged(draw, [{"id": f"i{n}", "score": 1 + n % 3} for n in range(4)])
    suffix = draw(st.sampled_from([".csv", ".jsonl"]))
    kept = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    cells = (
        [",".join(kept[0]), *(",".join(text_of(part)[:5000] for part in row.values()) for row in kept)] if kept else []
    )
    path = write(draw, INSIDE / f"mine{suffix}", "\n".join(cells if suffix == ".csv" else map(text_of, kept)))
    ordering = draw(st.one_of(st.just("1,2,3"), TEXTS))[:300]
    said("detect", str(BASES / "run"), "--scores", str(path), "--ordering", ordering, "--draws", "100")


def spoil(draw: Callable[..., Any], folder: Path) -> None:
    """Damage one file of a folder: its values by its kind, or its bytes; or remove it, or put a folder there."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("."))
    path = draw(st.sampled_from([*files, *(file for file in files if file.suffix == ".json")]))
    how = draw(st.integers(0, 19))
    if how == 0:
        path.unlink()
    elif how == 1:
        path.unlink()
        path.mkdir()
    elif path.suffix == ".parquet" and how < 12:
        path.write_bytes(column(draw, path))
    elif path.suffix == ".json" and how < 16:
        path.write_text(text_of(damaged(draw, json.loads(path.read_text()))))
    elif path.suffix == ".jsonl" and how < 16:
        rows = damaged(draw, [json.loads(line) for line in path.read_text().splitlines()])
        path.write_text("\n".join(map(text_of, rows if isinstance(rows, list) else [rows])))
    else:
        path.write_bytes(bitten(draw, path.read_bytes()))


def column(draw: Callable[..., Any], path: Path) -> bytes:
    """A Parquet file with a column that is gone, of another type, or of other values, or with rows moved about."""
    table = pq.ParquetFile(path).read()
    name = draw(st.sampled_from(table.column_names))
    at, how = table.column_names.index(name), draw(st.sampled_from(["drop", "odd", "values", "rows", "shift"]))
    if how == "drop":
        table = table.drop_columns([name])
    elif how == "odd":
        table = table.set_column(at, name, odd(draw, len(table)))
    elif how == "values" and len(table):
        values, kind = table[name].to_pylist(), table.schema.field(name).type
        other = None if values[0] is None else draw(st.sampled_from([None, *_others(values[0])]))
        values[draw(st.integers(0, len(values) - 1))] = other
        table = table.set_column(at, name, pa.array(values, type=kind))
    elif how == "rows":
        chosen = draw(st.lists(st.integers(0, max(0, len(table) - 1)), max_size=len(table)))
        table = table.take(pa.array(chosen, type=pa.int64()))
    elif len(table):
        table = table.set_column(at, name, table[name].take([*range(1, len(table)), 0]))
    sink = io.BytesIO()
    pq.write_table(table, sink)
    return sink.getvalue()


def _others(value: Any) -> list[Any]:
    """Values of the same type, but not of this kind of run."""
    if isinstance(value, list):
        numbers = (
            [[v] * (len(value) or 1) for v in (float("nan"), float("inf"), -1e308, 3.5)]
            if value[:1] and isinstance(value[0], float)
            else []
        )
        return [[], [*value, *value], value[:1], *numbers]
    if isinstance(value, str):
        return ["", "../escape", "x" * 5000]
    return [-1, 2**31 - 1] if isinstance(value, int) else [float("nan"), float("inf"), -1e308]


def folders(draw: Callable[..., Any]) -> None:
    """Folders of probes, of a sweep, and of pairs with points."""
    kind = draw(st.sampled_from(["card", "sweep", "points"]))
    shutil.copytree(BASES / kind, OUT)
    top = {"card": "probe.json", "sweep": "sweep.json", "points": "scored.json"}[kind]
    tops = [*OUT.rglob(top), *OUT.rglob("failed.json")]
    if draw(st.integers(0, 3)):
        path = draw(st.sampled_from(sorted(tops)))
        path.write_text(text_of(damaged(draw, json.loads(path.read_text()))))
    else:
        spoil(draw, OUT)
    if kind == "card":
        tried(probing.results, OUT)
        said(
            *draw(
                st.sampled_from(
                    [
                        ("card", str(OUT)),
                        ("card", str(OUT), "--out", str(OUT / "card.html"), "--json"),
                        ("report", str(OUT), "--out", str(OUT / "r.html")),
                    ]
                )
            )
        )
    elif kind == "sweep":
        tried(sweep.status, OUT)
        said("sweep", "--status", str(OUT))
    else:
        tried(scored.load_scored, OUT)
        said("show", str(OUT))


def model_folders(draw: Callable[..., Any]) -> None:
    """Model folders: configuration, tokenizer, header of the weights."""
    shutil.copytree(BASES / "model", OUT)
    path = draw(st.sampled_from(sorted(OUT.iterdir())))
    if path.suffix == ".json" and draw(st.integers(0, 4)):
        path.write_text(text_of(damaged(draw, json.loads(path.read_text()), 1)))
    elif path.suffix == ".safetensors" and draw(st.integers(0, 4)):
        path.write_bytes(tensors(draw, path.read_bytes()))
    else:
        path.write_bytes(bitten(draw, path.read_bytes()))
    if (spec := tried(models.parse, str(OUT))) is None:
        return
    tried(models.fingerprint, spec)
    tried(models.open_tokenizer, spec)
    tried(
        judging.judge,
        str(OUT),
        "in/items.jsonl",
        rubric="in/rubric.yaml",
        orderings="cyclic",
        limit=1,
        out=CAGE / "out2",
    )


def tensors(draw: Callable[..., Any], data: bytes) -> bytes:
    """A safetensors file with a damaged header."""
    size = int.from_bytes(data[:8], "little")
    head = text_of(damaged(draw, json.loads(data[8 : 8 + size]), 1)).encode()
    claimed = draw(st.sampled_from([len(head), len(head), 0, 2**62, size]))
    return claimed.to_bytes(8, "little") + head + data[8 + size :]


TARGETS: dict[str, Callable[[Callable[..., Any]], None]] = {
    "items": items, "adapters": adapters, "specs": specs, "rubrics": rubric_files, "templates": templates, "criteria": criteria,
    "sweeps": sweeps, "submissions": submissions, "probes": probes, "runs": run_folders, "folders": folders, "models": model_folders,
}  # fmt: skip


# --- running -------------------------------------------------------------------------------------------------------


def prepare() -> None:
    """Make whole folders of every kind, once."""
    import tiny_models

    from logitjudge.probes import position  # noqa: F401  (imported here, so that no example pays for it)

    cage()
    BASES.mkdir(parents=True, exist_ok=True)
    judging.judge(PLANTED, "in/items.jsonl", rubric="in/rubric.yaml", out=BASES / "run")
    judging.judge(
        PLANTED, "in/items.jsonl", rubric="in/rubric.yaml", out=BASES / "unfinished", shard="1/2", max_batch_tokens=1
    )
    pairing.pairwise("planted:slot=0.5", "in/pairs.jsonl", out=BASES / "pairs")
    scored.scored_pairs("planted:slot=0.5", "in/pairs.jsonl", points=INSIDE / "points.yaml", out=BASES / "points")
    tiny_models.save(BASES / "model")
    small: dict[str, Any] = {"rubric": "in/rubric.yaml", "limit": 2, "orderings": "cyclic", "max_new_tokens": 4}
    for name, more in (("written", {"verdict": "feedback", "unended": "close"}), ("sampled", {"verdict": "sampled"})):
        judging.judge(str(BASES / "model"), "in/items.jsonl", out=BASES / name, **small, **more)
    for name in ("position", "formatting"):
        probing.run_probe(
            "planted:quality_sd=1", name, "in/items.jsonl", out=BASES / "card", limit=2, rubric="in/rubric.yaml"
        )
    (INSIDE / "sweep.yaml").write_text(yaml.safe_dump({**SWEEP, "data": [*SWEEP["data"], "in/none.jsonl"]}))
    sweep.sweep(INSIDE / "sweep.yaml", BASES / "sweep")


def cage() -> None:
    """An empty cage with good files in it, and we in it."""
    os.chdir("/")
    shutil.rmtree(CAGE, ignore_errors=True)
    INSIDE.mkdir(parents=True)
    os.chdir(CAGE)
    (INSIDE / "items.jsonl").write_text("\n".join(map(json.dumps, ROWS)))
    (INSIDE / "pairs.jsonl").write_text("\n".join(map(json.dumps, PAIRS)))
    (INSIDE / "rubric.yaml").write_text(yaml.safe_dump(THREE))
    (INSIDE / "points.yaml").write_text(yaml.safe_dump(POINTS))
    (INSIDE / "scores.csv").write_text("id,score\n" + "\n".join(f"i{n},{1 + n % 3}" for n in range(4)))


def strays() -> list[str]:
    """What lies outside the folders that were named."""
    beside = [*CAGE.iterdir(), *CAGE.parent.glob("escape*"), *Path("/").glob("escape*")]
    return [str(path) for path in beside if path not in (INSIDE, OUT, CAGE / "out2")]


@contextlib.contextmanager
def watched() -> Iterator[None]:
    """End an example that takes longer than `LIMIT`, and say so, whatever catches the exception on its way."""
    late = []

    def ring(*_: Any) -> None:
        late.append("".join(traceback.format_stack(limit=12)))
        signal.setitimer(signal.ITIMER_REAL, 2)  # it may be caught
        raise TimeoutError(f"more than {LIMIT} s")

    signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, LIMIT)
    faulthandler.dump_traceback_later(12 * LIMIT, exit=True)  # where no Python runs; the files are left in the cage
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        faulthandler.cancel_dump_traceback_later()
        if late:
            raise AssertionError(f"an example took longer than {LIMIT} s:\n{late[0]}")


class Over(BaseException):
    """The time is out; no Exception, so that hypothesis lets it pass."""


def round_of(name: str, seed: int, until: float) -> BaseException | None:
    """Run a target's examples of one seed; its shrunk failure, if any."""
    first, over = True, False

    @seeded(seed)
    @settings(
        max_examples=EXAMPLES, database=None, deadline=None, phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck), report_multiple_bugs=False,
    )  # fmt: skip
    @given(st.data())
    def examples(data: Any) -> None:
        nonlocal first, over
        if first and time.monotonic() > until:
            over = True
            raise Over
        cage()
        try:
            with watched():
                TARGETS[name](lambda strategy: data.draw(strategy))
            assert not strays(), f"written outside the folder that was named: {strays()}"
        except (Exception, pa.ArrowException) as error:
            if not type(error).__module__.startswith("hypothesis"):
                first = False  # from here it is shrunk: time is no matter
            raise

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        examples()
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # Rust's panics are no Exceptions
        return None if over else error
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return MemoryError(f"memory grew by {grown >> 10:,} MiB") if grown > GROWTH else None


def told(name: str, seed: int, error: BaseException) -> None:
    """Print a failure, with its example and how to see it again."""
    notes = "\n".join(str(note)[:3000] for note in getattr(error, "__notes__", []))
    stack = "".join(traceback.format_tb(error.__traceback__)[-10:])
    print(f"\n=== {name}, seed {seed}\n{stack[-5000:]}\n{type(error).__name__}: {str(error)[:3000]}\n{notes}")
    print(f"again: {sys.executable} scripts/fuzz.py --only {name} --seed {seed} --rounds 1", flush=True)


def main() -> int:
    """Run all targets in turns until the time is out."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--seconds", type=float, default=60)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--only", choices=sorted(TARGETS), action="append")
    options.add_argument("--rounds", type=int, default=10**9, help="of each target")
    asked = options.parse_args()
    warnings.simplefilter("ignore")
    engine.MAX_SHRINKING_SECONDS = 20  # of one failure; no setting of hypothesis says it
    prepare()
    space = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize() + ROOM
    resource.setrlimit(resource.RLIMIT_AS, (space, space))
    until, counts, failed = time.monotonic() + asked.seconds, dict.fromkeys(asked.only or TARGETS, 0), 0
    for turn in range(asked.rounds):
        for name in counts:
            if time.monotonic() < until:
                counts[name] += 1
                if (error := round_of(name, asked.seed + turn, until)) is not None:
                    failed += 1
                    told(name, asked.seed + turn, error)
        if time.monotonic() >= until:
            break
    os.chdir("/")
    shutil.rmtree(CAGE, ignore_errors=True)
    shutil.rmtree(BASES, ignore_errors=True)
    print(f"{failed} failures; rounds of {EXAMPLES} examples: {', '.join(f'{n} {c}' for n, c in counts.items())}")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
