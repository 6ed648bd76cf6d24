"""Chromium for the checks of pages and of mails, and what they look for: axe-core, an HTML parser, and the width."""

import base64
import json
import os
import pathlib
import subprocess
import sys

import axe_playwright_python
import html5lib

PATIENCE = 20
FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--hide-scrollbars", "--remote-debugging-pipe",
]
AXE = """(async left_out => {
  const rules = Object.fromEntries(left_out.map(rule => [rule, {enabled: false}]));
  const found = await axe.run(document, {resultTypes: ['violations'], rules});
  return JSON.stringify(found.violations.map(v => v.id + ': ' + v.help + ' ' + v.nodes.map(n => n.target.join(' ')).join(', ')));
})"""


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

    def faults(self, axe: str, left_out: list[str] | None = None) -> list[str]:
        """The findings of axe-core without the rules that are left out, and a window that is too narrow for the page."""
        self.run(axe + "; 0")
        found = json.loads(self.run(f"{AXE}({json.dumps(left_out or [])})"))
        wide = self.run("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        return found + ([f"is {wide} px wider than the window"] if wide > 0 else [])


def axe_core() -> str:
    """The script of axe-core."""
    return (pathlib.Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text(encoding="utf-8")


def html_faults(source: str) -> list[str]:
    parser = html5lib.HTMLParser()
    parser.parse(source)
    return [f"HTML: line {place[0]}: {code} {about}" for place, code, about in parser.errors]
