"""The page in a real browser: controls, numbers, addresses,
narrow and dark, by keyboard, and what it asks for.
"""

import functools
import json
import math
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import limitlaw as ll
from limitlaw.apps.explore import budget, server
from limitlaw.apps.explore.choice import Choice

ActionChains = pytest.importorskip("selenium.webdriver").ActionChains
Keys = pytest.importorskip("selenium.webdriver").Keys


def layer(
    tokens=2, token=1, heads=1, head_dim=0, scale=2.0, correlation=0.0, mask="none", phi="identity"
):
    """What the page's settings mean, written once more."""
    g = ll.initial((tokens,), cov=(1 - correlation) * np.eye(tokens) + correlation)
    x = g if phi == "identity" else getattr(ll, phi)(g)
    return ll.attention(
        x, heads, head_dim or None, "sqrt", None if mask == "none" else mask, scale
    )[token]


def number(text):
    """Of a cell: 0.606 ± 0.014, (6.34 ± 0.56)e-04 or 0.574413956."""
    value, _, exponent = text.replace("(", "").partition(")")
    return float(value.split(" ± ")[0] + exponent)


def check_numbers(page, width=64, samples=1024, **settings):
    """The table has the library's numbers, to the digits that it shows."""
    y = layer(**settings)
    limit, exact = ll.limit(y, 2**14, 0), ll.finite(y, width, samples, 0)
    for name, law in (("limit", limit), ("exact", exact)):
        for key, value, error in (
            ("variance", law.variance(), law.error.variance()),
            ("kurtosis", law.kurtosis(), law.error.kurtosis()),
            (
                "tail_3",
                2 * law.sf(3 * math.sqrt(law.variance())),
                2 * law.error.sf(3 * math.sqrt(law.variance())),
            ),
        ):
            slack = max(0.06 * float(error), 1e-7 * abs(float(value)), 1e-12)
            assert abs(number(page.cell(key, name)) - float(value)) <= slack, (key, name, settings)
    assert page.cell("kl_limit", "exact") != "–"


NUMBERS = {"scale": "0.5", "correlation": "0.4", "width": "12"}  # the program stays what it is
STRUCTURE = {
    "mask": "causal",
    "heads": "2",
    "head_dim": "2",
    "phi": "relu",
    "token": "0",
    "tokens": "3",
    "samples": "4096",
}
DEPTH = {"depth": "3", "norm": "post", "compare": "both"}


def check_moves(page, moves):
    """One control after the other, each from where the page began:
    the numbers are the library's.
    """
    page.open()
    check_numbers(page)
    start = page.driver.current_url
    for name, value in moves.items():
        page.choose(name, value)
        settings = {name: value if not value.replace(".", "").isdigit() else json.loads(value)}
        if name == "tokens":
            settings["token"] = 2  # the last one stays the last one
        check_numbers(page, **settings)
        page.driver.get(start)
        page.settle()


def test_numbers_move_the_law(page):
    """Scale, correlation and width: nothing is compiled anew."""
    check_moves(page, NUMBERS)


@pytest.mark.long
def test_structure_moves_the_law(page):
    """The other controls of the layer, each of which compiles a program."""
    check_moves(page, STRUCTURE)


@pytest.fixture
def echo(page_of, monkeypatch):
    """A page whose server computes nothing: every figure is the choice itself."""
    for kind in ("preview", "exact", "limit", "more", "depth", "program"):
        monkeypatch.setitem(server.ASKED, kind, functools.partial(echoed, kind))
    served = server.Explorer()
    threading.Thread(target=served.serve, daemon=True).start()
    shown = page_of(served.address)
    shown.resize(1400)
    yield shown
    served.close()


