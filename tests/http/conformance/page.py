"""The table as a page: docs/conformance.md, which `make docs` writes and `make check` compares.

.venv/bin/python -m tests.http.conformance.page
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.http.conformance.chapters import CHAPTERS
from tests.http.conformance.table import Case, Rule, Scene

HEAD = """# Conformance

<!-- Generated from tests/http/conformance by `make docs`. Change the table there. -->

What the HTTP server is held to, rule by rule: {rules} rules, {cases} cases. Sections are those of RFC 9110 and 9112 (and
6585, where it says so); *ours* are rules for what they leave to a server, and for safety.

Each case that is bytes is sent to a running server whole, byte by byte and, where it is short enough, with small limits;
cases about answers and ends through TLS as well, those for a program with its content in pieces and in a file, and some
of every kind cut in two at every place. The answers must be the same. Behind each stands one more request, in the same
send: a connection that goes on must answer it as a request of its own, and one that ends ("end" below) must not have
looked at it. In brackets: the status that must come back, for several requests that of each. Cases without brackets take
more than bytes: time (a clock of their own), files, resets, a program; each has its own checks.

Run them: `make test ARGS=tests/http/conformance`.
"""


def _cell(text: str) -> str:
    """Make a text one cell of a table, whatever it has in it."""
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*").replace("`", "\\`")


def _case(case: Case | Scene) -> str:
    name = case.name if len(case.name) <= 60 else f"{case.name[:20]}… ({len(case.name)} characters)"
    shown = "".join(char if char.isprintable() else f"\\x{ord(char):02x}" for char in name)
    return _cell(shown) + (f" ({case.expected})" if case.expected else "")


def _rows(rules: list[Rule]) -> Iterator[str]:
    for rule in rules:
        cases = "; ".join(_case(case) for case in rule.cases)
        yield f"| {rule.section} | {rule.text} | {len(rule.cases)} | {cases} |\n"


def conformance_page() -> str:
    """Return docs/conformance.md."""
    every = [rule for _, _, rules in CHAPTERS for rule in rules]
    page = [HEAD.format(rules=len(every), cases=f"{sum(len(rule.cases) for rule in every):,}")]
    for title, _, rules in CHAPTERS:
        page.append(f"\n## {title}\n\n| section | rule | cases | which |\n|---|---|---|---|\n")
        page.extend(_rows(rules))
    return "".join(page)


if __name__ == "__main__":
    print(conformance_page(), end="")
