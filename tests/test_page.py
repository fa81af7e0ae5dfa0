"""The page of a run: escaped, self-contained, its pictures computed; and as a real browser shows it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import refimpl
from proofs_checks import formats, page
from proofs_checks.audit import Outcome, Tally
from proofs_checks.lemma import LEMMAS, at_most
from proofs_checks.ptr import E1
from proofs_checks.target import Target
from refimpl.parameters import PRINTED

NASTY = "</pre></style><script>alert('x')</script><img src=//example.org/x onerror=alert(1)>\""
VOID = {"meta"}


def record() -> dict[str, Any]:
    held, law = LEMMAS["covariance_weights_are_stable"], LEMMAS["pass_is_private"]
    mine = Target(f"mine:{NASTY}", None)
    tally = Tally(10, 7, 30, 0.75, at_most("sum", 3, 4))
    outcomes = [
        Outcome(held, Target("refimpl", refimpl), "held", "held", tally),
        Outcome(held, mine, "refuted", "held", Tally(3, 2, 8), E1[0], at_most(f"rows {NASTY} {'wide' * 200}", 2, 1)),
        Outcome(law, mine, "raised", "held", Tally(1, 1), E1[0], note=f"ValueError: {NASTY}"),
        Outcome(law, Target("refimpl", refimpl, PRINTED), "refuted", "refuted", Tally(1, 1), E1[1], at_most("p", 2, 1)),
        Outcome(LEMMAS["cores_are_nested"], mine, "not provided", "held", note="stable_mean"),
    ]
    return formats.as_record(outcomes, profile="quick", seed=4)


@pytest.fixture(scope="module")
def html() -> str:
    return page.as_html(record())


class Reader(HTMLParser):
    """Collects elements, and complains about any that are not closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_is_well_formed_and_escaped(html: str) -> None:
    elements = Reader(html).elements
    names = {name for name, _ in elements}
    assert {"svg", "table", "details", "pre", "figure"} <= names
    assert not {"script", "img", "link", "iframe", "object", "use", "image", "form"} & names
    assert not [key for _, attributes in elements for key in attributes if key.startswith("on")]
    assert "&lt;script&gt;alert" in html


def test_the_page_asks_for_nothing(html: str) -> None:
    for _, attributes in Reader(html).elements:
        assert "src" not in attributes
        assert (attributes.get("href") or "#").startswith("#")
    assert "url(" not in page.STYLE
    assert "@import" not in page.STYLE
    assert "default-src 'none'" in html


def test_every_link_leads_somewhere(html: str) -> None:
    elements = Reader(html).elements
    ids = [attributes["id"] for _, attributes in elements if "id" in attributes]
    assert len(set(ids)) == len(ids)
    assert {(a["href"] or "")[1:] for _, a in elements if "href" in a} <= set(ids)


def test_the_page_says_what_the_record_says(html: str) -> None:
    text = re.sub(r"<[^>]+>", "", html)
    for said in ("1 held, 1 refuted as the errata say, 2 not as it should be", "REFUTED", "RAISED", "7/10", "0.75"):
        assert said in text
    assert LEMMAS["pass_is_private"].statement.split(",")[0].replace("<", "&lt;") in text
    assert "not provided: stable_mean" in text
    assert 'open=""' in html.split('id="covariance_weights_are_stable"')[1][:20]


def test_an_empty_run_has_a_page() -> None:
    text = page.as_html(formats.as_record([], profile="quick", seed=0, complete=False))
    Reader(text)
    assert "interrupted" in text


def test_the_law_is_violated_where_it_is_printed_and_nowhere_else() -> None:
    picture = page.law_picture()
    marked = picture.count('class="violated"') - 1  # one is the word
    laws = page._laws()
    assert marked == len(page._violations(laws["PRINTED"], PRINTED)) > 0
    assert "REPAIRED exceeds its own at 0." in picture


