"""Several processes read what one reads; one that dies is replaced, and nothing is lost or there twice."""

import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import BrokenExecutor, Future

import pytest
import tiny_models

import logitjudge as lj
from logitjudge import models, workers
from logitjudge.backends import OutOfMemory
from logitjudge.errors import InputError, ModelError, NotFinite, TemplateError
from logitjudge.prompts import MissingField
from logitjudge.workers import Crew, Died, Job

OPTIONS = {"rubric": "helpfulness", "limit": 12, "orderings": "cyclic", "max_batch_tokens": 1500, "seed": 3}
JUDGE = "planted:position=0.8,0,0,0,0.3;quality_sd=1;order_noise=0.5"


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return str(tiny_models.save(tmp_path_factory.mktemp("tiny") / "m"))


def whole(folder):
    return (folder / "readings" / "all.parquet").read_bytes()


def test_two_processes_read_what_one_reads_also_when_one_is_killed(one_thread, tiny, tmp_path):
    alone = lj.judge(tiny, "demo", out=tmp_path / "alone", **OPTIONS)
    assert len(alone.provenance["batches"]) >= 6
    killed = []

    def kill(progress):
        if progress.read and len(killed) < 2:
            child = multiprocessing.active_children()[len(killed)]
            killed.append(child.pid)
            child.kill()

    both = lj.judge(tiny, "demo", out=tmp_path / "both", workers=2, progress=kill, **OPTIONS)
    assert len(set(killed)) == 2
    assert whole(tmp_path / "both") == whole(tmp_path / "alone")
    assert both.provenance["noise_floor"] == alone.provenance["noise_floor"]
    assert len(both.provenance["sessions"]) >= 2
    assert not multiprocessing.active_children()


def test_texts_are_written_by_workers_too(one_thread, tiny, tmp_path):
    given = {**OPTIONS, "limit": 2, "verdict": "sampled", "temperature": 1.0, "max_new_tokens": 4}
    for n in (1, 2):
        lj.judge(tiny, "demo", out=tmp_path / str(n), workers=n, **given)
    one, two = (sorted((p.name, p.read_bytes()) for p in (tmp_path / n / "traces").iterdir()) for n in "12")
    assert one == two


def test_workers_go_on_with_a_run_of_one(tmp_path):
    given = {**OPTIONS, "max_batch_tokens": 9000}
    lj.judge(JUDGE, "demo", out=tmp_path / "r", shard="1/2", **given)
    lj.judge(JUDGE, "demo", out=tmp_path / "r", workers=2, **given)
    lj.judge(JUDGE, "demo", out=tmp_path / "alone", **given)
    assert whole(tmp_path / "r") == whole(tmp_path / "alone")


def test_a_worker_that_always_dies_ends_the_run_with_words(tiny, tmp_path):
    going = threading.Event()

    def killer():
        while not going.wait(0.05):
            for child in multiprocessing.active_children():
                child.kill()

    thread = threading.Thread(target=killer)
    thread.start()
    try:
        with pytest.raises(ModelError, match=r"worker 1 of 2 died as it opened the judge, 3 times.*out of memory"):
            lj.judge(tiny, "demo", out=tmp_path / "r", workers=2, **OPTIONS)
    finally:
        going.set()
        thread.join()
    assert not (tmp_path / "r").exists()


def test_what_a_worker_refuses_is_said_as_it_is(tiny, tmp_path):
    with pytest.raises(ModelError, match="device 'cpu' cannot|unknown|cannot be loaded"):
        lj.judge(tiny, "demo", out=tmp_path / "r", workers=2, model_kwargs={"attn_implementation": "none"}, **OPTIONS)
    assert not multiprocessing.active_children()


SCRIPT = """
import sys
import logitjudge as lj
if __name__ == "__main__":
    lj.judge(sys.argv[1], "demo", out=sys.argv[2], workers=2, rubric="helpfulness", orderings="full", max_batch_tokens=1,
             progress=lambda p: print(p.read, flush=True))
"""


