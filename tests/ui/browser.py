"""A headless Chromium that has the inspector open, and what it did meanwhile."""

from __future__ import annotations

import json
import os
import urllib.parse
from collections.abc import Sequence
from importlib import resources
from typing import Any

from selenium import webdriver
from selenium.common.exceptions import NoSuchElementException, StaleElementReferenceException
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement

from support.waiting import wait_for

# Notes what the page does: answers of its calls, code that ran for a text, breaches of its policy.
RECORDER = """
(() => {
  const seen = window.seen = {ran: [], bodies: [], breaches: [], calls: [], keeps: true};
  window.ran = (what) => { seen.ran.push(String(what)); };
  for (const name of ["alert", "confirm", "prompt", "print"]) {
    window[name] = (what) => window.ran(name + " " + what);
  }
  window.open = (where) => window.ran("open " + where);
  document.addEventListener("securitypolicyviolation", (event) =>
    seen.breaches.push(event.violatedDirective + " " + event.blockedURI));
  const real = window.fetch;
  window.fetch = async (...asked) => {
    if (!seen.keeps) return real(...asked);
    seen.calls.push({url: String(asked[0]), body: asked[1]?.body ?? ""});
    const answer = await real(...asked);
    const copy = answer.clone();
    if (!(answer.headers.get("Content-Type") ?? "").includes("ndjson")) seen.bodies.push(await copy.text());
    return answer;
  };
})();
"""
# Done when no call is awaited, nothing is loading, and the page has been drawn twice since.
SETTLED = """
const done = arguments[arguments.length - 1];
const begun = performance.now();
let quiet = 0;
const look = () => {
  const busy = document.querySelector("#main[aria-busy=true], .loading, .page-edge .spinner");
  quiet = busy ? 0 : quiet + 1;
  if (quiet > 3) done(true);
  else if (performance.now() - begun > 90000) done(busy ? busy.outerHTML.slice(0, 300) : "never drawn");
  else setTimeout(() => requestAnimationFrame(look), 20);
};
setTimeout(look, 0);
"""
AXE = resources.files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")
# Rules on the whole page, without advice that is no rule.
AXE_RUN = """
const done = arguments[arguments.length - 1];
axe.run(document, {resultTypes: ["violations"]}).then((result) => done(result.violations.map((one) => ({
  id: one.id, impact: one.impact, help: one.help,
  nodes: one.nodes.slice(0, 4).map((node) => node.html.slice(0, 200))}))),
  (error) => done([{id: "axe failed", impact: "critical", help: String(error), nodes: []}]));
"""
PATIENCE_SECONDS = 600
WIDE, NARROW = (1280, 860), (360, 780)


def place(*path: str, **query: str) -> str:
    """The part of the address behind `#`, as the page's router makes it."""
    quoted = "/".join(urllib.parse.quote(name, safe="") for name in path)
    return f"#/{quoted}" + (f"?{urllib.parse.urlencode(query)}" if query else "")