def echoed(kind, choice, stopped):
    """An answer in which the text of every number is the choice."""
    law = {
        "x": [-1.0, 1.0],
        "density": [0.1, 0.2],
        "numbers": {"variance": {"text": choice.query}},
        "source": "",
    }
    at_infinity = {"sd": 1.0, "final": True, "limit": law, "gaussian": law}
    column = {"variance": {"label": choice.query, "value": [1.0], "error": [0.0]}}
    trace = {
        "label": "",
        "title": choice.query,
        "layers": [0],
        "columns": column,
        "rows": [["0", "1"]],
    }
    answer = {
        "preview": at_infinity,
        "limit": at_infinity,
        "exact": law,
        "more": {},
        "depth": {"traces": [trace]},
    }
    return answer.get(kind) or dict.fromkeys(("code", "depth_code", "text", "depth_text"), "") | {
        "svg": "<svg/>"
    }


def test_every_control_is_asked_for_and_in_the_address(echo):
    """Each from where the page began; what the server is asked, the address says."""
    start = {"tokens": "2", "token": "1", "samples": "1024"}
    for tab, moves in (("law", NUMBERS | STRUCTURE), ("depth", DEPTH)):
        echo.open(tab=tab)
        for name, value in moves.items():
            before = echo.script(
                "return document.querySelector(`[name=${arguments[0]}]`).value", name
            )
            echo.choose(name, value)
            asked = (
                echo.cell("variance", "exact") if tab == "law" else echo.find("depth-title").text
            )
            changed = start | {name: value} | ({"token": "2"} if name == "tokens" else {})
            expected = {n: v for n, v in changed.items() if v != str(getattr(Choice(), n))}
            assert dict(pair.split("=") for pair in asked.split("&")) == expected
            shown = dict(
                pair.split("=") for pair in echo.driver.current_url.partition("?")[2].split("&")
            )
            assert {n: v for n, v in shown.items() if n != "tab"} == expected
            echo.choose(name, before)


def test_an_address_can_be_shared(page):
    """What was chosen by hand is what another page shows that is opened there."""
    page.open(scale="0.5")
    first = page.cell("variance", "exact")
    page.driver.get("about:blank")
    page.open(scale="0.5")
    assert (page.find("scale-number").get_attribute("value"), page.cell("variance", "exact")) == (
        "0.5",
        first,
    )


@pytest.mark.parametrize(
    ("settings", "words", "mended"),
    [
        (
            {"tokens": "many"},
            "tokens must be a whole number from 1 to 32, got 'many'",
            ("tokens", "2"),
        ),
        (
            {"correlation": "-1.5"},
            "correlation must be a number from -1 to 1, got '-1.5'",
            ("correlation", "0"),
        ),
        ({"tab": "law", "wdith": "5"}, "'wdith' is no setting", ("width", "64")),
    ],
)
def test_an_impossible_choice_says_why(page, settings, words, mended):
    """In words, beside the control; and mending it brings the numbers back."""
    page.open(**settings)
    assert words in page.message
    assert page.cell("variance", "exact") == "–"
    page.choose(*mended)
    assert page.message == ""
    check_numbers(page)


def test_what_would_take_minutes_is_refused(page, monkeypatch):
    """The limit is shown nevertheless, and nothing old stands beside it."""
    page.open()
    monkeypatch.setattr(budget, "ANSWER_SECONDS", 1e-6)
    page.choose("scale", "0.52")
    assert "this would take about" in page.message
    assert page.cell("variance", "exact") == page.cell("kl_gaussian", "exact") == "–"
    assert page.cell("variance", "limit") != "–"


@pytest.fixture
def occupied(explorer):
    """The server computes something else until the event is set."""
    release, started = threading.Event(), threading.Event()

    def long(stopped):
        started.set()
        release.wait(30)
        return b""

    thread = threading.Thread(
        target=explorer.worker.ask, args=("test", object(), long), daemon=True
    )
    thread.start()
    assert started.wait(10)
    yield release
    release.set()
    thread.join(10)


def test_computing_is_seen(page, occupied):
    """Until the answer is there; of several movements only the last is answered."""
    page.driver.get(f"{page.address}?tokens=2&token=1&samples=1024&scale=3.1")
    end = time.monotonic() + 10
    while page.status != "computing …":
        assert time.monotonic() < end
        time.sleep(0.02)
    for value in ("1", "1.5", "0.55"):
        page.move("scale", value)
        time.sleep(0.1)
    page.find("simulate").click()
    page.find("stop").click()
    assert page.find("simulate").is_enabled()
    occupied.set()
    page.settle()
    check_numbers(page, scale=0.55)


