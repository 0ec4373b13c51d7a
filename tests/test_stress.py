"""Ten kills at random instants, as `scripts/stress.py` does them by the hundred: nothing lost, nothing twice."""

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[1] / "scripts" / "stress.py"


def test_ten_kills_at_random_instants_lose_nothing():
    made = subprocess.run(
        [sys.executable, SCRIPT, "kills", "--count", "10"], capture_output=True, text=True, check=False
    )
    assert made.returncode == 0, made.stdout + made.stderr
    assert made.stdout.startswith("10 kills")
    assert "0 lost, 0 double, 0 unreadable, 0 set aside" in made.stdout
