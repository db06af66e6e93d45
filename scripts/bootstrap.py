"""Make a virtual environment in which the project is built, or find that it is there already.

    python3 scripts/bootstrap.py [--venv .venv] [--python PYTHON] [--with requirements/FILE ...] [--build KIND]

Every chore of the Makefile begins here. The second call is quick: a stamp in the environment remembers what it was made
from, and only the compiled modules are brought up to date.

This file runs on any Python from 3.6, so that an interpreter that is too old is told so in one sentence. It must not
import anything but the standard library, nor use newer syntax. Exit status: 0 done, 2 something is missing here that
only the user can provide, 1 a step failed (its log is shown).
"""

import argparse
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from typing import Any, Dict, List, Optional, Sequence

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
OLDEST = (3, 11)
STAMP = "penstock-stamp.json"
LOG_LINES_SHOWN = 40

# KIND: how the compiled modules are built. `release` and `trace` are editable installs, which follow the sources; a
# sanitized module loads only under preloaded libraries, so it is installed as it is and rebuilt by the next call.
EDITABLE = ("release", "trace", "unprobed")
KINDS = {
    "release": [],
    "trace": ["-Dtrace=true"],
    "unprobed": ["-Dprobes=false"],
    "sanitized": ["-Dsanitize=true", "-Dbuildtype=debugoptimized"],
}  # type: Dict[str, List[str]]

# One line of what an interpreter is: asked of the interpreter itself, because a name on PATH may be an empty shim.
PROBE = (
    "import json, sys, sysconfig, importlib.util as u; print(json.dumps({"
    "'version': list(sys.version_info[:3]),"
    "'executable': getattr(sys, '_base_executable', sys.executable),"
    "'include': sysconfig.get_path('include'), 'tag': sysconfig.get_config_var('SOABI'),"
    "'ensurepip': u.find_spec('ensurepip') is not None and u.find_spec('venv') is not None}))"
)


class Missing(Exception):
    """Something that only the user can provide. The message is one sentence that says what and how."""


class Failed(Exception):
    """A step failed; the message is all there is to say."""


def say(text: str) -> None:
    """Print one line of progress."""
    sys.stderr.write("penstock: %s\n" % text)
    sys.stderr.flush()


def probe(python: str) -> Optional[Dict[str, Any]]:
    """Return what PROBE tells of an interpreter, or None if it does not start."""
    try:
        done = subprocess.run(
            [python, "-c", PROBE], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=60, check=True
        )
        found = json.loads(done.stdout.decode())  # type: Dict[str, Any]
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    return found


def newer_on_path() -> Optional[str]:
    """Return the name of an interpreter on PATH that would do, or None."""
    for minor in range(OLDEST[1], OLDEST[1] + 10):
        name = "python3.%d" % minor
        if shutil.which(name) and probe(name):
            return name
    return None


def dotted(version: Sequence[int]) -> str:
    """Return a version as people write it."""
    return ".".join(map(str, version))


def require_python(python: str) -> Dict[str, Any]:
    """Return the probe of an interpreter that can build the project."""
    found = probe(python)
    oldest = dotted(OLDEST)
    if found is None:
        raise Missing(
            "{0} does not start; name a Python {1} or newer, as in: PYTHON=python{1} make".format(python, oldest)
        )
    if tuple(found["version"][:2]) < OLDEST:
        name = newer_on_path() or "/path/to/python%s" % oldest
        version = dotted(found["version"])
        raise Missing(
            "%s is Python %s, but %s or newer is needed; try: PYTHON=%s make" % (python, version, oldest, name)
        )
    if not found["ensurepip"]:
        raise Missing(
            "Python at %s lacks venv or ensurepip; install them (Debian, Ubuntu: apt install python3-venv)"
            % found["executable"]
        )
    if not os.path.exists(os.path.join(found["include"], "Python.h")):
        raise Missing(
            "Python.h is not in %s; install the headers of your Python (Debian, Ubuntu: apt install python3-dev)"
            % found["include"]
        )
    return found


def require_compiler() -> None:
    """Check that there is a C compiler."""
    asked = os.environ.get("CC", "").split()
    names = asked[:1] or ["cc", "gcc", "clang"]
    if not any(shutil.which(name) for name in names):
        raise Missing(
            "no C compiler found (looked for %s); install one (Debian, Ubuntu: apt install gcc) or name it in CC"
            % ", ".join(names)
        )


def run(arguments: List[str], log: str, env: Dict[str, str]) -> None:
    """Run one step with its output in the log; on failure show the end of the log."""
    with open(log, "ab") as stream:
        stream.write(("$ %s\n" % " ".join(arguments)).encode())
        stream.flush()
        code = subprocess.call(arguments, cwd=ROOT, env=env, stdout=stream, stderr=subprocess.STDOUT)
    if code:
        with open(log, "rb") as stream:
            lines = stream.read().decode(errors="replace").splitlines()[-LOG_LINES_SHOWN:]
        sys.stderr.write("\n".join(lines) + "\n")
        raise Failed("a step ended with status %d (%s); the whole log is in %s" % (code, " ".join(arguments[:4]), log))


def fingerprint(found: Dict[str, Any], kind: str, requirements: List[str]) -> str:
    """Return a digest of everything that an environment is made from, apart from the sources themselves."""
    digest = hashlib.sha256()
    digest.update(json.dumps([found["version"], found["tag"], kind, KINDS[kind]], sort_keys=True).encode())
    for name in sorted(requirements) + ["meson.build", "meson_options.txt"]:
        with open(os.path.join(ROOT, name), "rb") as stream:
            digest.update(name.encode() + stream.read())
    digest.update(project_description().encode())
    return digest.hexdigest()


