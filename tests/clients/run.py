#!/usr/bin/env python3
"""Makes clients of docs/openapi.json with the generators that teams use, compiles them, and calls a running Tidings with each.

usage: run.py TIDINGS WHEELS MODULES [NAME...]

Runs the program TIDINGS as a worker and a gateway with a Temporal server (TEMPORAL_CLI). WHEELS is the folder of requirements.txt, MODULES that
of package.json. Without a NAME all clients are made. Each program posts a new event, its repetition and a wrong one, sends a message twice
with other content, lists it, and must print the same lines. The exit code is 1 if one does not.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "api"))

from running import Sqlite, Tidings  # noqa: E402

DOCUMENT = str(HERE.parent.parent / "docs/openapi.json")
OAPI_CODEGEN = "github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.8.2"
EXPECTED = """\
events e:accepted e:duplicate wrong:refused
problem 400 /problems/nothing-accepted
message m
problem 409 /problems/other-content
listed m
"""


class Maker:
    """Makes a client in a folder of its own. Each method returns the command that calls Tidings with it."""

    def __init__(self, folder, wheels, modules):
        self.folder, self.wheels, self.modules = folder, wheels, modules
        self.environment = {**os.environ, "PYTHONPATH": f"{wheels}{os.pathsep}{folder}", "PATH": f"{wheels}/bin:{os.environ['PATH']}"}

    def run(self, *command):
        ended = subprocess.run(command, cwd=self.folder, env=self.environment, capture_output=True, text=True)
        if ended.returncode != 0:
            sys.exit(f"{' '.join(command)}\n{ended.stdout[-4000:]}{ended.stderr[-4000:]}")
        return ended.stdout

    def generate(self, language, folder, **properties):
        """Runs openapi-generator."""
        jar = next(pathlib.Path(self.wheels).glob("openapi_generator_cli/*.jar"))
        words = ",".join(f"{name}={value}" for name, value in properties.items())
        self.run("java", "-jar", str(jar), "generate", "-i", DOCUMENT, "-g", language, "-o", folder, "--additional-properties", words)

    def program(self, name, to):
        (self.folder / to).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(HERE / name, self.folder / to)

    def openapi_typescript(self):
        (self.folder / "node_modules").symlink_to(f"{self.modules}/node_modules")
        self.program("openapi_typescript.ts", "use.ts")
        self.program("package.json", "package.json")
        self.run("node", "node_modules/openapi-typescript/bin/cli.js", DOCUMENT, "-o", "api.ts")
        self.run("node", "node_modules/typescript/bin/tsc", "--strict", "--noUncheckedIndexedAccess", "--target", "es2022",
                 "--module", "nodenext", "--types", "node", "use.ts", "api.ts")
        return ["node", "use.js"]

    def openapi_python_client(self):
        self.program("openapi_python_client.py", "use.py")
        self.run(sys.executable, "-m", "openapi_python_client", "generate", "--path", DOCUMENT, "--meta", "none",
                 "--output-path", "tidings_client")
        return [sys.executable, "use.py"]

    def openapi_generator_python(self):
        self.program("openapi_generator_python.py", "use.py")
        self.generate("python", ".", packageName="tidings_client")
        return [sys.executable, "use.py"]

    def openapi_generator_go(self):
        self.generate("go", "client", packageName="client", withGoMod="false", enumClassPrefix="true")
        for unused in ("test", "docs", "api"):
            shutil.rmtree(self.folder / "client" / unused, ignore_errors=True)
        return self.go("openapi_generator_go.go")

    def oapi_codegen(self):
        (self.folder / "client").mkdir()
        self.run("go", "run", OAPI_CODEGEN, "-generate", "types,client", "-package", "client", "-o", "client/client.go", DOCUMENT)
        return self.go("oapi_codegen.go")

    def go(self, program):
        self.program(program, "main.go")
        self.run("go", "mod", "init", "producer")
        self.run("go", "mod", "tidy")
        self.run("go", "build", "-o", "use", ".")
        return ["./use"]

    def openapi_generator_java(self):
        self.generate("java", ".", library="okhttp-gson", invokerPackage="tidings", apiPackage="tidings.api", modelPackage="tidings.model")
        self.program("OpenapiGenerator.java", "src/main/java/OpenapiGenerator.java")
        self.run("mvn", "--quiet", "--batch-mode", "-Dmaven.test.skip=true", "-Dmaven.javadoc.skip=true", "-Dmaven.source.skip=true",
                 "package", "dependency:copy-dependencies", "-DoutputDirectory=libraries")
        return ["java", "-cp", f"target/classes{os.pathsep}libraries/*", "OpenapiGenerator"]


NAMES = [name for name, made in vars(Maker).items() if name.startswith(("openapi", "oapi")) and callable(made)]


def main(program, wheels, modules, *names):
    program, wheels, modules = (str(pathlib.Path(path).resolve()) for path in (program, wheels, modules))
    unknown = set(names) - set(NAMES)
    if unknown:
        sys.exit(f"there is no client {', '.join(unknown)}; there are {', '.join(NAMES)}")
    failed = 0
    with tempfile.TemporaryDirectory(prefix="tidings.") as scratch:
        folder = pathlib.Path(scratch)
        with Tidings(program, folder, Sqlite(folder / "tidings.db")) as tidings:
            token = tidings.token("acme")
            for name in names or NAMES:
                place = folder / name
                place.mkdir()
                maker = Maker(place, wheels, modules)
                command = getattr(maker, name)()
                maker.environment |= {"TIDINGS_URL": tidings.url, "TIDINGS_TOKEN": token}
                printed = maker.run(*command, name)
                failed += printed != EXPECTED
                print(f"{name}: {'ok' if printed == EXPECTED else 'printed'}")
                if printed != EXPECTED:
                    print(printed)
    sys.exit(bool(failed))


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