class Browser:
    """One tab. Use as a context manager."""

    def __init__(self) -> None:
        options = webdriver.ChromeOptions()
        options.binary_location = os.environ.get("CHROMIUM", "/usr/bin/chromium")
        for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                         "--hide-scrollbars", "--lang=en-GB", "--disable-background-networking",
                         "--js-flags=--expose-gc"):
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.driver = webdriver.Chrome(options=options, service=Service(
            os.environ.get("CHROMEDRIVER", "/usr/bin/chromedriver")))
        # On a busy machine the browser gets no processor for minutes.
        self.driver.set_script_timeout(PATIENCE_SECONDS)
        self.driver.command_executor.client_config.timeout = PATIENCE_SECONDS
        self.command("Page.addScriptToEvaluateOnNewDocument", source=RECORDER)
        self.base = ""
        self.clicks = 0
        self.look(WIDE, "light")

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        self.driver.quit()

    def command(self, name: str, **parameters: Any) -> Any:
        return self.driver.execute_cdp_cmd(name, parameters)

    def look(self, size: tuple[int, int], scheme: str) -> None:
        """The size of the page, and `light` or `dark`."""
        self.command("Emulation.setDeviceMetricsOverride", width=size[0], height=size[1],
                     deviceScaleFactor=1, mobile=size[0] < 500)
        self.command("Emulation.setEmulatedMedia",
                     features=[{"name": "prefers-color-scheme", "value": scheme},
                               {"name": "prefers-reduced-motion", "value": "reduce"}])

    def open(self, address: str, where: str = "#/sessions", token: str | None = None) -> None:
        """Loads the page of a server anew, with a token as if it had been typed in."""
        self.base = f"http://{address}/ui/"
        self.driver.get("about:blank")
        if token is not None:
            self.driver.get(f"{self.base}icon.svg")
            self.script("sessionStorage.setItem('memoryd.token', arguments[0])", token)
        self.driver.get(self.base + where)
        self.settle()

    def go(self, where: str) -> None:
        """To another place, as by a link."""
        self.script("location.hash = arguments[0]", where)
        self.settle()

    def settle(self) -> None:
        outcome = self.driver.execute_async_script(SETTLED)
        assert outcome is True, f"the page never settles: {outcome}\n{self.text()}"

    def script(self, source: str, *values: Any) -> Any:
        return self.driver.execute_script(source, *values)

    def text(self, within: str = "body") -> str:
        return self.script("return document.querySelector(arguments[0])?.innerText ?? ''", within)

    def all(self, css: str) -> Sequence[WebElement]:
        return self.driver.find_elements(By.CSS_SELECTOR, css)

    def one(self, css: str, text: str = "") -> WebElement:
        """The first element that has the text; waited for."""
        def find() -> WebElement | None:
            for element in self.all(css):
                try:
                    if element.is_displayed() and text in element.text:
                        return element
                except (NoSuchElementException, StaleElementReferenceException):
                    return None
            return None
        try:
            return wait_for(find, 500)
        except AssertionError:
            raise AssertionError(f"no {css} with {text!r} in:\n{self.text()}") from None

    def click(self, css: str, text: str = "") -> None:
        element = self.one(css, text)
        self.script("arguments[0].scrollIntoView({block: 'center'})", element)
        element.click()
        self.clicks += 1
        self.settle()

    def type(self, css: str, text: str, *, enter: bool = True) -> None:
        """Typing is no click."""
        field = self.one(css)
        field.clear()
        field.send_keys(text + ("\ue007" if enter else ""))
        self.settle()

    def has(self, text: str) -> bool:
        return text in self.text()

    def wait_text(self, text: str) -> None:
        try:
            wait_for(lambda: self.has(text), 1000)
        except AssertionError:
            raise AssertionError(f"no {text!r} in:\n{self.text()}") from None

    def console(self) -> list[str]:
        """What the console got since the last call."""
        return [f"{entry['level']} {entry['message']}" for entry in self.driver.get_log("browser")]

    def seen(self, what: str) -> list[Any]:
        return self.script("return window.seen[arguments[0]]", what)

    def foreign_requests(self) -> list[str]:
        """Addresses of other origins that the page asked for."""
        return self.script("""
          return performance.getEntriesByType("resource").map((one) => one.name).filter((name) =>
            !name.startsWith(location.origin) && !name.startsWith("blob:"));""")

    def axe(self) -> list[dict[str, Any]]:
        """What the rules of accessibility refuse, seriously or worse."""
        # By the debugger, which the page's policy does not bind.
        self.command("Runtime.evaluate", expression=f"(() => {{{AXE}}})()")
        found = self.driver.execute_async_script(AXE_RUN)
        return [one for one in found if one["impact"] in ("serious", "critical")]

    def picture(self, path: os.PathLike[str]) -> None:
        self.driver.save_screenshot(str(path))

    def heap_bytes(self) -> int:
        """Of the tab's JavaScript, after a collection."""
        self.script("window.gc?.()")
        metrics = self.command("Performance.getMetrics")["metrics"]
        return int(next(one["value"] for one in metrics if one["name"] == "JSHeapUsedSize"))


def folded_open(browser: Browser) -> None:
    """Opens all that is folded, so that it is made, and shows the first steps of long texts."""
    browser.script("document.querySelectorAll('#main details').forEach((one) => { one.open = true; })")
    browser.settle()
    browser.script("""
      for (const one of document.querySelectorAll("#main button.link")) {
        if (one.innerText.startsWith("Show more")) one.click();
      }""")


def printed(found: Any) -> str:
    return json.dumps(found, indent=1, ensure_ascii=False)