def project_description() -> str:
    """Return what pyproject.toml says of the project and its build, without the settings of other tools."""
    kept = []
    wanted = True
    with open(os.path.join(ROOT, "pyproject.toml")) as stream:
        for line in stream:
            if line.startswith("["):
                wanted = not line.startswith("[tool.") or line.startswith("[tool.meson-python")
            if wanted:
                kept.append(line)
    return "".join(kept)


class Environment:
    """One virtual environment and the build directory that goes with it: `.venv-x` is built in `build/venv-x`."""

    def __init__(self, venv: str, kind: str, requirements: List[str]) -> None:
        self.path = os.path.abspath(venv)
        self.kind = kind
        self.requirements = requirements
        name = os.path.basename(self.path).lstrip(".")
        self.build = os.path.join(ROOT, "build", name)
        self.log = os.path.join(ROOT, "build", "bootstrap-%s.log" % name)
        self.python = os.path.join(self.path, "bin", "python")
        self.stamp = os.path.join(self.path, STAMP)
        self.lock = os.path.join(ROOT, "build", name + ".lock")
        self.env = dict(os.environ, PATH=os.path.join(self.path, "bin") + os.pathsep + os.environ.get("PATH", ""))
        for name in ("PYTHONHOME", "PYTHONPATH", "VIRTUAL_ENV"):
            self.env.pop(name, None)

    def stamped(self) -> Optional[str]:
        """Return the digest this environment was finished with, or None."""
        try:
            with open(self.stamp) as stream:
                digest = json.load(stream)["digest"]  # type: str
        except (OSError, ValueError, KeyError):
            return None
        sound = probe(self.python) and os.path.exists(os.path.join(self.build, "build.ninja"))
        return digest if sound else None

    def make(self, found: Dict[str, Any]) -> None:
        """Make what is missing. A virtual environment of the right Python is kept, and with it what was compiled."""
        for stale in (self.log, self.stamp):
            if os.path.exists(stale):
                os.remove(stale)
        self.create(found)
        say("installing %s" % ", ".join(self.requirements))
        run(self.pip() + [part for name in self.requirements for part in ("-r", name)], self.log, self.env)
        say("building the compiled modules (%s)" % self.kind)
        self.install()

    def create(self, found: Dict[str, Any]) -> None:
        """Make an empty virtual environment, unless a sound one of the same Python is there."""
        shown = os.path.relpath(self.path, ROOT)
        present = probe(self.python)
        if present and present["version"] == found["version"]:
            return
        if os.path.isdir(self.path) and os.listdir(self.path):
            if not os.path.exists(os.path.join(self.path, "pyvenv.cfg")):
                raise Missing("%s is no virtual environment; move it away or name another place in VENV" % shown)
            say("%s is of another Python or broken; making it anew" % shown)
            shutil.rmtree(self.path)
        say("creating %s with Python %s" % (shown, dotted(found["version"])))
        shutil.rmtree(self.build, ignore_errors=True)
        run([found["executable"], "-m", "venv", self.path], self.log, self.env)

    def pip(self) -> List[str]:
        """The beginning of every pip command."""
        return [self.python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"]

    def install(self) -> None:
        """Build the sources as they are now and install them; objects that are up to date are kept."""
        arguments = self.pip() + ["--no-build-isolation", "--force-reinstall", "--no-deps", "-Cbuild-dir=" + self.build]
        arguments += ["-Csetup-args=" + option for option in KINDS[self.kind]]
        arguments += ["--editable"] if self.kind in EDITABLE else []
        run(arguments + [ROOT], self.log, self.env)

    def refresh(self) -> None:
        """Bring the compiled modules of a finished environment up to date."""
        if self.kind not in EDITABLE:
            say("installing the sources as they are now (%s)" % self.kind)
            self.install()
            return
        ninja = [os.path.join(self.path, "bin", "ninja"), "-C", self.build]
        plan = subprocess.run(ninja + ["-n"], env=self.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if b"no work to do" not in plan.stdout:
            say("rebuilding what has changed")
            run(ninja, self.log, self.env)


def bootstrap(arguments: argparse.Namespace) -> None:
    """Bring the environment into the state that the arguments describe."""
    started = time.time()
    python = arguments.python
    if not python:
        # Without a wish, an environment that works is kept, whatever Python it was made with.
        present = probe(os.path.join(arguments.venv, "bin", "python"))
        python = present["executable"] if present else sys.executable
    found = require_python(python)
    require_compiler()
    environment = Environment(arguments.venv, arguments.build, arguments.requirements)
    os.makedirs(os.path.join(ROOT, "build"), exist_ok=True)
    with open(environment.lock, "w") as lock:
        # Two chores started at once would build in one directory; the second waits for the first.
        fcntl.flock(lock, fcntl.LOCK_EX)
        wanted = fingerprint(found, arguments.build, arguments.requirements)
        if environment.stamped() == wanted:
            environment.refresh()
            return
        environment.make(found)
        with open(environment.stamp, "w") as stream:
            json.dump({"digest": wanted}, stream)
    say("%s is ready (%.0f s)" % (os.path.relpath(environment.path, ROOT), time.time() - started))


def main() -> int:
    """Parse the command line and report every failure in one sentence."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--venv", default=os.path.join(ROOT, ".venv"), help="where the environment is (default: .venv)")
    parser.add_argument("--python", default="", help="the interpreter to make it with (default: this one)")
    parser.add_argument("--with", dest="more", action="append", default=[], help="a further file of requirements")
    parser.add_argument("--build", choices=sorted(KINDS), default="release", help="how to build the compiled modules")
    arguments = parser.parse_args()
    arguments.requirements = ["requirements/dev.txt"] + arguments.more
    try:
        bootstrap(arguments)
    except Missing as missing:
        say("%s." % missing)
        return 2
    except Failed as failed:
        say("%s." % failed)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
