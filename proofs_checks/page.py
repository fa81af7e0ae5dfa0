"""A run of the audit as one page for the eye: no other file, no script, light and dark, wide and narrow.

Everything of the run is text from the record and is escaped by :func:`tag`, the only maker of markup here. The pictures of
the paper itself (the test's law, its privacy curve, good subsets of an adjacent pair) are computed by refimpl when the page
is made: no number in them is written here, except the public arguments they are drawn for.
"""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from itertools import product
from typing import Any

from proofs_checks.formats import LEGEND, failure_kind, summary, verdict_words
from proofs_checks.ptr import Budget
from proofs_checks.target import levels_of
from refimpl.covariance import stable_second_moment
from refimpl.parameters import PRINTED, REPAIRED, Edition, lambda_ell
from refimpl.ptr import ptr_pass_probability
from refimpl.reals import ExpFraction

__all__ = ["Markup", "as_html", "good_subsets_picture", "law_picture", "privacy_picture", "tag"]

Entry = Mapping[str, Any]
Point = tuple[float, float]

EPSILON, DELTA = 1, "1e-6"  # what the pictures of the law are drawn for


# Markup ---------------------------------------------------------------------------------------------------------------


class Markup(str):
    """Text that is markup already; every other string is escaped."""

    __slots__ = ()


def tag(name: str, *children: str | None, **attributes: object) -> Markup:
    """An element: ``class_`` is class, and the underscores of other attributes are hyphens; None is left out."""
    texts = [
        f' {key.rstrip("_").replace("_", "-")}="{html.escape(str(v))}"'
        for key, v in attributes.items()
        if v is not None
    ]
    inner = "".join(c if isinstance(c, Markup) else html.escape(c, quote=False) for c in children if c is not None)
    return Markup(f"<{name}{''.join(texts)}>{inner}</{name}>")


def _join(parts: Iterable[Markup]) -> Markup:
    return Markup("".join(parts))