def test_what_takes_long_can_be_cancelled(page, explorer, occupied):
    """After a second of waiting; nothing is computed for this page then, until a setting moves."""
    page.driver.get(f"{page.address}?tokens=2&token=1&samples=1024&scale=3.2")
    assert not page.find("cancel").is_displayed()
    end = time.monotonic() + 10
    while not page.find("cancel").is_displayed():
        assert time.monotonic() < end
        time.sleep(0.02)
    page.find("cancel").click()
    page.settle()
    assert (page.message, page.status) == ("cancelled: change a setting to compute again", "")
    assert not page.find("cancel").is_displayed()
    while explorer.worker._waiting:  # the server hears of it a little later
        assert time.monotonic() < end
        time.sleep(0.02)
    occupied.set()
    page.choose("scale", "0.55")
    assert page.message == ""
    check_numbers(page, scale=0.55)


def test_a_simulation_is_drawn(page):
    """On demand, and forgotten when the choice changes."""
    page.open(width="8")
    page.script("document.getElementById('status').textContent = ''")
    page.find("simulate").click()
    page.settle()
    assert "4,096 networks" in page.find("legend-simulated").text
    exact, simulated = (number(page.cell("variance", name)) for name in ("exact", "simulated"))
    error = float(page.cell("variance", "simulated").split(" ± ")[1])
    assert abs(exact - simulated) < 5 * math.hypot(error, 0.01 * exact)
    assert page.script("return document.getElementById('plot-linear').data[0].type") == "bar"
    page.choose("scale", "0.5")
    assert (
        page.script("return document.getElementById('plot-linear').data.map((t) => t.type)")
        == ["scatter"] * 3
    )
    assert not page.find("legend-simulated").is_displayed()


def test_depth_follows_its_controls(page):
    """Blocks and norm; the numbers are those of `trace`."""
    page.open(tab="depth", depth="2")
    for norm in ("pre", "none"):
        if norm != "pre":
            page.choose("norm", norm)
        net = ll.transformer(
            ll.initial((2,)), 2, 1, norm=norm, hidden=4 * ll.n, phi=ll.identity, q_std=2.0
        )
        trace = ll.trace(
            net, ["variance", "correlation", "entropy", "kurtosis"], samples=256, key=0
        )
        lines = "[...document.querySelectorAll('#depth-numbers tbody tr')]"
        rows = page.script(f"return {lines}.map((r) => [...r.cells].map((c) => c.textContent))")
        assert rows == list(trace.rows())
        drawn = page.script("return document.getElementById('plot-depth-variance').data[0].y")
        np.testing.assert_allclose(drawn, trace["variance"].value, rtol=1e-12)
    assert "norm=none" in page.driver.current_url
    page.choose("width", "8")
    page.choose("compare", "gradients")
    gradients = ll.gradients(net, 8, samples=64, key=0)
    rows = page.script(f"return {lines}.map((r) => [...r.cells].map((c) => c.textContent))")
    assert rows == list(gradients.rows())
    shown = page.script(
        "return [...document.querySelectorAll('#depth-plots .plot')].map((plot) => plot.id)"
    )
    assert shown == [f"plot-depth-{name}" for name in gradients]


