#!/usr/bin/env python3
"""Looks at rendered emails in Chromium: each with axe-core and an HTML parser, in light and dark, on a phone, with large text,
without its style sheet, and as an email program shows it that makes every message dark.

    PYTHONPATH=FOLDER mails.py CHROMIUM MAILS

MAILS has a folder TEMPLATE/LANGUAGE for each email, as `tidings template preview --out` writes it. The script prints one line a
finding and exits with 1 if there is one. FOLDER has the packages of requirements.txt."""

import argparse
import dataclasses
import pathlib
import sys
import tempfile

from chromium import Browser, axe_core, html_faults

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


def show(browser: Browser, mail: pathlib.Path, look: Look):
    browser.look(look.width, 900, 100, look.colours)
    browser.call("Emulation.setAutoDarkModeOverride", enabled=look.forced)
    browser.open(mail.as_uri())
    if not look.style_sheet:
        browser.run("document.querySelectorAll('style, meta[name*=color-scheme]').forEach(e => e.remove())")
    if look.text != 1:
        browser.run(f"{ZOOM}({look.text})")


def faults(browser: Browser, axe: str, folder: pathlib.Path) -> list[str]:
    """The findings of one email."""
    mail = folder / "body.html"
    found = html_faults(mail.read_text(encoding="utf-8"))
    for look in LOOKS:
        show(browser, mail, look)
        found += [f"{look.name}: {fault}" for fault in browser.faults(axe, OF_WHOLE_PAGES + (OF_ZOOM if look.text != 1 else []))]
    return found


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("chromium")
    arguments.add_argument("mails", type=pathlib.Path)
    given = arguments.parse_args()
    folders = sorted(path.parent.resolve() for path in given.mails.glob("*/*/body.html"))
    if not folders:
        sys.exit(f"mails: {given.mails} has no TEMPLATE/LANGUAGE/body.html")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = Browser(given.chromium, profile)
        try:
            axe = axe_core()
            found = [f"{folder.parent.name} {folder.name}: {fault}" for folder in folders for fault in faults(browser, axe, folder)]
        finally:
            browser.close()
    print("\n".join(found) or f"mails: nothing found in {len(folders)}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