STYLE = """
:root { color-scheme: light dark; --ground: #fcfcfb; --raised: #f2f2ef; --ink: #1c1c1a; --soft: #5c5c57; --line: #d9d9d3;
  --good: #0a6b3d; --good-ground: #dff2e6; --known: #7a4b00; --known-ground: #fbeccb; --bad: #a3122a; --bad-ground: #fbdfe2;
  --printed: #c2410c; --repaired: #1d5fc4; }
@media (prefers-color-scheme: dark) { :root { --ground: #161615; --raised: #222220; --ink: #ecece7; --soft: #a7a79f;
  --line: #3a3a36; --good: #7fd8a4; --good-ground: #14341f; --known: #f0c36b; --known-ground: #3a2b0a; --bad: #ff97a3;
  --bad-ground: #471820; --printed: #ff9b62; --repaired: #7db1ff; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.25rem clamp(.9rem, 4vw, 2.5rem) 4rem; max-width: 76rem; background: var(--ground);
  color: var(--ink); font: 1rem/1.5 system-ui, sans-serif; overflow-wrap: break-word; }
h1 { font-size: 1.6rem; line-height: 1.2; margin: .5rem 0; }
h2 { font-size: 1.2rem; margin: 2.5rem 0 .5rem; }
h3 { font-size: 1rem; margin: 0 0 .25rem; }
p { max-width: 46rem; margin: .4rem 0; }
a { color: inherit; text-underline-offset: .15em; }
.soft, figcaption, th { color: var(--soft); }
.lead { font-size: 1.1rem; font-weight: 600; }
.scroll { overflow-x: auto; -webkit-overflow-scrolling: touch; border: 1px solid var(--line); border-radius: .4rem; }
table { border-collapse: collapse; width: 100%; font-size: .875rem; }
th, td { padding: .35rem .6rem; text-align: left; vertical-align: top; border-bottom: 1px solid var(--line); }
th { font-weight: 600; background: var(--raised); }
tr:last-child > * { border-bottom: 0; }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
details h3 { margin-top: .75rem; }
.verdict { display: inline-block; padding: 0 .45rem; border-radius: .25rem; white-space: nowrap; }
.good { color: var(--good); background: var(--good-ground); }
.known { color: var(--known); background: var(--known-ground); }
.bad { color: var(--bad); background: var(--bad-ground); font-weight: 700; }
.none { color: var(--soft); padding: 0; }
.scroll .verdict { white-space: normal; }
.scroll + .scroll { margin-top: 1rem; }
.says { color: var(--soft); min-width: 11rem; }
.finding { border-left: .3rem solid var(--bad); background: var(--raised); padding: .75rem 1rem; margin: .75rem 0;
  border-radius: .25rem; }
.claim { overflow-wrap: anywhere; }
pre { margin: .4rem 0; padding: .6rem .75rem; max-height: 20rem; overflow: auto; background: var(--raised);
  border: 1px solid var(--line); border-radius: .3rem; font: .8rem/1.45 ui-monospace, monospace; }
details { border-bottom: 1px solid var(--line); padding: .5rem 0; }
summary { cursor: pointer; } summary .verdict { margin: 0 .15rem; }
figure { margin: 1.25rem 0; }
figure svg { display: block; width: 100%; min-width: 28rem; max-width: 48rem; height: auto; margin: auto; }
figcaption { max-width: 46rem; font-size: .9rem; margin-top: .5rem; }
.pictures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 32rem), 1fr)); gap: 0 2rem; }
.pictures figure { min-width: 0; }
svg text { fill: var(--ink); font: 13px system-ui, sans-serif; }
svg .soft { fill: var(--soft); }
.grid { stroke: var(--line); stroke-width: 1; fill: none; }
.printed { stroke: var(--printed); } .repaired { stroke: var(--repaired); }
text.printed { fill: var(--printed); stroke: none; } text.repaired { fill: var(--repaired); stroke: none; }
.curve { fill: none; stroke-width: 2.25; stroke-linejoin: round; }
.dot.printed { fill: var(--printed); stroke: none; } .dot.repaired { fill: var(--repaired); stroke: none; }
.allowed { fill: none; stroke: var(--printed); stroke-width: 1.5; stroke-dasharray: 5 4; }
.violated { fill: var(--bad); fill-opacity: .22; stroke: none; }
text.violated { fill: var(--bad); fill-opacity: 1; font-weight: 600; }
.aim { fill: var(--ink); stroke: var(--ground); stroke-width: 2; }
.ellipse { fill: none; stroke: var(--soft); stroke-width: 1.5; }
.ellipse.last { stroke-dasharray: 6 4; } .ellipse.first { stroke: var(--repaired); stroke-width: 2; }
.row { fill: var(--soft); fill-opacity: .75; } .row.late { fill: var(--known); fill-opacity: 1; }
.row.out { fill: var(--bad); fill-opacity: 1; } .star { fill: none; stroke: var(--ink); stroke-width: 1.75; }
.bar { display: block; width: 100%; min-width: 7rem; height: .8rem; }
.bar rect { fill: var(--line); } .bar .filled { fill: var(--repaired); } td.wide { width: 60%; }
"""


def as_html(record: Mapping[str, Any]) -> str:
    """The page of a run, a record of :func:`proofs_checks.formats.as_record`: one self-contained HTML document."""
    entries = record["outcomes"]
    made_with = f"bhs23 {record['bhs23']}, profile {record['profile']}, seed {record['seed']}"
    body = [
        tag("h1", "Audit of private mean and covariance"),
        tag("p", summary(record), class_="lead"),
        tag("p", f"{made_with}. Statements are numbered as in Brown, Hopkins and Smith (2023).", class_="soft"),
        _findings(entries),
        tag("h2", "Verdicts", id="verdicts"),
        tag("p", f"{LEGEND} A statement leads to its text and cases.", class_="soft"),
        _matrix(entries),
        tag("h2", "How close the bounds come", id="tightness"),
        _tightness(entries),
        tag("h2", "What the repair is about", id="pictures"),
        tag("div", law_picture(), privacy_picture(), class_="pictures"),
        good_subsets_picture(),
        tag("h2", "Statements", id="statements"),
        *(_statement(group) for group in _by_check(entries)),
    ]
    return f"<!DOCTYPE html>\n{tag('html', _head(), tag('body', *body), lang='en')}\n"


