"""What a notebook shows, as plain values, and where two executions of it differ.

Text must be the same but for runs of blanks and what numpy pads (0.12 to the width of 0.1234), whole numbers too. A number with
digits behind the point may differ by 0.01, and by one in its last place where it has fewer than two (24.8 %): processors differ in
the last bits of a float32 model, a result
does not. Of an image only its being there is compared.
"""

import re
from itertools import zip_longest

NUMBER = re.compile(r"([-−]?\d+\.\d+(?:e[-+]?\d+)?)")
PADDED = re.compile(r" (?=[,\])])|(?<=[\[(]) ")
AROUND = 60  # characters


def shown(cell):
    """(kind, text) of everything that a code cell shows; of an image, no text."""
    made = []
    for output in cell.get("outputs", []):
        if output["output_type"] == "stream":
            if made and made[-1][0] == output["name"]:
                made[-1] = (output["name"], made[-1][1] + _text(output["text"]))
            else:
                made.append((output["name"], _text(output["text"])))
        elif output["output_type"] == "error":
            made.append(("error", f"{output['ename']}: {output['evalue']}"))
        else:
            for kind, value in sorted(output["data"].items()):
                made.append(("image", "") if kind.startswith("image/") else (kind, _text(value)))
    return made


def _text(value):
    return value if isinstance(value, str) else "".join(value)


def code_cells(notebook):
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def differences(name, stored, new):
    """One message for each code cell whose outputs have changed: notebook, cell (from 1, code cells only), stored and new."""
    made = []
    for n, (old, now) in enumerate(zip_longest(code_cells(stored), code_cells(new), fillvalue={}), start=1):
        for before, after in zip_longest(shown(old), shown(now), fillvalue=("nothing", "")):
            if found := _apart(before, after):
                made.append(f"{name}, code cell {n}: stored {found[0]}, new {found[1]}")
                break
    return made


def _apart(before, after):
    """The stored and the new piece around the first difference, or None."""
    if before[0] != after[0]:
        return f"{before[0]} {before[1][:AROUND]!r}", f"{after[0]} {after[1][:AROUND]!r}"
    pieces = [NUMBER.split("\n".join(map(_bare, text.splitlines()))) for _, text in (before, after)]
    for n, (a, b) in enumerate(zip_longest(*pieces, fillvalue="")):
        if not (_near(a, b) if n % 2 else a == b):
            return tuple(f"{before[0]} {_around(part, n, a, b)!r}" for part in pieces)
    return None


def _bare(line):
    """A line without what numpy and terminals pad."""
    return PADDED.sub("", " ".join(line.split()))


def _near(a, b):
    if not (a and b):
        return False
    places = max(len(re.search(r"\.(\d+)", number)[1]) for number in (a, b))
    one, two = (float(number.replace("−", "-")) for number in (a, b))
    return abs(one - two) <= max(0.01, 10.0**-places) * (1 + 1e-9)


def _around(pieces, n, a, b):
    """The text around the first character that differs in piece n."""
    same = next((c for c, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    begin = len("".join(pieces[:n])) + same
    return "".join(pieces)[max(0, begin - AROUND) : begin + AROUND]
