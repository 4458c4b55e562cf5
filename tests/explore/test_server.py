"""What the server answers, to whom, and that its numbers are the library's."""

import json
import math
import re
import threading

import numpy as np
import pytest

import limitlaw as ll
from limitlaw.apps.explore import answers
from limitlaw.apps.explore.choice import Choice
from limitlaw.divergence import kl

REFUSED = [
    {"Host": "example.org"},
    {"Host": "127.0.0.1:1"},
    {"Host": "localhost.example.org"},
    {"Origin": "https://example.org"},
    {"Origin": "null"},
    {"Origin": "http://127.0.0.1:1"},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
]


@pytest.mark.parametrize("headers", REFUSED, ids=str)
@pytest.mark.parametrize("path", ["/", "/api/program", "/download/law.py", "/plotly.min.js"])
def test_other_hosts_and_origins_are_refused(get, path, headers):
    """A name that was made to point here, another page, or one on another port."""
    status, _, body = get(path, headers=headers)
    assert status == 403
    assert json.loads(body)["error"].startswith("the explorer answers")


def test_its_own_page_is_served(get, explorer):
    """By number and by name, also where a link elsewhere was followed;
    with a policy that allows no other host.
    """
    for headers in (
        {},
        {"Host": f"localhost:{explorer.port}"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"},
    ):
        status, sent, body = get("/", headers=headers)
        assert status == 200
    assert get("/api/program", headers={"Origin": explorer.address.rstrip("/")})[0] == 200
    policy = sent["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; script-src 'self';")
    assert "http" not in policy
    addresses = re.findall(rb"""(?:https?:)?//[\w.-]+""", body)
    assert set(addresses) <= {b"http://www.w3.org"}  # the name of SVG


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/api/exact?tokens=abc", 400, "tokens must be a whole number"),
        ("/api/exact?tokens=3&token=0&correlation=-1", 400, "correlation must be"),
        (
            "/api/exact?tokens=32&token=0&width=4096&phi=relu&samples=65536",
            400,
            "this would take about 7 minutes",
        ),
        ("/api/simulated?width=4096", 400, "a simulation draws all"),
        ("/api/depth?compare=gradients&depth=48&width=4096", 400, "(gradients of 48 blocks)"),
        ("/api/depth?compare=gradients-limit&depth=48&tokens=16", 400, "fewer blocks, heads or"),
        ("/api/exact?page=<b>", 400, "page must be"),
        ("/api/nothing", 404, "there is no such answer"),
        ("/download/etc", 404, "there is no such file"),
        ("/../pyproject.toml", 404, ""),
        ("/api/stop/simulated", 405, "The method is not allowed"),
    ],
)
def test_what_cannot_be_answered_is_said_in_a_line(get, path, status, words):
    """As JSON, without a trace of the stack."""
    found, _, body = get(path)
    assert found == status
    message = json.loads(body)["error"]
    assert words in message
    assert "Traceback" not in message


def test_a_bug_is_a_line_as_well(get, monkeypatch, capsys):
    """On the page; the terminal has the rest."""
    monkeypatch.setattr(answers, "svg", lambda y: 1 / 0)
    status, _, body = get("/api/program?tokens=5")
    assert (status, "a bug of limitlaw (ZeroDivisionError)" in json.loads(body)["error"]) == (
        500,
        True,
    )
    assert "ZeroDivisionError" in capsys.readouterr().err


def test_numbers_are_the_librarys(answer):
    """Densities, variance, kurtosis, tails and divergences of a layer that is
    written here once more.
    """
    y = ll.attention(ll.initial((2,), cov=[[1.0, 0.25], [0.25, 1.0]]), heads=1, q_std=3.0)[1]
    limit, exact = ll.limit(y), ll.finite(y, 16, 1024, 0)
    gaussian = ll.Gaussian(0.0, limit.variance())
    chosen = {"correlation": 0.25, "scale": 3, "width": 16}
    at_infinity, at_width, more = (answer(kind, **chosen) for kind in ("limit", "exact", "more"))
    assert answer("preview", **chosen) == at_infinity
    for law, shown, rest in (
        (limit, at_infinity["limit"], more["limit"]),
        (exact, at_width, more["exact"]),
        (gaussian, at_infinity["gaussian"], more["gaussian"]),
    ):
        np.testing.assert_allclose(shown["density"], law.pdf(np.array(shown["x"])), rtol=1e-9)
        sd = math.sqrt(law.variance())
        expected = {
            "variance": law.variance(),
            "kurtosis": law.kurtosis(),
            "tail_3": 2 * law.sf(3 * sd),
            "tail_5": 2 * law.sf(5 * sd),
        }
        for key, value in expected.items():
            assert {**shown["numbers"], **rest}[key]["value"] == pytest.approx(
                float(value), rel=1e-9, abs=1e-12
            )
    assert more["exact"]["kl_limit"]["value"] == pytest.approx(kl(exact, limit).value, rel=1e-9)
    assert more["limit"]["kl_gaussian"]["value"] == pytest.approx(
        kl(limit, gaussian).value, rel=1e-6
    )
    infinite = ll.attention(
        ll.initial((2,), cov=[[1.0, 0.25], [0.25, 1.0]]), heads=math.inf, q_std=3.0
    )[1]
    assert float(gaussian.variance()) == pytest.approx(
        float(ll.limit(infinite).variance()), rel=1e-9
    )


