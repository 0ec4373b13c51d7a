#!/usr/bin/env bash
# Makes .venv ready for the tests in a browser: Playwright's driver and axe by pip, Chromium by apt where it is missing. Once; run again, it checks.
set -euo pipefail
cd "$(dirname "$0")/.."
chromium=${LOGITJUDGE_CHROMIUM:-/usr/bin/chromium}
if [ ! -x "$chromium" ]; then
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
        echo "$chromium is not there: install Chromium (as root: apt-get install chromium), or name one in LOGITJUDGE_CHROMIUM" >&2
        exit 1
    fi
    apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core
fi
source scripts/_env.sh dev,browser
"$chromium" --version 2>/dev/null || true
"$venv/bin/python" -c "
import importlib.metadata, pathlib, axe_playwright_python
axe = pathlib.Path(axe_playwright_python.__file__).parent / 'axe.min.js'
print('playwright', importlib.metadata.version('playwright'), axe.read_text(encoding='utf-8')[4:15])"
echo "ready: $venv/bin/python -m pytest -m browser"
