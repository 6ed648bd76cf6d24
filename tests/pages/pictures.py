#!/usr/bin/env python3
"""Makes the pictures of emails in the documentation with Chromium, or the same pictures with Firefox to compare them.

    PYTHONPATH=FOLDER pictures.py BROWSER TIDINGS DOCS

TIDINGS is the program `tidings`, which renders each template with its sample. DOCS gets `digest.png`, three emails side by side, and
`templates.jpg`, every template in every language, in light, dark and as text, and in the other looks of mails.py. Firefox makes
`templates.png` instead. FOLDER has the packages of requirements.txt. The machine needs fonts for all languages (Debian:
fonts-dejavu, fonts-wqy-microhei)."""

import argparse
import base64
import html
import pathlib
import sys
import tempfile

from checks import Browser, opened
from firefox import Firefox
from mails import LANGUAGES, LOOKS, Look, looks, render, show

# Each of the other looks in one language of each direction.
BOTH_WAYS = ["en", "ar"]
LIGHT, DARK = LOOKS[:2]
# The part of an email that the sheet shows, and its scale.
WIDTH, HEIGHT, SCALE = 420, 560, 0.3
QUALITY = 42
SIDE_BY_SIDE = [("activity", Look("light", 620)), ("summary", Look("phone", 360)), ("review", Look("dark phone", 360, "dark"))]


def image(png: bytes, width: float) -> str:
    return f'<img alt="" width="{round(width)}" src="data:image/png;base64,{base64.b64encode(png).decode()}">'


def show_page(browser: Browser, page: str, folder: pathlib.Path, width: int):
    file = folder / "page.html"
    file.write_text(f'<!doctype html><meta charset="utf-8">{page}', encoding="utf-8")
    show(browser, file, Look("page", width))


def whole(browser: Browser, page: str, folder: pathlib.Path, width: int, **form) -> bytes:
    """A picture of a page that is made of pictures."""
    show_page(browser, page, folder, width)
    return browser.picture(width, browser.run("document.documentElement.scrollHeight"), **form)


def small(browser: Browser, mail: pathlib.Path, look: Look) -> str:
    """The top of an email for the sheet."""
    narrow = Look(look.name, min(look.width, WIDTH), look.colours, look.text, look.style_sheet, look.forced)
    show(browser, mail, narrow)
    scale = SCALE * WIDTH / narrow.width
    return image(browser.picture(narrow.width, HEIGHT * narrow.width / WIDTH, scale), SCALE * WIDTH)


def small_text(browser: Browser, mail: pathlib.Path, folder: pathlib.Path) -> str:
    text = html.escape(mail.read_text(encoding="utf-8"))
    style = "margin:10px;font:10px/14px monospace;white-space:pre-wrap;unicode-bidi:plaintext"
    show_page(browser, f'<pre style="{style}">{text}</pre>', folder, WIDTH)
    return image(browser.picture(WIDTH, HEIGHT, SCALE), SCALE * WIDTH)


def sheet(browser: Browser, mails: pathlib.Path, folder: pathlib.Path) -> bytes:
    names = sorted(path.name for path in mails.iterdir())
    row = lambda title, cells: f"<tr><th>{title}</th>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"
    rows = [row("", (f"<b>{language}</b>" for language in LANGUAGES))]
    for name in names:
        for look in (LIGHT, DARK):
            rows.append(row(f"{name}<br>{look.name}", (small(browser, mails / name / of / "body.html", look) for of in LANGUAGES)))
        rows.append(row(f"{name}<br>text", (small_text(browser, mails / name / of / "body.txt", folder) for of in LANGUAGES)))
    others = looks(browser)[2:]
    rows.append(row("", (f"<b>{look.name}, {of}</b>" for look in others for of in BOTH_WAYS)))
    for name in names:
        rows.append(row(name, (small(browser, mails / name / of / "body.html", look) for look in others for of in BOTH_WAYS)))
    style = """<style>body { margin: 8px; background: #d5d9e0; font: 12px sans-serif } img { display: block }
        th { text-align: left; width: 62px } td { text-align: center; padding: 2px }</style>"""
    width = round(62 + 12 * (WIDTH * SCALE + 6) + 32)
    return whole(browser, f"{style}<table>{''.join(rows)}</table>", folder, width, format="jpeg", quality=QUALITY)


def side_by_side(browser: Browser, mails: pathlib.Path, folder: pathlib.Path) -> bytes:
    cells = []
    for name, look in SIDE_BY_SIDE:
        show(browser, mails / name / "en" / "body.html", look)
        cells.append(image(browser.picture(look.width, 900), look.width))
    style = "<style>body { margin: 0; display: flex; gap: 12px; background: #fff }</style>"
    width = sum(look.width for _, look in SIDE_BY_SIDE) + 12 * (len(SIDE_BY_SIDE) - 1)
    return whole(browser, style + "".join(cells), folder, width, format="png")


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("browser")
    arguments.add_argument("tidings", type=pathlib.Path)
    arguments.add_argument("docs", type=pathlib.Path)
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory() as scratch, opened(given.browser) as browser:
        folder = pathlib.Path(scratch)
        mails = folder / "mails"
        render(given.tidings.resolve(), mails)
        (given.docs / "digest.png").write_bytes(side_by_side(browser, mails, folder))
        name = "templates.png" if isinstance(browser, Firefox) else "templates.jpg"
        (given.docs / name).write_bytes(sheet(browser, mails, folder))
    return 0


if __name__ == "__main__":
    sys.exit(main())