def _head() -> Markup:
    policy = (
        "default-src 'none'; style-src 'unsafe-inline'"  # the page asks for nothing, and a browser would not let it
    )
    metas = (
        '<meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
    )
    return tag("head", Markup("".join(metas)), tag("title", "bhs23 audit"), tag("style", Markup(STYLE)))


# The run --------------------------------------------------------------------------------------------------------------


def _by_check(entries: Sequence[Entry]) -> list[list[Entry]]:
    groups: dict[str, list[Entry]] = {}
    for entry in entries:
        groups.setdefault(entry["check"], []).append(entry)
    return list(groups.values())


def _badge(entry: Entry, *, short: bool = False) -> Markup:
    if entry["verdict"] in {"not provided", "not run"}:
        words = verdict_words(entry)
        return tag("span", entry["verdict"] if short else words, class_="verdict none", title=words if short else None)
    kind = "bad" if not entry["as_expected"] else "known" if entry["verdict"] == "refuted" else "good"
    return tag("span", verdict_words(entry), class_=f"verdict {kind}")


def _findings(entries: Sequence[Entry]) -> Markup:
    wrong = [entry for entry in entries if not entry["as_expected"]]
    if not wrong:
        return Markup("")
    return _join([tag("h2", "Not as it should be", id="findings"), *map(_finding, wrong)])


def _finding(entry: Entry) -> Markup:
    title = tag("h3", f"{entry['statement']} on {entry['target']}, {entry['edition']} ", _badge(entry))
    return tag("section", title, tag("p", entry["text"]), *_counterexample(entry), class_="finding")


def _counterexample(entry: Entry) -> list[Markup]:
    if entry["verdict"] == "raised":
        parts = [tag("p", f"The target raised {entry['note']}", class_="claim")]
    elif entry["verdict"] == "broken":
        parts = [tag("p", entry["note"].splitlines()[0], class_="claim"), tag("pre", entry["note"])]
    elif entry["verdict"] == "refuted":
        parts = [tag("p", f"Counterexample, where this is false: {entry['claim']}", class_="claim")]
    else:
        return []
    if entry["departs_at"]:
        where = entry["departs_at"]
        text = f" in the {where['part']}: {where['what']}"
        parts.append(tag("p", "First departure from refimpl: ", tag("b", where["stage"]), text, class_="claim"))
        if where["not_offered"]:
            hidden = ", ".join(where["not_offered"])
            parts.append(tag("p", f"Not offered, and so not looked at before: {hidden}", class_="soft"))
    return [*parts, tag("pre", entry["paste"])] if entry["paste"] else parts


def _matrix(entries: Sequence[Entry]) -> Markup:
    """A table of what was asked of targets, and one of what is about numbers alone: a row each, a column each target."""
    tables = []
    for about, alone in (("target", False), ("paper alone", True)):
        if found := [entry for entry in entries if (entry["target"] == "paper") is alone]:
            table = _verdict_table(f"statement about the {about}", found)
            tables.append(
                tag("div", table, class_="scroll", tabindex="0", role="region", aria_label=f"verdicts, {about}")
            )
    return _join(tables)


def _verdict_table(first: str, entries: Sequence[Entry]) -> Markup:
    columns = list(dict.fromkeys((entry["target"], entry["edition"]) for entry in entries))
    heads = [tag("th", text, scope="col") for text in (first, *map(", ".join, columns))]
    rows = []
    for group in _by_check(entries):
        cells = {(entry["target"], entry["edition"]): _badge(entry, short=True) for entry in group}
        link = tag("a", group[0]["statement"], href=f"#{group[0]['check']}")
        says = tag("div", f"{group[0]['says']} ({group[0]['evidence']})", class_="says")
        rows.append(tag("tr", tag("td", link, says), *(tag("td", cells.get(column)) for column in columns)))
    return tag("table", tag("thead", tag("tr", *heads)), tag("tbody", *rows))


