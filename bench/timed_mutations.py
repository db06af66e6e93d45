"""Mutants of the compiled scheduler: is a wrong rule noticed by the tests?

    python bench/timed_mutations.py [NAME ...]

Each mutant is one change in a source of `penstock.timed`. The package is copied, the changed module is compiled anew, and
the tests of timed programs run on the copy until one fails. A mutant that survives is printed, and fails the command. Half
a minute each; `tests/timed/test_timed_mutations.py` has the quick half of this argument. This file must not know the tests.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import re
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from shutil import copy, copytree

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ROOT / "src"
TESTS = [
    "test_timed_mutations.py",
    "test_timed_system.py",
    "test_timed_feeding.py",
    "test_timed_arrivals.py",
    "test_timed_running.py",
    "test_timed_records.py",
    "test_timed_elements.py",
    "test_timed_perfetto.py",
    "test_timed_against_interpreter.py",
]
SUFFIX = importlib.machinery.EXTENSION_SUFFIXES[0]

MUTANTS: dict[str, tuple[str, str, str]] = {
    "reversed order": ("assembly", "graph.add(number - 1, number,", "graph.add(number, number - 1,"),
    "no lexical order": ("assembly", "if number and drafts[number - 1].node is draft.node", "if False and number"),
    "no levels": ("assembly", "(inferred[n], level[n],", "(inferred[n], 0,"),
    "deadlines not inherited": ("levels", "inferred[node] = min(inferred[node], inferred[successor])", "pass"),
    "lost microstep": ("memory", "self.c.now_ns, self.c.microstep + 1, value, 0)", "self.c.now_ns + 1, 0, value, 0)"),
    "kept microstep": (
        "memory",
        "self.c.now_ns + delay_ns, 0, value, 0)",
        "self.c.now_ns + delay_ns, self.c.microstep, value, 0)",
    ),
    "no min delay": ("memory", "delay_ns += self.c.line.triggers[index].offset_ns", "delay_ns += 0"),
    "sticky presence": (
        "steps",
        "            slot.present = False\n            slot.late = False",
        "            slot.late = False",
    ),
    "first write wins": (
        "memory",
        "if value != cython.NULL:\n            slot.value = value",
        "if value != cython.NULL and not slot.present:\n            slot.value = value",
    ),
    "modes ignored": ("steps", "and not self.c.active[reaction.mode] and not reaction.forced", "and False"),
    "no spacing": (
        "triggers",
        "if trigger.scheduled_before and trigger.period_ns > 0",
        "if False and trigger.period_ns > 0",
    ),
    "no pile-up": ("triggers", "microstep[0] = tail.microstep + 1", "microstep[0] = tail.microstep"),
    "newest lost instead of oldest": (
        "triggers",
        "_remove(trigger, 0)\n        return 0",
        "_remove(trigger, trigger.pending.size - 1)\n        return 0",
    ),
    "system events first": (
        "steps",
        "if _is_before(self.c.system_ns, self.c.system_microstep, time_ns, microstep):",
        "if not _is_before(time_ns, microstep, self.c.system_ns, self.c.system_microstep):",
    ),
    "no shift of system events": ("scheduler", "self._shift_system(step_ns * self.speed)", "pass"),
    "time goes on in modes": ("triggers", "time_ns[0] += now_ns - left_ns", "time_ns[0] += 0"),
    "no waiting": (
        "steps",
        "if not self.c.fast and self.physical() < time_ns:",
        "if False and self.physical() < time_ns:",
    ),
    "later stop wins": (
        "steps",
        "if _is_before(time_ns, microstep, self.c.stop_ns, self.c.stop_microstep):",
        "if True:",
    ),
    "deadline unseen": ("memory", "reaction.watched = one.deadline_ns >= 0", "reaction.watched = False"),
    "system events keep nothing alive": (
        "steps",
        "not self.keep_alive and self.c.system_ns == NEVER",
        "not self.keep_alive",
    ),
    "a clock that is stepped wakes nobody": (
        "scheduler",
        "self._shift_system(step_ns * self.speed)\n        self._wake()",
        "self._shift_system(step_ns * self.speed)",
    ),
    "late flag of another event": ("triggers", "event.late = late\n    Py_XDECREF", "Py_XDECREF"),
    "no promised places": ("gate", "self._promised += 1", "self._promised += 0"),
    "failure leaves the program open": (
        "scheduler",
        "        except BaseException:\n            self._abandon()\n            raise\n\n    def prepare",
        "        except BaseException:\n            raise\n\n    def prepare",
    ),
    "circles of ports in modes": ("wiring", "    _check_circles(wiring)\n    for node", "    for node"),
    "physical connections are logical": ("steps", "            if delay.physical:", "            if False:"),
    "physical arrivals in the past": (
        "memory",
        "        if time_ns <= self.c.now_ns:\n            time_ns = self.c.now_ns",
        "        if False:\n            time_ns = self.c.now_ns",
    ),
    "not interleaved": (
        "connections",
        "list(chain.from_iterable(zip(*endpoint.rows, strict=True)))",
        "list(chain.from_iterable(endpoint.rows))",
    ),
    "connections hide lateness": ("memory", "if slot.late and not self.c.slots[copy.target].late:", "if False:"),
    "no handler of late inputs": ("steps", "if late and reaction.on_late != cython.NULL:", "if False:"),
    "intended tag lost": ("steps", "slot.intended_ns = intended[0]", "slot.intended_ns = self.c.now_ns"),
    "a reaction one turn too late": ("driver", "            self._pump()\n", "            self.wake()\n"),
    "reactions before the batch is there": ("driver", "if self._due or self._lane:", "if self._due:"),
    "drawn over each other": ("trace", "max(at_ns + 1, entry.tag.time_ns)", "entry.tag.time_ns"),
    "late unseen": (
        "steps",
        "            slot.late = True\n            slot.intended_ns",
        "            slot.intended_ns",
    ),
}


def compile_module(package: Path, name: str) -> None:
    """Compile one module of the copy: quickly, not well."""
    source = package / "timed" / f"{name}.py"
    generated = source.with_suffix(".c")
    directives = ["boundscheck=False", "wraparound=False", "cdivision=True", "initializedcheck=False"]
    options = [part for directive in directives for part in ("-X", directive)]
    module = f"penstock.timed.{name}"
    command = [sys.executable, "-m", "cython", "-3", *options, "-I", str(package.parent), "--module-name", module]
    subprocess.run([*command, str(source), "-o", str(generated)], check=True)
    include = ["-I", sysconfig.get_paths()["include"], "-I", str(package / "core")]
    target = source.with_name(name + SUFFIX)
    subprocess.run(["cc", "-O0", "-w", "-shared", "-fPIC", *include, str(generated), "-o", str(target)], check=True)


def copy_package(target: Path) -> Path:
    """The sources with what was built from them."""
    package = target / "penstock"
    copytree(SOURCES / "penstock", package)
    for path in package.rglob("*.pxd"):
        if path.with_suffix(".py").exists():
            found = importlib.util.find_spec(".".join(path.relative_to(target).with_suffix("").parts))
            if found is None or found.origin is None:
                raise SystemExit(f"{path.name} is not built; install the package first")
            copy(found.origin, path.with_name(path.stem + SUFFIX))
    return package


# The editable install must not find the original before the copy.
RUN = (
    "import sys, pytest; sys.meta_path = [one for one in sys.meta_path if 'esonpy' not in type(one).__module__"
    " and 'editable' not in type(one).__module__]; sys.path.insert(0, sys.argv.pop(1)); sys.exit(pytest.main(sys.argv[1:]))"
)


# Changes nothing: if a test fails on it, the tests fail for another reason, and every verdict would be worth nothing.
CONTROL = ("steps", "class Steps(Memory):", "class Steps(Memory):")


# A program that never ends is a fault that was noticed; so long a run without one must not be mistaken for it.
PATIENCE_S = 300


def noticed_by(name: str) -> str:
    """The test that notices the mutant, or "" if none does."""
    module, old, new = MUTANTS.get(name, CONTROL)
    with tempfile.TemporaryDirectory() as folder:
        package = copy_package(Path(folder))
        path = package / "timed" / f"{module}.py"
        text = path.read_text()
        if text.count(old) != 1:
            raise SystemExit(f"{name}: {module}.py has {text.count(old)} places like {old!r}; this list is out of date")
        path.write_text(text.replace(old, new))
        if path.with_suffix(".pxd").exists():
            compile_module(package, module)
        tests = [str(ROOT / "tests" / "timed" / test) for test in TESTS]
        command = [sys.executable, "-c", RUN, folder, "-x", "-q", *tests]
        try:
            done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            return f"no end within {PATIENCE_S} s"
    if done.returncode == 0:
        return ""
    found = re.search(r"^(?:FAILED|ERROR) \S*?(\w+\.py\S*)", done.stdout, re.MULTILINE)
    return found[1] if found else f"status {done.returncode}"


def main(names: list[str]) -> int:
    """Try every mutant, or those that are named."""
    unknown = [name for name in names if name not in MUTANTS]
    if unknown:
        raise SystemExit(f"there is no mutant {unknown[0]!r}; there are: {', '.join(MUTANTS)}")
    if broken := noticed_by("control"):
        raise SystemExit(f"the tests fail without any mutation ({broken}); mend that first")
    alive = []
    for name in names or list(MUTANTS):
        test = noticed_by(name)
        print(f"{name}: {f'caught by {test}' if test else 'survives'}", flush=True)
        if not test:
            alive.append(name)
    print(f"{len(alive)} of {len(names or MUTANTS)} survive")
    return 1 if alive else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