def test_the_gaussian_is_as_uncertain_as_the_limit(answer, get):
    """Its variance is the limit's, which is sampled from five tokens on; so are its densities."""
    shown = answer("limit", tokens=5, token=0)
    sampled = shown["limit"]["numbers"]["variance"]
    assert sampled["error"] > 0
    gaussian = shown["gaussian"]["numbers"]["variance"]
    assert (gaussian["text"], gaussian["error"]) == (sampled["text"], sampled["error"])
    _, _, body = get("/download/law.csv?tokens=5&token=0&samples=1024")
    _, *rows = body.decode().splitlines()
    table = np.array([[float(cell) for cell in row.split(",")] for row in rows])
    x, density, error = table[:, 0], table[:, 5], table[:, 6]
    v, dv = sampled["value"], sampled["error"]
    wider = np.exp(-(x**2) / (2 * (v + dv))) / np.sqrt(2 * np.pi * (v + dv))
    np.testing.assert_allclose(error, np.abs(wider - density), rtol=0.02, atol=1e-3 * max(error))


def test_a_preview_agrees_with_what_follows(answer):
    """Four tokens: a few draws first, whose error holds."""
    chosen = {"tokens": 4, "token": 3, "heads": 2, "scale": 0.5}
    first, then = answer("preview", **chosen), answer("limit", **chosen)
    assert (first["final"], then["final"]) == (False, True)
    for key in ("variance", "kurtosis"):
        a, b = first["limit"]["numbers"][key], then["limit"]["numbers"][key]
        assert 0 < abs(a["value"] - b["value"]) < 5 * a["error"]


def test_tables_have_all_digits(get, answer):
    """The CSV of the law is what the page draws, with errors."""
    status, headers, body = get("/download/law.csv?tokens=2&token=1&samples=1024")
    assert (status, headers["Content-Disposition"]) == (
        200,
        "attachment; filename=limitlaw-law.csv",
    )
    names, *rows = body.decode().splitlines()
    assert names == "x,exact,exact_error,limit,limit_error,gaussian,gaussian_error"
    table = np.array([[float(cell) for cell in row.split(",")] for row in rows])
    shown = answer("limit")["limit"]
    np.testing.assert_allclose(table[:, 0], shown["x"], rtol=1e-15)
    np.testing.assert_allclose(table[:, 3], shown["density"], rtol=1e-12)
    assert (table[:, 2] > 0).all()


def test_ten_pages_at_once(get, answer):
    """Equal and different questions from ten threads:
    every one is answered, or superseded by its own page.
    """
    answer("exact")  # compiled
    found = []

    def one(i):
        for j in range(3):
            settings = {
                "tokens": 2,
                "token": 1,
                "samples": 1024,
                "scale": 1 + j / 10,
                "page": f"page{i}",
            }
            found.append(get("/api/exact", settings)[0])

    threads = [threading.Thread(target=one, args=(i,)) for i in range(10)]
    [thread.start() for thread in threads]
    [thread.join(60) for thread in threads]
    assert found == [200] * 30


def test_the_graph_has_every_instruction():
    """A box for each line of print(y), and no two boxes of a row overlap."""
    program = answers.program(Choice(mask="causal", phi="relu", heads=2), lambda: False)
    lines = [line for line in program["text"].splitlines() if not line.startswith(("W", "output"))]
    assert program["svg"].count("<rect") == len(lines)
    boxes = [
        tuple(map(float, box))
        for box in re.findall(r'<rect x="(\S+)" y="(\S+)" width="(\S+)"', program["svg"])
    ]
    for x, y, width in boxes:
        assert sum(abs(other - x) < width for other, row, _ in boxes if row == y) == 1
    assert "<script" not in program["svg"]
