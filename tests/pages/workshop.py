#!/usr/bin/env python3
"""Looks at pages of the workshop of `tidings dev` in Chromium, with axe-core and an HTML parser, at every width, in light and dark.

    PYTHONPATH=FOLDER workshop.py CHROMIUM URL... [--edit FILE OLD NEW] [--picture PNG] [--shots FOLDER]

With --edit, the script replaces OLD by NEW in a file that the first page shows, and expects the page to load itself again, unless
JSON was typed there. With --picture, it only writes a picture of the first page. The script prints one line a finding and exits with 1
if there is one. FOLDER has the packages of requirements.txt."""

import argparse
import pathlib
import sys
import time

from browser import LOOKS, Check
from checks import axe_core, faults, html_faults, opened, report
from chromium import PATIENCE, Chromium

# The size of the picture, and its colours.
PICTURE = (1180, 860, 100, "light")
SOURCE = "fetch(location.href).then(answer => answer.text())"


class Pages(Check):
    """The frame has a document of its own, so that the page's source is asked for by the page."""

    def state(self, name: str):
        self.findings += [f"{name}: {found}" for found in html_faults(self.browser.run(SOURCE))]
        for look, *how in LOOKS:
            self.browser.look(*how)
            self.findings += [f"{name}, {look}: {found}" for found in faults(self.browser, self.axe)]
            if self.shots:
                self.browser.shot(self.shots / f"{name}-{look}.png")
        self.browser.look(*LOOKS[0][1:])


def edit(file: pathlib.Path, old: str, new: str):
    text = file.read_text(encoding="utf-8")
    if old not in text:
        sys.exit(f"workshop: {file} has no {old!r}")
    file.write_text(text.replace(old, new), encoding="utf-8")


def until(browser: Chromium, script: str) -> bool:
    end = time.monotonic() + PATIENCE
    while not browser.run(script):
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def changes(check: Pages, url: str, file: pathlib.Path, old: str, new: str):
    browser = check.browser
    browser.open(url)
    check.says(old)
    browser.events.clear()
    edit(file, old, new)
    browser.loaded()
    check.says(new)
    browser.run("document.getElementById('json').value += ' '; window.stays = true; 0")
    edit(file, new, old)
    if not until(browser, "!document.getElementById('changed').hidden") or not browser.run("window.stays"):
        check.findings.append("the page does not say that a file changed, or typed JSON is lost")


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("chromium")
    arguments.add_argument("url", nargs="+")
    arguments.add_argument("--edit", nargs=3, metavar=("FILE", "OLD", "NEW"))
    arguments.add_argument("--picture", type=pathlib.Path)
    arguments.add_argument("--shots", type=pathlib.Path)
    given = arguments.parse_args()
    with opened(given.chromium) as browser:
        if given.picture:
            browser.look(*PICTURE)
            browser.open(given.url[0])
            given.picture.write_bytes(browser.picture(*PICTURE[:2]))
            return 0
        check = Pages(browser, axe_core(), given.shots)
        for number, url in enumerate(given.url, 1):
            browser.open(url)
            check.state(f"workshop-{number}")
        if given.edit:
            file, old, new = given.edit
            changes(check, given.url[0], pathlib.Path(file), old, new)
    return report("workshop", check.findings)


if __name__ == "__main__":
    sys.exit(main())
