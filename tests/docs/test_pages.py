"""The pages tell the truth: their examples run, their links lead somewhere, the generated ones are up to date."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
RUNNER = Path(__file__).with_name("examples.py")
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]


def run_page(page: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", str(RUNNER), str(page)],
        cwd=page.parent,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_examples_run(page: Path) -> None:
    done = run_page(page)
    assert done.returncode == 0, done.stderr


def test_generated_pages_and_links_are_up_to_date() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "docs.py"), "--check"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("page", "complaint"),
    [
        ("```python\nx = 1\n```\n```python\nassert x == 1\nprint(x)\n```\n\n```output\n1\n```\n", ""),
        ("```python fragment\nraise SystemExit(3)\n```\n", ""),
        ("text\n\n```python\nprint(1)\n```\n```output\n2\n```\n", "page.md:3: the page says\n2\n"),
        ("text\n\n```python\nprint(undefined)\n```\n", 'page.md", line 4'),
        ("```python\nraise SystemExit\n```\n", "the example failed"),
        ("```python\nimport warnings\nwarnings.warn('old')\n```\n", "UserWarning"),
    ],
)
def test_the_runner_of_examples_notices(tmp_path: Path, page: str, complaint: str) -> None:
    path = tmp_path / "page.md"
    path.write_text(page)
    done = run_page(path)
    assert done.returncode == (1 if complaint else 0), done.stderr
    assert complaint in done.stderr
