#!/usr/bin/env python3
"""Looks at the pages of recipients in Chromium: every state with axe-core and an HTML parser, at every width, in light and dark, and
by keyboard.

    PYTHONPATH=FOLDER browser.py CHROMIUM URL [OTHER...] [--shots FOLDER]

URL is the page of a recipient who chose nothing, and OTHER are pages that the script looks at, and whose forms it sends. The script
changes choices, and undoes that. It prints one line a finding and exits with 1 if there is one. FOLDER has the packages of
requirements.txt."""

import argparse
import pathlib
import sys

from checks import axe_core, faults, html_faults, opened, report
from chromium import Chromium

# Name, width, height, text in per cent, colours.
LOOKS = [
    ("light", 1000, 900, 100, "light"),
    ("dark", 1000, 900, 100, "dark"),
    ("narrow", 320, 700, 100, "light"),
    ("large-text", 640, 900, 200, "dark"),
]


class Check:
    """Looks at states and collects findings."""

    def __init__(self, browser: Chromium, axe: str, shots: pathlib.Path | None):
        self.browser, self.axe, self.shots = browser, axe, shots
        self.findings: list[str] = []

    def state(self, name: str):
        self.findings += [f"{name}: {found}" for found in html_faults(self.browser.source())]
        for look, width, height, text, colours in LOOKS:
            place = f"{name}, {look}"
            self.browser.look(width, height, text, colours)
            self.findings += [f"{place}: {found}" for found in faults(self.browser, self.axe)]
            if self.shots:
                self.browser.shot(self.shots / f"{name}-{look}.png")
        self.browser.look(*LOOKS[0][1:])

    def says(self, text: str):
        if text not in self.browser.run("document.body.innerText").replace("\u2068", "").replace("\u2069", ""):
            self.findings.append(f"the page does not say {text!r}")


def submit(browser: Chromium, selector: str):
    browser.events.clear()
    browser.press_to(selector)
    browser.key("Enter", 13, "\r")
    browser.loaded()


def story(check: Check, url: str):
    """The states of the page, by keyboard alone."""
    browser = check.browser
    browser.open(url)
    check.state("first")
    browser.press_to('input[name="activity:category"]')
    browser.key(" ", 32, " ")
    submit(browser, 'button[value="save"]')
    check.says("Your choices are saved.")
    check.state("saved")
    submit(browser, ".notice button")
    check.says("The change is undone.")
    submit(browser, 'button[value="none"]')
    check.says("You get no more digests.")
    check.state("all-off")
    submit(browser, ".notice button")
    # As a window that was opened before the changes would.
    browser.run("document.querySelector('input[name=\"activity:seen\"]').value = '0 on'")
    browser.run("document.querySelector('input[name=\"activity:time\"]').value = '09:30'")
    browser.run("document.querySelector('select[name=\"activity:often\"]').value = 'daily'")
    submit(browser, 'button[value="save"]')
    check.says("changed meanwhile")
    check.state("conflict")
    browser.run("document.querySelector('input[name=\"activity:time\"]').type = 'text'")
    browser.run("document.querySelector('input[name=\"activity:time\"]').value = 'noon'")
    submit(browser, 'button[value="save"]')
    check.state("wrong-time")
    browser.open(url)
    browser.run("document.documentElement.dir = 'rtl'")
    check.state("right-to-left")


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("chromium")
    arguments.add_argument("url")
    arguments.add_argument("other", nargs="*")
    arguments.add_argument("--shots", type=pathlib.Path)
    given = arguments.parse_args()
    with opened(given.chromium) as browser:
        check = Check(browser, axe_core(), given.shots)
        story(check, given.url)
        for number, url in enumerate(given.other, 1):
            browser.open(url)
            check.state(f"other-{number}")
            if browser.run("document.querySelector('form') !== null"):
                submit(browser, "form button")
                check.state(f"other-{number}-sent")
    return report("pages", check.findings)


if __name__ == "__main__":
    sys.exit(main())
