#!/usr/bin/env python3
"""Looks at the pages of recipients in Chromium: every state with axe-core and an HTML parser, at every width, in light and dark, and
by keyboard.

    PYTHONPATH=FOLDER browser.py CHROMIUM URL [OTHER...] [--shots FOLDER]

URL is the page of a recipient who chose nothing, and OTHER are pages that the script only looks at. The script changes choices, and
ends with the first state again. It prints one line a finding and exits with 1 if there is one. FOLDER has the packages of
requirements.txt."""

import argparse
import base64
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import axe_playwright_python
import html5lib

PATIENCE = 20
FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--hide-scrollbars", "--remote-debugging-pipe",
]
# Name, width, height, text in per cent, colours.
LOOKS = [
    ("light", 1000, 900, 100, "light"),
    ("dark", 1000, 900, 100, "dark"),
    ("narrow", 320, 700, 100, "light"),
    ("large-text", 640, 900, 200, "dark"),
]
AXE = """(async () => {
  const found = await axe.run(document, {resultTypes: ['violations']});
  return JSON.stringify(found.violations.map(v => v.id + ': ' + v.help + ' ' + v.nodes.map(n => n.target.join(' ')).join(', ')));
})()"""


class Browser:
    """Chromium behind its debugging pipe: messages are JSON, each with a zero byte after it."""

    def __init__(self, program: str, profile: str):
        there, self.requests = os.pipe()
        self.answers, here = os.pipe()

        def descriptors():
            # Above 4 first: the pipes may have these numbers themselves.
            high = os.dup2(there, 100), os.dup2(here, 101)
            os.dup2(high[0], 3), os.dup2(high[1], 4)

        self.process = subprocess.Popen(
            [program, *FLAGS, f"--user-data-dir={profile}", "about:blank"],
            preexec_fn=descriptors, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )
        os.close(there), os.close(here)
        self.number, self.buffer, self.session, self.events = 0, b"", None, []
        self.document = ""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.call("Page.enable")
        self.call("Network.enable")

    def message(self) -> dict:
        while b"\0" not in self.buffer:
            part = os.read(self.answers, 1 << 16)
            if not part:
                sys.exit("browser: Chromium has ended")
            self.buffer += part
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def call(self, method: str, **params) -> dict:
        self.number += 1
        request = {"id": self.number, "method": method, "params": params}
        if self.session:
            request["sessionId"] = self.session
        os.write(self.requests, json.dumps(request).encode() + b"\0")
        while True:
            message = self.message()
            if message.get("id") == self.number:
                if "error" in message:
                    sys.exit(f"browser: {method}: {message['error']['message']}")
                return message["result"]
            self.note(message)

    def note(self, event: dict):
        self.events.append(event.get("method"))
        if event.get("method") == "Network.responseReceived" and event["params"]["type"] == "Document":
            self.document = event["params"]["requestId"]

    def loaded(self):
        """Waits for the page that a call before this one began to load."""
        while "Page.loadEventFired" not in self.events:
            self.note(self.message())
        self.events.clear()

    def open(self, url: str):
        self.events.clear()
        self.call("Page.navigate", url=url)
        self.loaded()

    def run(self, script: str):
        answer = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            sys.exit(f"browser: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def source(self) -> str:
        """The page as the server sent it."""
        got = self.call("Network.getResponseBody", requestId=self.document)
        return base64.b64decode(got["body"]).decode() if got["base64Encoded"] else got["body"]

    def look(self, width: int, height: int, text: int, colours: str):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": colours}])
        self.run(f"document.documentElement.style.fontSize = '{text}%'")

    def shot(self, path: pathlib.Path):
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        picture = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)["data"]
        path.write_bytes(base64.b64decode(picture))

    def key(self, key: str, code: int, text: str = ""):
        for kind in ("keyDown", "keyUp"):
            extra = {"text": text} if text and kind == "keyDown" else {}
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code, **extra)

    def press_to(self, wanted: str):
        """Presses Tab until the focus is on what the selector matches."""
        for _ in range(60):
            self.key("Tab", 9)
            if self.run(f"document.activeElement.matches({wanted!r})"):
                return
        sys.exit(f"browser: the keyboard does not reach {wanted}")

    def close(self):
        self.process.terminate()
        self.process.wait(PATIENCE)


class Check:
    """Looks at states and collects findings."""

    def __init__(self, browser: Browser, axe: str, shots: pathlib.Path | None):
        self.browser, self.axe, self.shots = browser, axe, shots
        self.findings: list[str] = []

    def state(self, name: str):
        parser = html5lib.HTMLParser()
        parser.parse(self.browser.source())
        self.findings += [f"{name}: HTML: line {place[0]}: {code} {about}" for place, code, about in parser.errors]
        for look, width, height, text, colours in LOOKS:
            place = f"{name}, {look}"
            self.browser.look(width, height, text, colours)
            self.browser.run(self.axe + "; 0")
            self.findings += [f"{place}: {found}" for found in json.loads(self.browser.run(AXE))]
            wide = self.browser.run("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            if wide > 0:
                self.findings.append(f"{place}: is {wide} px wider than the window")
            if self.shots:
                self.browser.shot(self.shots / f"{name}-{look}.png")
        self.browser.look(*LOOKS[0][1:])

    def says(self, text: str):
        if text not in self.browser.run("document.body.innerText").replace("\u2068", "").replace("\u2069", ""):
            self.findings.append(f"the page does not say {text!r}")


def submit(browser: Browser, selector: str):
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
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = Browser(given.chromium, profile)
        axe = pathlib.Path(axe_playwright_python.__file__).parent / "axe.min.js"
        check = Check(browser, axe.read_text(encoding="utf-8"), given.shots)
        try:
            story(check, given.url)
            for number, url in enumerate(given.other, 1):
                browser.open(url)
                check.state(f"other-{number}")
        finally:
            browser.close()
    print("\n".join(check.findings) or "pages: nothing found")
    return 1 if check.findings else 0


if __name__ == "__main__":
    sys.exit(main())
