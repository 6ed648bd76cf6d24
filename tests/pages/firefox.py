"""Firefox, with what the checks of emails need of it."""

import base64
import json
import pathlib
import socket
import subprocess
import sys
import time

# Seconds for what a browser does at once. On a busy machine Firefox needs half of them to start.
PATIENCE = 60
FLAGS = ["--headless", "--no-remote", "--marionette", "--remote-allow-system-access"]
# The file of the profile with the port of Marionette, which chooses one if it is asked for 0.
PORT = "MarionetteActivePort"
# Scrollbars over the page leave it all of the width.
PREFERENCES = """user_pref("marionette.port", 0);
user_pref("ui.useOverlayScrollbars", 1);
"""
# The values of the preference for the colours of pages.
SCHEMES = {"dark": 0, "light": 1}
# The window is never narrower than 450 px; what it shows can be.
RESIZE = """for (const [side, px] of Object.entries({width: arguments[0], height: arguments[1]}))
  for (const name of [side, 'min-' + side, 'max-' + side])
    gBrowser.selectedBrowser.style.setProperty(name, px + 'px', 'important');
Services.prefs.setIntPref('layout.css.prefers-color-scheme.content-override', arguments[2]);"""
RESIZED = """new Promise(done => {
  const look = () => innerWidth === %d && innerHeight === %d && matchMedia('(prefers-color-scheme: %s)').matches
    ? done(0) : setTimeout(look, 20);
  look();
})"""
RUN = """const done = arguments[arguments.length - 1];
const fail = error => done({error: String(error)});
try {
  Promise.resolve((0, eval)(arguments[0])).then(value => done({value}), fail);
} catch (error) {
  fail(error);
}"""


class Firefox:
    """Firefox behind Marionette: messages are JSON, each with its length and a colon before it."""

    CAN_FORCE_DARK = False

    def __init__(self, program: str, profile: str):
        folder = pathlib.Path(profile)
        (folder / "user.js").write_text(PREFERENCES, encoding="utf-8")
        self.process = subprocess.Popen(
            [program, *FLAGS, "--profile", profile], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        self.number, self.buffer, self.colours = 0, b"", "light"
        try:
            self.stream = socket.create_connection(("127.0.0.1", port(folder / PORT)), PATIENCE)
            self.message()
            self.call("WebDriver:NewSession")
            self.call("WebDriver:SetTimeouts", script=PATIENCE * 1000)
        except BaseException:
            self.process.kill()
            raise

    def message(self):
        while b":" not in self.buffer:
            self.receive()
        length, self.buffer = self.buffer.split(b":", 1)
        while len(self.buffer) < int(length):
            self.receive()
        message, self.buffer = self.buffer[: int(length)], self.buffer[int(length) :]
        return json.loads(message)

    def receive(self):
        part = self.stream.recv(1 << 16)
        if not part:
            sys.exit("firefox: it has ended")
        self.buffer += part

    def call(self, method: str, **params):
        self.number += 1
        request = json.dumps([0, self.number, method, params]).encode()
        self.stream.sendall(b"%d:%s" % (len(request), request))
        _kind, _number, error, result = self.message()
        if error:
            sys.exit(f"firefox: {method}: {error['message']}")
        return result

    def open(self, url: str):
        self.call("WebDriver:Navigate", url=url)

    def run(self, script: str):
        answer = self.call("WebDriver:ExecuteAsyncScript", script=RUN, args=[script])["value"]
        if "error" in answer:
            sys.exit(f"firefox: {answer['error']}")
        return answer.get("value")

    def look(self, width: int, height: int, text: int, colours: str):
        self.colours = colours
        self.resize(width, height)
        self.run(f"document.documentElement.style.fontSize = '{text}%'")

    def resize(self, width: int, height: int):
        self.call("Marionette:SetContext", value="chrome")
        self.call("WebDriver:ExecuteScript", script=RESIZE, args=[width, height, SCHEMES[self.colours]])
        self.call("Marionette:SetContext", value="content")
        self.run(RESIZED % (width, height, self.colours))

    def picture(self, width: float, height: float, _scale: float = 1, **_form) -> bytes:
        """The page from its top left corner, as PNG in its full size."""
        self.resize(round(width), round(height))
        return base64.b64decode(self.call("WebDriver:TakeScreenshot", full=False)["value"])

    def close(self):
        self.stream.close()
        self.process.terminate()
        self.process.wait(PATIENCE)


def port(file: pathlib.Path) -> int:
    """The port in the file, which Firefox writes when it is ready."""
    end = time.monotonic() + PATIENCE
    while not (file.exists() and file.read_text(encoding="utf-8").strip()):
        if time.monotonic() > end:
            sys.exit(f"firefox: it did not start within {PATIENCE} s")
        time.sleep(0.05)
    return int(file.read_text(encoding="utf-8"))
