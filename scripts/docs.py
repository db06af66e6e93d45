"""Make the pages that are generated, and check the links of all pages.

    .venv/bin/python scripts/docs.py            write what is generated, then check the links
    .venv/bin/python scripts/docs.py --check    write nothing; fail if a page is out of date

The examples in the pages are run by tests/docs. Links to other sites are not followed: a check must not need a network.
Exit status: 0 all is well, 1 a page is out of date or a link leads nowhere.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from http_pages import conformance_page, http_page
from penstock.cli.limits import Limit, read_limits, readable
from penstock.http.configuration import SETTINGS
from penstock.http.settings import as_toml

ROOT = Path(__file__).resolve().parent.parent
LIMITS_PAGE = ROOT / "docs" / "limits.md"
HTTP_PAGE = ROOT / "docs" / "http.md"
CONFORMANCE_PAGE = ROOT / "docs" / "conformance.md"
SETTINGS_PAGE = ROOT / "docs" / "serve.md"
HEAD = """# Limits

<!-- Generated from src/penstock/limits.py by `make docs`. Change it there. -->

Everything that enters is bounded; these are the bounds, with the reason for each value. `penstock limits` prints the
same. Where a field is named, a program may choose its own value in that field of `Policy`.
"""

FENCE = re.compile(r"^(```|~~~).*?^\1\s*$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\((?P<target>[^)\s]+)\)")
HEADING = re.compile(r"^#+ +(?P<title>.+?)\s*$", re.MULTILINE)


def limits_page(table: list[Limit]) -> str:
    """Return docs/limits.md."""
    page = [HEAD]
    section = ""
    for limit in table:
        if limit.section != section:
            section = limit.section
            page.append(
                f"\n## {section[0].upper()}{section[1:]}\n\n| limit | value | field | reason |\n|---|---|---|---|\n"
            )
        field = f"`{limit.policy_field}`" if limit.policy_field else ""
        reason = limit.reason.replace("|", "\\|")
        page.append(f"| `{limit.name}` | {readable(limit)} | {field} | {reason} |\n")
    return "".join(page)


def settings_page(page: str) -> str:
    """Return docs/serve.md with the settings as they are."""
    table = ["\n| setting | default | what |\n|---|---|---|\n"]
    for setting in SETTINGS.values():
        default = as_toml(setting.kind.show(setting.default))
        table.append(f"| `{setting.name}` | `{default}` | {setting.help.replace('|', chr(92) + '|')} |\n")
    begin, end = "<!-- settings: begin -->", "<!-- settings: end -->"
    head, _, rest = page.partition(begin)
    return f"{head}{begin}\n{''.join(table)}\n{end}{rest.partition(end)[2]}"


def pages() -> list[Path]:
    """Return every page of the project."""
    return [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]


def anchors(page: Path) -> set[str]:
    """Return the names by which the headings of a page can be linked to."""
    titles = HEADING.findall(FENCE.sub("", page.read_text()))
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def broken_links(page: Path) -> Iterator[str]:
    """Yield a sentence for every link of a page that leads nowhere."""
    text = re.sub(r"`[^`\n]*`", "", FENCE.sub("", page.read_text()))
    for match in LINK.finditer(text):
        path, _, anchor = match["target"].partition("#")
        if re.match(r"[a-z]+:", path):
            continue
        target = (page.parent / path).resolve() if path else page
        shown = page.relative_to(ROOT)
        if not target.exists():
            yield f"{shown}: {match['target']} does not exist"
        elif anchor and target.suffix == ".md" and anchor not in anchors(target):
            yield f"{shown}: {path or 'this page'} has no heading #{anchor}"


def main() -> int:
    """Generate and check; return the exit status."""
    parser = argparse.ArgumentParser(description="Make the generated pages and check all links.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a page is out of date")
    only_check = parser.parse_args().check
    problems = []
    made = {
        LIMITS_PAGE: limits_page(read_limits()),
        HTTP_PAGE: http_page(HTTP_PAGE.read_text()),
        CONFORMANCE_PAGE: conformance_page(),
        SETTINGS_PAGE: settings_page(SETTINGS_PAGE.read_text()),
    }
    for path, page in made.items():
        if path.exists() and path.read_text() == page:
            continue
        name = path.relative_to(ROOT)
        if only_check:
            problems.append(f"{name} is out of date; run: make docs")
        else:
            path.write_text(page)
            print(f"{name}: written")
    problems += [problem for each in pages() for problem in broken_links(each)]
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
