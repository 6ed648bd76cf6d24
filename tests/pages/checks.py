"""A browser for a check, what checks look for in its pages (axe-core, an HTML parser, and the width), and how they end."""

import contextlib
import json
import pathlib
import tempfile
from collections.abc import Iterator

import axe_playwright_python
import html5lib

from chromium import Chromium
from firefox import Firefox

Browser = Chromium | Firefox
AXE = """(async left_out => {
  const rules = Object.fromEntries(left_out.map(rule => [rule, {enabled: false}]));
  const found = await axe.run(document, {resultTypes: ['violations'], rules});
  return JSON.stringify(found.violations.map(v => v.id + ': ' + v.help + ' ' + v.nodes.map(n => n.target.join(' ')).join(', ')));
})"""


@contextlib.contextmanager
def opened(program: str) -> Iterator[Browser]:
    """A browser with a profile of its own, up to the end of the block."""
    made = Firefox if "firefox" in pathlib.Path(program).name else Chromium
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = made(program, profile)
        try:
            yield browser
        finally:
            browser.close()


def report(checked: str, findings: list[str]) -> int:
    """Prints one line a finding, and returns the code with which a script ends."""
    print("\n".join(findings) or f"{checked}: nothing found")
    return 1 if findings else 0


def axe_core() -> str:
    """The script of axe-core."""
    return (pathlib.Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text(encoding="utf-8")


def faults(browser: Browser, axe: str, left_out: list[str] | None = None) -> list[str]:
    """The findings of axe-core without the rules that are left out, and a window that is too narrow for the page."""
    browser.run(axe + "; 0")
    found = json.loads(browser.run(f"{AXE}({json.dumps(left_out or [])})"))
    wide = browser.run("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    return found + ([f"is {wide} px wider than the window"] if wide > 0 else [])


def html_faults(source: str) -> list[str]:
    parser = html5lib.HTMLParser()
    parser.parse(source)
    return [f"HTML: line {place[0]}: {code} {about}" for place, code, about in parser.errors]