def _tightness(entries: Sequence[Entry]) -> Markup:
    """A bar for each statement: its largest left/right over the targets that it held on."""
    rows = []
    for group in _by_check(entries):
        known = [entry for entry in group if entry["tightest"] is not None and entry["verdict"] == "held"]
        if known:
            tightest = max(known, key=lambda entry: float(entry["tightest"]))
            link = tag("a", tightest["statement"], href=f"#{tightest['check']}")
            number = tag("td", f"{tightest['tightest']:.4g}", class_="number")
            bar = tag("td", _bar(tightest["tightest"]), class_="wide")
            rows.append((tightest["tightest"], tag("tr", tag("td", link), bar, number)))
    if not rows:
        return tag("p", "No inequality with a positive right side was decided in this run.", class_="soft")
    rows.sort(key=lambda row: -row[0])
    note = "The bar is full where a bound is attained. A bound that is never approached is news too."
    table = tag("table", tag("tbody", *(markup for _, markup in rows)))
    return _join([tag("p", note, class_="soft"), tag("div", table, class_="scroll")])


def _bar(share: float) -> Markup:
    filled = tag("rect", width=f"{100 * min(max(share, 0), 1):.2f}", height=8, class_="filled")
    label = f"{share:.4g} of the bound"
    ground = tag("rect", width=100, height=8)
    return tag(
        "svg",
        ground,
        filled,
        viewBox="0 0 100 8",
        preserveAspectRatio="none",
        class_="bar",
        role="img",
        aria_label=label,
    )


def _statement(group: Sequence[Entry]) -> Markup:
    first = group[0]
    wrong = any(failure_kind(entry) in {"refuted", "raised"} for entry in group)
    head = tag("summary", tag("b", first["statement"]), f" {first['says']} ", *map(_badge, group))
    names = {"target": None, "verdict": None, "telling/cases": "number", "claims": "number", "tightest": "number"}
    heads = tag("tr", *(tag("th", name, scope="col", class_=kind) for name, kind in names.items()))
    table = tag("table", tag("thead", heads), tag("tbody", *map(_statement_row, group)))
    said = [tag("p", first["text"]), tag("p", f"Evidence: {first['evidence']}. Name: {first['check']}", class_="soft")]
    cases = [part for entry in group for part in _cases(entry)]
    body = [head, *said, tag("div", table, class_="scroll"), *cases]
    return tag("details", *body, id=first["check"], open="" if wrong else None)


def _statement_row(entry: Entry) -> Markup:
    tally = f"{entry['telling']}/{entry['cases']}" if entry["cases"] else ""
    tightest = entry["shows"] if entry["tightest"] is None else f"{entry['tightest']:.4g}"
    numbers = (tally, str(entry["claims"] or ""), tightest)
    name = f"{entry['target']}, {entry['edition']}"
    return tag("tr", tag("td", name), tag("td", _badge(entry)), *(tag("td", n, class_="number") for n in numbers))


def _cases(entry: Entry) -> list[Markup]:
    """The counterexample if there is one, the tightest case else."""
    where = tag("h3", f"{entry['target']}, {entry['edition']}")
    if found := _counterexample(entry):
        return [where, *found]
    if not entry["tightest_claim"]:
        return []
    shown = [where, tag("p", f"Tightest. {entry['tightest_claim']}", class_="claim")]
    return [*shown, tag("pre", entry["tightest_case"])] if entry["tightest_case"] else shown


# Pictures -------------------------------------------------------------------------------------------------------------

WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 640.0, 360.0, 56.0, 44.0, 16.0
Scale = Callable[[float], float]


def _picture(name: str, caption: str, *parts: Markup, height: float = HEIGHT) -> Markup:
    drawing = tag("svg", *parts, viewBox=f"0 0 {WIDTH:g} {height:g}", role="img", aria_label=name)
    return tag("figure", tag("div", drawing, class_="scroll"), tag("figcaption", tag("b", f"{name}. "), caption))


