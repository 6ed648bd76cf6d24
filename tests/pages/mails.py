#!/usr/bin/env python3
"""Looks at emails in Chromium or Firefox: each with axe-core and an HTML parser, in light and dark, on a phone, with large text, and
without its style sheet; in Chromium also as an email program shows it that makes every message dark.

    PYTHONPATH=FOLDER mails.py BROWSER MAILS

MAILS has a folder TEMPLATE/LANGUAGE for each email, as `tidings template preview --out` writes it. Or it is the program `tidings`, which
then renders the sample of each template in each language. The script prints one line a finding and exits with 1 if there is one.
FOLDER has the packages of requirements.txt."""

import argparse
import dataclasses
import pathlib
import subprocess
import sys
import tempfile

from checks import Browser, axe_core, faults, html_faults, opened, report

LANGUAGES = ["en", "de", "fr", "es", "pt-BR", "it", "nl", "pl", "sv", "ja", "zh-Hans", "ar"]

# An email is shown inside of the page of an email program, and that page has the landmarks.
OF_WHOLE_PAGES = ["landmark-one-main", "region"]
# The style attributes with which this script makes the text large.
OF_ZOOM = ["avoid-inline-spacing"]
# Text zoom as phones have it: letters grow, and nothing else does.
ZOOM = """(times => {
  const sizes = [...document.body.querySelectorAll('*')].map(e => [e, getComputedStyle(e)])
    .map(([e, s]) => [e, parseFloat(s.fontSize) * times, parseFloat(s.lineHeight) * times]);
  for (const [e, size, line] of sizes) {
    e.style.setProperty('font-size', size + 'px', 'important');
    if (line) e.style.setProperty('line-height', line + 'px', 'important');
  }
})"""


@dataclasses.dataclass(frozen=True)
class Look:
    name: str
    width: int
    colours: str = "light"
    text: float = 1
    style_sheet: bool = True
    forced: bool = False


LOOKS = [
    Look("light", 720),
    Look("dark", 720, "dark"),
    Look("phone", 320),
    Look("dark phone", 320, "dark"),
    Look("200 % text", 400, text=2),
    Look("no style sheet", 400, style_sheet=False),
    Look("forced dark", 720, style_sheet=False, forced=True),
]


def looks(browser: Browser) -> list[Look]:
    """The looks that the browser can show."""
    return [look for look in LOOKS if browser.CAN_FORCE_DARK or not look.forced]


def show(browser: Browser, mail: pathlib.Path, look: Look):
    browser.look(look.width, 900, 100, look.colours)
    if browser.CAN_FORCE_DARK:
        browser.force_dark(look.forced)
    browser.open(mail.as_uri())
    if not look.style_sheet:
        browser.run("document.querySelectorAll('style, meta[name*=color-scheme]').forEach(e => e.remove())")
    if look.text != 1:
        browser.run(f"{ZOOM}({look.text})")


def found_in(browser: Browser, axe: str, folder: pathlib.Path) -> list[str]:
    """The findings of one email."""
    mail = folder / "body.html"
    found = html_faults(mail.read_text(encoding="utf-8"))
    for look in looks(browser):
        show(browser, mail, look)
        left_out = OF_WHOLE_PAGES + (OF_ZOOM if look.text != 1 else [])
        found += [f"{look.name}: {fault}" for fault in faults(browser, axe, left_out)]
    return found


def render(tidings: pathlib.Path, mails: pathlib.Path):
    """Renders the sample of each template in each language."""
    listed = subprocess.run([tidings, "template", "list"], check=True, capture_output=True, text=True)
    for name in listed.stdout.split():
        for language in LANGUAGES:
            command = [tidings, "template", "preview", name, "--locale", language, "--out", mails / name / language]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("browser")
    arguments.add_argument("mails", type=pathlib.Path)
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        mails = given.mails
        if mails.is_file():
            mails = pathlib.Path(scratch)
            render(given.mails.resolve(), mails)
        folders = sorted(path.parent.resolve() for path in mails.glob("*/*/body.html"))
        if not folders:
            sys.exit(f"mails: {mails} has no TEMPLATE/LANGUAGE/body.html")
        with opened(given.browser) as browser:
            axe = axe_core()
            found = [f"{folder.parent.name} {folder.name}: {fault}" for folder in folders for fault in found_in(browser, axe, folder)]
    return report(f"{len(folders)} emails", found)


if __name__ == "__main__":
    sys.exit(main())