class Odd(Exception):  # noqa: N818
    """An error that pickles, and cannot be made again."""

    def __init__(self, *parts, held=None):
        super().__init__(" ".join(parts))
        self.held = held
        if len(parts) < 2:
            raise TypeError("too little")


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (Odd("odd", "thing"), RuntimeError, "^Odd: odd thing$"),
        (Odd("odd", "thing", held=threading.Lock()), RuntimeError, "^Odd: odd thing$"),
        (MissingField("t", "name"), TemplateError, "^template 't' prints the field 'name'"),
        (NotFinite("nan"), NotFinite, "^nan$"),
        (OutOfMemory("full"), OutOfMemory, "^full$"),
        (ValueError("bad"), ValueError, "^bad$"),
        (PermissionError(13, "closed"), OSError, "^PermissionError: .*closed"),
        (KeyError("k"), RuntimeError, "^KeyError: 'k'$"),
    ],
)
def test_an_error_that_cannot_be_sent_is_said_and_is_no_death(error, kind, text):
    def fail():
        raise error

    future = Future()
    with pytest.raises(workers.Told) as told:
        workers._telling(fail)
    future.set_exception(pickle.loads(pickle.dumps(told.value)))
    with pytest.raises(kind, match=text):
        workers.translated(future, BrokenExecutor, workers._own).result()


def _children(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return [int(child) for child in file.read().split()]


def _alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
def test_no_worker_outlives_its_run(tmp_path, how):
    (tmp_path / "s.py").write_text(SCRIPT)
    with subprocess.Popen(
        [sys.executable, str(tmp_path / "s.py"), JUDGE, str(tmp_path / "r")],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    ) as process:  # fmt: skip
        while process.stdout.readline().strip() not in ("3", "4", "5", "6"):
            assert process.poll() is None
        found = _children(process.pid)
        assert len([child for child in found if _alive(child)]) >= 2
        (os.killpg if how == signal.SIGINT else os.kill)(process.pid, how)
        process.wait(20)
    end = time.monotonic() + 10
    while any(map(_alive, found)) and time.monotonic() < end:
        time.sleep(0.05)
    assert not any(map(_alive, found))
    assert len(list((tmp_path / "r" / "readings").glob("part-*"))) >= 1


# --- the crew ------------------------------------------------------------------------------------------------------


class Fake:
    """A worker whose answers a test gives: `answers` maps a call to a value or to an exception."""

    def __init__(self, name, answers, opens=None):
        self.name, self.answers, self.opens = name, answers, opens or []
        self.opened = self.closed = 0
        self.calls = []

    def open(self, task, head):
        self.opened += 1
        return self._future(self.opens.pop(0) if self.opens else {"head": head})

    def call(self, method, *args):
        self.calls.append((method, *args))
        found = self.answers[args[0] if args else method]
        return self._future(found.pop(0) if isinstance(found, list) else found)

    def close(self):
        self.closed += 1

    @staticmethod
    def _future(value):
        future = Future()
        if isinstance(value, Exception):
            future.set_exception(value)
        elif value is not None:  # None: it never answers
            future.set_result(value)
        return future


def job(name):
    def steps():
        first = yield ("write", name)
        return name, first

    return Job(name, steps())


def test_a_call_of_a_dead_worker_is_made_again():
    one, two = Fake("one", {"a": Died("gone"), "b": Died("gone")}), Fake("two", {"a": 1, "b": 2, "c": 3})
    one.opens = [{}, None]  # when it is opened anew, it never answers
    opened = []
    with Crew("task", [one, two], lambda name, _: opened.append(name)) as crew:
        assert sorted(crew.work(map(job, "abc"))) == [("a", 1), ("b", 2), ("c", 3)]
    assert opened == ["one", "two"]
    assert (one.closed, two.closed) == (2, 1)


def test_a_batch_that_kills_every_worker_ends_the_run():
    crews = [Fake(name, {"a": Died("gone"), "b": 1}) for name in ("one", "two")]
    with (
        pytest.raises(ModelError, match="died while it worked on a, 3 times"),
        Crew("task", crews, lambda *_: None) as crew,
    ):
        list(crew.work(map(job, "a")))


def test_an_error_of_a_job_is_raised_in_its_steps():
    def steps():
        try:
            yield ("write", "a")
        except KeyError:
            return (yield ("write", "b"))

    with Crew("task", [Fake("one", {"a": KeyError("x"), "b": 7})], lambda *_: None) as crew:
        assert list(crew.work([Job("j", steps())])) == [7]


def test_nothing_to_do_opens_nothing():
    fake = Fake("one", {})
    with Crew("task", [fake], lambda *_: None) as crew:
        assert list(crew.work([])) == []
    assert fake.opened == 0


def test_one_asks_the_worker_that_is_open():
    fakes = [Fake(name, {"writing": name}) for name in ("one", "two")]
    with Crew("task", fakes, lambda *_: None) as crew:
        assert (crew.do("writing"), crew.do("writing"), crew.first) == ("one", "one", "one")
    assert fakes[1].opened == 0


# --- how many ------------------------------------------------------------------------------------------------------


def spec(**more):
    return models.ModelSpec("hub", "a/b", **more)


@pytest.fixture
def gpus(monkeypatch):
    from logitjudge.backends import devices

    def have(memory, weights=10, visible=None):
        monkeypatch.setattr(devices, "gpus", lambda: memory)
        monkeypatch.setattr(models, "weights", lambda _: weights)
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        if visible is not None:
            monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)

    return have