def _path(points: Iterable[Point], *, close: bool = False) -> str:
    return "M" + "L".join(f"{x:.2f},{y:.2f}" for x, y in points) + ("Z" if close else "")


def _axes(across: Scale, up: Scale, xs: Sequence[float], ys: Mapping[float, str], label: str) -> list[Markup]:
    """Grid lines with their numbers: ``xs`` on the horizontal axis, ``ys`` with their texts on the vertical one."""
    ends = across(xs[0]), across(xs[-1])
    lines = [tag("path", d=_path([(ends[0], up(y)), (ends[1], up(y))]), class_="grid") for y in ys]
    left = {"x": f"{LEFT - 8:g}", "text_anchor": "end", "class_": "soft"}
    texts = [tag("text", text, y=f"{up(y) + 4:.1f}", **left) for y, text in ys.items()]
    foot = HEIGHT - BOTTOM + 18
    texts += [
        tag("text", f"{x:g}", x=f"{across(x):.1f}", y=f"{foot:g}", text_anchor="middle", class_="soft") for x in xs
    ]
    middle = sum(ends) / 2
    texts.append(tag("text", label, x=f"{middle:.1f}", y=f"{HEIGHT - 6:g}", text_anchor="middle", class_="soft"))
    return [*lines, *texts]


def _linear(low: float, high: float, start: float, stop: float) -> Scale:
    return lambda value: start + (value - low) / (high - low) * (stop - start)


def _laws() -> dict[str, list[ExpFraction]]:
    """Pr[PASS] at every score up to a step beyond the end of both laws, exact."""
    table: dict[str, list[ExpFraction]] = {"PRINTED": [], "REPAIRED": []}
    while any(not law or law[-1] > 0 or len(law) < 3 or law[-3] > 0 for law in table.values()):
        score = len(table["PRINTED"])
        for edition in (PRINTED, REPAIRED):
            table[edition.name].append(ptr_pass_probability(score, EPSILON, DELTA, edition=edition))
    return table


def _violations(law: Sequence[ExpFraction], edition: Edition) -> list[int]:
    """Scores z at which p(z) <= e^epsilon p(z + s) + delta is false, decided exactly."""
    s, delta = edition.sensitivity, Fraction(DELTA)
    ratio = Budget(None, Fraction(EPSILON), delta).exact_growth(edition) ** s
    return [z for z in range(len(law) - s) if not law[z] <= ratio * law[z + s] + delta]


def law_picture() -> Markup:
    """Pr[PASS] by score in both editions, and where the printed law breaks the definition of privacy."""
    exact = _laws()
    laws = {name: [float(p) for p in law] for name, law in exact.items()}
    first = next(z for z in range(len(laws["REPAIRED"])) if laws["REPAIRED"][z] < 0.99)
    last = next(z for z in range(first, len(laws["REPAIRED"]), 4) if max(law[z] for law in laws.values()) < 0.005)
    across, up = _linear(first, last, LEFT, WIDTH - 16), _linear(0, 1, HEIGHT - BOTTOM, TOP)
    parts = _axes(across, up, range(first, last + 1, 4), {v / 4: f"{v / 4:g}" for v in range(5)}, "score")
    bad, s, growth = _violations(exact["PRINTED"], PRINTED), PRINTED.sensitivity, math.exp(EPSILON)
    allowed = {z: min(1.0, growth * laws["PRINTED"][z + s] + float(DELTA)) for z in range(len(laws["PRINTED"]) - s)}
    for z in bad:
        corners = [
            (z - 0.5, laws["PRINTED"][z]),
            (z + 0.5, laws["PRINTED"][z]),
            (z + 0.5, allowed[z]),
            (z - 0.5, allowed[z]),
        ]
        parts.append(tag("path", d=_path([(across(a), up(p)) for a, p in corners], close=True), class_="violated"))
    if bad:
        parts.append(tag("text", "violated", x=f"{across(bad[-1] + 1):.1f}", y=f"{up(0.62):.1f}", class_="violated"))
    bound = [(across(z), up(p)) for z, p in allowed.items() if first <= z <= last]
    parts.append(tag("path", d=_path(bound), class_="allowed"))
    for name, law in laws.items():
        parts.append(_curve([(across(z), up(law[z])) for z in range(first, last + 1)], name, dots=True))
    parts += [_key(i, name) for i, name in enumerate(laws)]
    worst = max((laws["PRINTED"][z] - allowed[z] for z in bad), default=0.0)
    broken = _violations(exact["REPAIRED"], REPAIRED)
    caption = (
        f"Privacy at ({EPSILON}, {DELTA}) allows Pr[PASS] at score z to be e^epsilon times that at z + {s}, plus delta: "
        f"the dashed line, for PRINTED. It is exceeded at {len(bad)} scores, by {worst:.3f} at most; "
        f"REPAIRED exceeds its own at {len(broken)}."
    )
    return _picture("The law of the test", caption, *parts)


