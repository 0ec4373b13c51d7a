"""A real Ray cluster of two nodes on this machine: a node is killed in mid-run, and the run is the one of a single process."""

import json
import os
import subprocess
import sys
import time

import pytest
import tiny_models

import logitjudge as lj
from logitjudge import cli
from logitjudge.errors import InputError

os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"  # Ray then binds to 127.0.0.1, and looks for others there
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
pytestmark = [pytest.mark.ray, pytest.mark.filterwarnings("ignore")]  # Ray has warnings of its own

OPTIONS = {"rubric": "helpfulness", "limit": 30, "orderings": "cyclic", "max_batch_tokens": 1500, "seed": 3}
JUDGE = "planted:position=0.8,0,0,0,0.3;quality_sd=1;order_noise=0.5"


@pytest.fixture
def cluster(one_thread, monkeypatch):
    import ray
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))  # workers import the same code
    made = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 1, "include_dashboard": False},
    )
    yield made
    ray.shutdown()
    made.shutdown()


def whole(folder):
    return (folder / "readings" / "all.parquet").read_bytes()


def test_a_node_is_lost_and_nothing_else(cluster, tmp_path):
    tiny = str(tiny_models.save(tmp_path / "m"))
    second = cluster.add_node(num_cpus=1)
    cluster.wait_for_nodes()
    alone = lj.judge(tiny, "demo", out=tmp_path / "alone", **OPTIONS)
    batches = len(alone.provenance["batches"])
    assert batches >= 6
    lost = []

    def lose(progress):
        sessions = json.loads((tmp_path / "far" / "run.json").read_text())["sessions"] if progress.read else []
        if len(sessions) == 2 and not lost:
            lost.append(progress.read)
            cluster.remove_node(second, allow_graceful=False)
        elif not lost:
            time.sleep(2)  # the second worker still opens its judge, and the first shall not have read all by then

    far = lj.judge(
        tiny,
        "demo",
        out=tmp_path / "far",
        engine="ray",
        workers=2,
        ray_address=cluster.address,
        progress=lose,
        **OPTIONS,
    )
    assert lost
    assert lost[0] < len(alone.items)
    assert len({session["node"] for session in far.provenance["sessions"]}) == 2
    assert whole(tmp_path / "far") == whole(tmp_path / "alone")
    assert far.provenance["noise_floor"] == alone.provenance["noise_floor"]


def test_where_the_only_worker_is_lost_the_run_waits_for_another(cluster, tmp_path):
    cluster.wait_for_nodes()
    given = {**OPTIONS, "max_batch_tokens": 9000, "engine": "ray", "ray_address": cluster.address}
    nodes = [cluster.add_node(num_cpus=2)]
    done = []

    def lose(progress):
        if progress.read and not done:
            done.append(progress.read)
            cluster.remove_node(nodes[0], allow_graceful=False)
            nodes.append(cluster.add_node(num_cpus=2))

    lj.judge(JUDGE, "demo", out=tmp_path / "alone", **{**OPTIONS, "max_batch_tokens": 9000})
    lj.judge(JUDGE, "demo", out=tmp_path / "r", workers=3, progress=lose, **given)
    assert len(nodes) == 2
    assert whole(tmp_path / "r") == whole(tmp_path / "alone")


def test_the_command_and_what_cannot_be(cluster, tmp_path, capsys):
    words = ["run", "--model", JUDGE, "--data", "demo", "--rubric", "helpfulness", "--limit", "4", "--engine", "ray"]
    there = ["--ray-address", cluster.address, "--out", str(tmp_path / "r")]
    assert cli.main([*words, *there, "--workers", "9"]) == 2
    assert "room for 1" in capsys.readouterr().err
    assert not (tmp_path / "r").exists()
    assert cli.main([*words, *there, "--workers", "auto"]) == 0
    with pytest.raises(InputError, match="cannot be loaded|no model folder"):
        lj.judge("./nothing", "demo", out=tmp_path / "x", engine="ray", ray_address=cluster.address)


def test_no_cluster_is_said(tmp_path):
    code = (
        "import sys; from logitjudge import cli; sys.exit(cli.main(['run', '--model', 'planted', '--data', 'demo', '--out', "
        f"{str(tmp_path / 'r')!r}, '--engine', 'ray', '--ray-address', '127.0.0.1:1']))"
    )
    made = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert made.returncode == 2
    assert "there is no Ray cluster at 127.0.0.1:1" in made.stderr
