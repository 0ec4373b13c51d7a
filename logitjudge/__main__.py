"""``python -m logitjudge``."""

import sys

from logitjudge.cli import main

if __name__ == "__main__":
    sys.exit(main())
