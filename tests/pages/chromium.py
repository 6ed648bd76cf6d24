"""Chromium, with what the checks of pages and of emails need of it."""

import base64
import json
import os
import pathlib
import subprocess
import sys

# Seconds for what a browser does at once.
PATIENCE = 20
FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--hide-scrollbars", "--remote-debugging-pipe",
]


class Chromium:
    """Chromium behind its debugging pipe: messages are JSON, each with a zero byte after it."""

    # It can show a page as an email program does that makes every message dark.
    CAN_FORCE_DARK = True

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

    def force_dark(self, forced: bool):
        self.call("Emulation.setAutoDarkModeOverride", enabled=forced)

    def picture(self, width: float, height: float, scale: float = 1, **form) -> bytes:
        """The page from its top left corner, as PNG or in another form."""
        clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": scale}
        got = self.call("Page.captureScreenshot", captureBeyondViewport=True, clip=clip, **form)
        return base64.b64decode(got["data"])

    def shot(self, path: pathlib.Path):
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        path.write_bytes(self.picture(size["width"], size["height"]))

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