def _curve(points: Sequence[Point], name: str, *, dots: bool = False) -> Markup:
    """A line in the colour of an edition, with a dot for each point where only these points have a meaning."""
    line = tag("path", d=_path(points), class_=f"curve {name.lower()}")
    marks = [tag("circle", cx=f"{x:.1f}", cy=f"{y:.1f}", r=3, class_=f"dot {name.lower()}") for x, y in points if dots]
    return tag("g", line, *marks)


def _key(number: int, name: str) -> Markup:
    """On the left and half-way down, where no curve passes, and where a narrow screen shows it."""
    x, y = LEFT + 20, 0.45 * HEIGHT + 20 * number
    line = tag("path", d=_path([(x, y - 4), (x + 26, y - 4)]), class_=f"curve {name.lower()}")
    return tag("g", line, tag("text", name, x=f"{x + 34:g}", y=f"{y:g}", class_=name.lower()))


def _hockey_stick(p: float, q: float, growth: float) -> float:
    return max(0.0, p - growth * q) + max(0.0, (1 - p) - growth * (1 - q))


def privacy_picture() -> Markup:
    """The least delta of the test alone at every epsilon, against what it claims."""
    laws = {name: [float(p) for p in law] for name, law in _laws().items()}
    top, floor = 3.0, -8.0
    across, up = _linear(0, top, LEFT, WIDTH - 16), _linear(floor, 0, HEIGHT - BOTTOM, TOP)
    ticks = {float(v): f"1e{v}" if v else "1" for v in range(int(floor), 1, 2)}
    parts = _axes(across, up, [0, 0.5, 1, 1.5, 2, 2.5, 3], ticks, "epsilon")
    at_claim = {}
    for name, law in laws.items():
        s = PRINTED.sensitivity if name == "PRINTED" else REPAIRED.sensitivity
        steps = [(law[a], law[b]) for a, b in product(range(len(law)), repeat=2) if 0 < abs(a - b) <= s]
        curve = [
            (e / 50, max(_hockey_stick(p, q, math.exp(e / 50)) for p, q in steps)) for e in range(int(50 * top) + 1)
        ]
        at_claim[name] = dict(curve)[float(EPSILON)]
        points = [(across(e), up(max(math.log10(max(delta, 1e-300)), floor))) for e, delta in curve]
        parts.append(_curve(points, name))
    aim = across(EPSILON), up(math.log10(float(DELTA)))
    parts.append(tag("circle", cx=f"{aim[0]:.1f}", cy=f"{aim[1]:.1f}", r=6, class_="aim"))
    parts.append(
        tag("text", f"claim ({EPSILON}, {DELTA})", x=f"{aim[0] - 12:.1f}", y=f"{aim[1] + 20:.1f}", text_anchor="end")
    )
    parts += [_key(i, name) for i, name in enumerate(laws)]
    values = ", ".join(f"{name} {delta:.2g}" for name, delta in at_claim.items())
    caption = (
        "The least delta with which PASS and FAIL are private, over all scores within the sensitivity of each other. "
        f"At the claim's epsilon: {values}."
    )
    return _picture("Privacy of the test against its claim", caption, *parts)