def test_the_privacy_picture_shows_who_keeps_the_claim() -> None:
    picture = page.privacy_picture()
    repaired = re.search(r"REPAIRED ([\de.-]+)\.", picture)
    printed = re.search(r"PRINTED ([\d.]+),", picture)
    assert repaired
    assert printed
    assert float(repaired[1]) <= 1.01e-6
    assert float(printed[1]) > 0.1


def test_the_pair_is_adjacent_and_its_good_subsets_differ() -> None:
    one, two = page._pair()
    assert sum(a != b for a, b in zip(one, two, strict=True)) == 1
    picture = page.good_subsets_picture()
    assert picture.count('class="ellipse first"') == 2
    assert 'class="row late"' in picture
    assert 'class="row out"' in picture


def test_markup_is_made_by_tag_alone() -> None:
    assert page.tag("p", "<", page.tag("b", "&"), None, class_="a'\"", data_x=1) == (
        '<p class="a&#x27;&quot;" data-x="1">&lt;<b>&amp;</b></p>'
    )


# In a browser ---------------------------------------------------------------------------------------------------------

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)

PROBE = """<!DOCTYPE html><title>waiting</title>
<iframe id="page" src="report.html" style="width:{width}px;height:800px;border:0"></iframe>
<script>
addEventListener("load", () => {{
  const inner = document.getElementById("page").contentDocument, root = inner.documentElement;
  const drawn = [...inner.querySelectorAll("figure svg")].map(svg => svg.getBoundingClientRect());
  document.title = JSON.stringify({{
    wide: root.scrollWidth, room: root.clientWidth, title: inner.title, ground: getComputedStyle(inner.body).backgroundColor,
    ink: getComputedStyle(inner.body).color, pictures: drawn.filter(box => box.width > 200 && box.height > 100).length,
    bars: inner.querySelectorAll(".bar .filled").length, refuted: inner.querySelectorAll("td .bad").length,
    asked: inner.defaultView.performance.getEntriesByType("resource").length,
  }});
}});
</script>"""


def seen(folder: Path, html: str, width: int, scheme: int) -> dict[str, Any]:
    """What the browser makes of the page at a width, in the dark (0) or in the light (1)."""
    assert BROWSER is not None, "CI has a browser: .ci/run installs chromium"
    (folder / "report.html").write_text(html, encoding="utf-8")
    (folder / "probe.html").write_text(PROBE.format(width=width), encoding="utf-8")
    command = [
        BROWSER,
        "--headless",
        "--no-sandbox",  # a test runner in a container may have no sandbox to offer; the page is our own
        "--disable-gpu",
        "--allow-file-access-from-files",
        f"--user-data-dir={folder / 'profile'}",
        f"--blink-settings=preferredColorScheme={scheme}",
        "--dump-dom",
        (folder / "probe.html").as_uri(),
    ]
    ended = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    title = re.search(r"<title>(.*?)</title>", ended.stdout)
    assert title is not None
    found: dict[str, Any] = json.loads(title[1].replace("&amp;", "&"))
    return found


@pytest.mark.skipif(BROWSER is None and not os.environ.get("CI"), reason="no chromium on this machine")
def test_a_browser_shows_it_on_a_phone_and_on_a_desk_in_the_dark_and_in_the_light(html: str, tmp_path: Path) -> None:
    phone, desk = seen(tmp_path, html, 390, 0), seen(tmp_path, html, 1200, 1)
    for view in (phone, desk):
        assert view["title"] == "bhs23 audit", "nothing of a stranger's text became code"
        assert view["wide"] <= view["room"], "the page as a whole does not scroll sideways"
        assert (view["pictures"], view["bars"], view["asked"]) == (3, 1, 0)
        assert view["refuted"] >= 2
    assert (phone["ground"], desk["ground"]) == ("rgb(22, 22, 21)", "rgb(252, 252, 251)")
    assert phone["ink"] != desk["ink"]