@pytest.mark.parametrize(
    ("memory", "weights", "visible", "wanted", "expected"),
    [
        ([80] * 4, 60, None, "auto", ["0", "1", "2", "3"]),
        ([80] * 4, 65, None, "auto", ["0,1", "2,3"]),
        ([80] * 4, 65, "7,5,3,1", "auto", ["7,5", "3,1"]),
        ([80] * 4, 9, None, "2", ["0,1", "2,3"]),
        ([80, 24], 20, None, "auto", [None]),  # both are needed by one copy: it is this process that reads
        ([80] * 2, 900, None, "auto", [None]),
        ([], 9, None, "auto", [None]),
    ],
)
def test_gpus_are_shared_out(gpus, memory, weights, visible, wanted, expected):
    gpus(memory, weights, visible)
    made = workers.local(spec(), wanted)
    found = [getattr(one, "_environment", {}).get("CUDA_VISIBLE_DEVICES") for one in made]
    assert found == expected


def test_cores_are_shared_out(gpus, monkeypatch):
    gpus([])
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 7)
    assert [one._environment for one in workers.local(spec(), "3")] == [{"OMP_NUM_THREADS": "2"}] * 3


@pytest.mark.parametrize(
    ("given", "wanted", "message"),
    [
        ({}, "0", "neither 'auto' nor a number"),
        ({}, "two", "neither 'auto' nor a number"),
        ({"device": "cuda:1"}, "2", "leave --device cuda:1 out"),
        ({"backend": "openai"}, "2", "use --concurrency"),
        ({}, "3", "this machine has 2 GPUs"),
    ],
)
def test_workers_that_cannot_be(gpus, given, wanted, message):
    gpus([80, 80])
    with pytest.raises(InputError, match=message):
        workers.local(spec(**given), wanted)


def test_a_size_that_nobody_knows_is_said(gpus):
    gpus([80, 80], None)
    with pytest.raises(InputError, match="Say how many copies: --workers N"):
        workers.local(spec(), "auto")


def test_a_loaded_model_stays_where_it_is():
    with pytest.raises(InputError, match="in this process only"):
        workers.local(models.ModelSpec("loaded", "object", model=object()), "2")


@pytest.mark.parametrize("given", [{"engine": "slurm"}, {"ray_address": "auto"}])
def test_engines_that_cannot_be(given, tmp_path):
    with pytest.raises(InputError, match="unknown engine 'slurm'|--ray-address belongs to --engine ray"):
        lj.judge(JUDGE, "demo", out=tmp_path / "r", rubric="helpfulness", **given)
    assert not (tmp_path / "r").exists()


def test_kept_workers_go_on_to_the_next_run(tmp_path):
    pids = []
    with workers.kept():
        for n in (1, 2):
            lj.judge(JUDGE, "demo", out=tmp_path / str(n), workers=2, **OPTIONS)
            pids.append(sorted(child.pid for child in multiprocessing.active_children()))
    assert pids[0][0] in pids[1]
    assert not multiprocessing.active_children()
