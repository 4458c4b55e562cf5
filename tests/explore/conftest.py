"""One server and one browser for all tests of the explorer;
without a browser they are skipped, loudly.
"""

import contextlib
import json
import shutil
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("flask", reason="the explorer needs Flask: pip install 'limitlaw[explore]'")

from limitlaw.apps.explore import Explorer

SMALL = {"tokens": "2", "token": "1", "samples": "1024"}  # programs that compile quickly


@pytest.fixture(scope="session")
def explorer() -> Iterator[Explorer]:
    """A server in a thread of this process."""
    served = Explorer()
    thread = threading.Thread(target=served.serve, daemon=True)
    thread.start()
    yield served
    served.close()
    thread.join(10)


Get = Callable[..., tuple[int, dict[str, str], bytes]]


@pytest.fixture
def get(explorer: Explorer) -> Get:
    """(path, settings, headers) → status, headers and body; paths may have a query themselves."""

    def asked(
        path: str, settings: Any = (), headers: Any = (), method: str = "GET"
    ) -> tuple[int, dict[str, str], bytes]:
        address = (
            explorer.address.rstrip("/")
            + path
            + (f"?{urllib.parse.urlencode(settings)}" if settings else "")
        )
        request = urllib.request.Request(address, headers=dict(headers), method=method)
        try:
            with urllib.request.urlopen(request, timeout=120) as response:
                return response.status, dict(response.headers), response.read()
        except urllib.error.HTTPError as error:
            return error.code, dict(error.headers), error.read()

    return asked


@pytest.fixture
def answer(get: Get) -> Callable[..., Any]:
    """(kind, **settings) → what the server says, of small programs."""

    def asked(kind: str, **settings: Any) -> Any:
        status, _, body = get(f"/api/{kind}", {**SMALL, **settings})
        assert status == 200, body
        return json.loads(body)

    return asked


class Page:
    """The page in a browser."""

    def __init__(self, driver: Any, address: str) -> None:
        self.driver, self.address = driver, address

    def open(self, **settings: Any) -> None:
        """At the address of some settings, and wait until all is answered."""
        self.driver.get(f"{self.address}?{urllib.parse.urlencode({**SMALL, **settings})}")
        self.settle()

    def settle(self) -> None:
        """Wait until the page has asked for what its settings say,
        and has been answered or refused.
        """
        end = time.monotonic() + 120
        while time.monotonic() < end:
            time.sleep(0.08)  # longer than the page waits for the next movement of a slider
            text = self.status
            open_questions = self.script("return document.body.dataset.waiting")
            if open_questions == "0" and (self.message or text.startswith("answered")):
                return
        raise AssertionError(f"no answer: {self.status!r}")

    @property
    def status(self) -> str:
        """What the page says about itself."""
        return self.find("status").text

    @property
    def message(self) -> str:
        """What it says against a choice."""
        return self.find("message").text

    def find(self, name: str) -> Any:
        """An element by its id."""
        return self.driver.find_element("id", name)

    def script(self, text: str, *arguments: Any) -> Any:
        """The value of a piece of JavaScript."""
        return self.driver.execute_script(text, *arguments)

    def cell(self, key: str, law: str) -> str:
        """A figure of the table."""
        return self.driver.find_element(
            "css selector", f'[data-key="{key}"] [data-law="{law}"]'
        ).text

    def move(self, name: str, value: str) -> None:
        """A control, as if by hand."""
        self.script(
            "['status', 'message'].forEach((id) => "
            "{ document.getElementById(id).textContent = ''; });"
            "const c = document.querySelector(`[name=${arguments[0]}]`);"
            "c.value = arguments[1]; c.dispatchEvent(new Event('input', {bubbles: true}));",
            name,
            value,
        )

    def choose(self, name: str, value: str) -> None:
        """Move a control and wait for the answers."""
        self.move(name, value)
        self.settle()

    def resize(self, width: int, height: int = 900) -> None:
        """The window, as narrow as a telephone if need be."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)

    def prefer(self, scheme: str) -> None:
        """The reader's light or dark mode."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Chromium without a window."""
    driver, chromium = (
        shutil.which("chromedriver"),
        shutil.which("chromium") or shutil.which("google-chrome"),
    )
    if driver is None or chromium is None:
        line = (
            "NO CHROMIUM: the explorer's page is NOT TESTED here (apt-get install chromium "
            "chromium-driver)"
        )
        sys.__stderr__.write(f"\n*** {line} ***\n")  # whatever pytest captures
        pytest.skip(line)
    webdriver = pytest.importorskip("selenium.webdriver")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for word in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--window-size=1400,900",
    ):
        options.add_argument(word)
    options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
    opened = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    yield opened
    with contextlib.suppress(Exception):
        opened.quit()


@pytest.fixture
def page_of(browser: Any) -> Callable[[str], Page]:
    """A page at an address."""
    return lambda address: Page(browser, address)


@pytest.fixture
def page(browser: Any, explorer: Explorer) -> Page:
    """The page, at 1400 pixels in light mode."""
    shown = Page(browser, explorer.address)
    shown.resize(1400)
    shown.prefer("light")
    return shown