def test_by_keyboard_alone(page):
    """To a slider and along it, to the tabs and along them; focus is seen."""
    page.open(scale="0.45")
    keys = ActionChains(page.driver)
    active = "return document.activeElement.id"

    def tab_to(name):
        for _ in range(40):
            keys.send_keys(Keys.TAB).perform()
            if page.script(active) == name:
                return
        raise AssertionError(f"{name} is not reached")

    tab_to("scale")
    assert page.script("return getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.script("document.getElementById('status').textContent = ''")
    keys.send_keys(Keys.ARROW_RIGHT).perform()
    page.settle()
    assert page.find("scale-number").get_attribute("value") == "0.5"
    check_numbers(page, scale=0.5)
    tab_to("tab-law")
    keys.send_keys(Keys.ARROW_LEFT).perform()
    assert page.script(active) == "tab-code"
    page.settle()
    assert "q_std=0.5" in page.find("code").text
    assert page.script("return document.querySelectorAll('#graph rect').length") > 8
    unnamed = "(c) => !(c.labels?.length || c.ariaLabel || c.textContent.trim())"
    controls = "[...document.querySelectorAll('input, select, button')]"
    assert page.script(f"return {controls}.filter({unnamed}).length") == 0


@pytest.mark.parametrize("width", [1400, 390])
@pytest.mark.parametrize("tab", ["law", "code"])
def test_nothing_is_wider_than_the_window(page, width, tab):
    """On a desk and on a telephone; plots stand where they should and do not overlap."""
    page.resize(width, 844)
    page.open(tab=tab, scale="0.5")
    assert (
        page.script("return document.documentElement.scrollWidth")
        <= page.script("return window.innerWidth")
        == width
    )
    if tab == "law":
        boxes = page.script(
            "return [...document.querySelectorAll('#panel-law .plot')].map((p) => "
            "p.getBoundingClientRect().toJSON())"
        )
        assert all(box["width"] > 300 and box["height"] > 200 for box in boxes)
        first, second = boxes
        assert (
            second["top"] >= first["bottom"] if width == 390 else second["left"] >= first["right"]
        )


def test_dark_and_light(page):
    """As the reader prefers, or as the button says; plots too."""
    page.prefer("dark")
    page.open(scale="0.5")
    colour = (
        "return getComputedStyle(document.body)[arguments[0]].match(/\\d+/g).slice(0, "
        "3).map(Number)"
    )
    ink = (
        "return document.getElementById('plot-log').layout.font.color.match(/\\d+/g).slice(0, "
        "3).map(Number)"
    )
    assert max(page.script(colour, "backgroundColor")) < 40
    assert min(page.script(colour, "color")) > 200
    assert min(page.script(ink)) > 200
    page.find("theme").click()
    assert min(page.script(colour, "backgroundColor")) > 240
    assert max(page.script(ink)) < 60


def test_files_are_saved(page, tmp_path):
    """A picture, a table and code, by their buttons."""
    page.open(scale="0.5")
    page.driver.execute_cdp_cmd(
        "Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)}
    )
    for selector, name, start in (
        ('#panel-law [data-png="law"]', "limitlaw-law.png", b"\x89PNG"),
        ('#panel-law [data-file="law.csv"]', "limitlaw-law.csv", b"x,exact,"),
        ('#panel-law [data-file="law.py"]', "limitlaw-law.py", b"import numpy"),
    ):
        page.driver.find_element("css selector", selector).click()
        saved: Path = tmp_path / name
        end = time.monotonic() + 30
        while not (saved.exists() and saved.read_bytes().startswith(start)):
            assert time.monotonic() < end, name
            time.sleep(0.05)


def test_no_request_leaves_the_machine(page):
    """Of all that this browser did in these tests; and the page may not even try."""
    page.open(scale="0.5")
    blocked = page.driver.execute_async_script(
        "const done = arguments[0]; fetch('http://127.0.0.1:9/').then(() => done('sent'), (e) => "
        "done(e.name));"
    )
    assert blocked == "TypeError"
    events = [
        json.loads(entry["message"])["message"] for entry in page.driver.get_log("performance")
    ]
    asked = {
        e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"
    }
    assert len(asked) > 4
    foreign = [
        url
        for url in asked
        if not url.startswith(("http://127.0.0.1:", "data:", "blob:", "about:"))
    ]
    assert foreign == []
    complaints = [
        line["message"]
        for line in page.driver.get_log("browser")
        if "status of 400" not in line["message"]
    ]
    assert all("127.0.0.1:9" in line for line in complaints), complaints