RING = ((5, 0), (4, 3), (3, 4), (0, 5), (-3, 4), (-4, 3), (-5, 0), (-4, -3), (-3, -4), (0, -5), (3, -4), (4, -3))
PAIR_K, PAIR_LAMBDA_0 = 3, Fraction(3)


def _pair() -> tuple[list[Point], list[Point]]:
    """96 rows on a ring and two further out; in the adjacent data set the last row has gone further out still."""
    rows: list[Point] = [(5.25, -3.0), (-6.375, 1.5), *(RING[i % 12] for i in range(94))]
    return rows, [*rows[:-1], (7.0, 5.0)]


def good_subsets_picture() -> Markup:
    """Good subsets of an adjacent pair as ellipses: what the largest good subset of three levels can hold."""
    parts, scores = [], []
    for number, (name, rows) in enumerate(zip(("y", "y'"), _pair(), strict=True)):
        result = stable_second_moment(rows, PAIR_LAMBDA_0, PAIR_K)
        scores.append(int(result.score))
        centre = (WIDTH * (1 + 2 * number) / 4, 150.0)
        parts.append(_panel(rows, levels_of(result, 2 * PAIR_K + 1), centre))
        label = f"{name}: score {result.score}"
        parts.append(tag("text", label, x=f"{centre[0]:g}", y="318", text_anchor="middle"))
    caption = (
        f"Two data sets of {len(_pair()[0])} rows that differ in one (circled), lambda_0 = {PAIR_LAMBDA_0}, k = {PAIR_K}. "
        "An ellipse holds what the second moment of S_l keeps: blue for l = 0, grey for l = k, dashed for l = 2k. "
        "Grey rows are in S_0, amber ones enter at a later level, red ones at none. "
        f"The one row moves the score by {abs(scores[0] - scores[1])}; Lemma 32 allows 2."
    )
    return _picture("Good subsets of an adjacent pair", caption, *parts, height=332)


def _panel(rows: Sequence[Point], sets: Sequence[frozenset[int]], centre: Point) -> Markup:
    unit = 17.0
    parts = []
    for name, ell in (("first", 0), ("middle", PAIR_K), ("last", 2 * PAIR_K)):
        moment = [[sum(rows[i][a] * rows[i][b] for i in sets[ell]) / len(rows) for b in (0, 1)] for a in (0, 1)]
        points = _ellipse(moment, float(lambda_ell(PAIR_LAMBDA_0, PAIR_K, ell)))
        path = _path([(centre[0] + unit * x, centre[1] - unit * y) for x, y in points], close=True)
        parts.append(tag("path", d=path, class_=f"ellipse {name}"))
    for (x, y), i in {row: i for i, row in enumerate(rows)}.items():
        kind = "row" if i in sets[0] else "row late" if i in sets[-1] else "row out"
        parts.append(
            tag("circle", cx=f"{centre[0] + unit * x:.1f}", cy=f"{centre[1] - unit * y:.1f}", r=4, class_=kind)
        )
    star = centre[0] + unit * rows[-1][0], centre[1] - unit * rows[-1][1]
    parts.append(tag("circle", cx=f"{star[0]:.1f}", cy=f"{star[1]:.1f}", r=9, class_="star"))
    return tag("g", *parts)


def _ellipse(moment: Sequence[Sequence[float]], level: float) -> list[Point]:
    """Points of y^T M^-1 y = level: the unit circle times the Cholesky factor of level M."""
    a = math.sqrt(level * moment[0][0])
    b = level * moment[0][1] / a
    c = math.sqrt(max(level * moment[1][1] - b * b, 0.0))
    angles = [2 * math.pi * i / 96 for i in range(96)]
    return [(a * math.cos(t), b * math.cos(t) + c * math.sin(t)) for t in angles]
