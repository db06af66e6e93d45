"""Is each line exactly one line that can be taken apart again, and does nothing that happens to the file lose the count?"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock import limits
from penstock.errors import UsageError
from penstock.http.lines import FORMATS, PLACEHOLDERS
from penstock.http.log import Log

PATIENCE = 30.0
full_disk = pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
WALL = 971_211_336_123_456_789  # 2000-10-10, 20:55:36.123 UTC
LINE: dict[str, Any] = {
    "peer": b"192.0.2.1",
    "method": b"GET",
    "target": b"/a/b?c=d",
    "referer": b"http://example.org/x?y",
    "agent": b"Tool/1.0 (it)",
    "status": 200,
    "sent_bytes": 2326,
    "wall_ns": WALL,
    "took_ns": 1_234_567,
}


@pytest.fixture(autouse=True)
def east(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A zone with half an hour."""
    monkeypatch.setenv("TZ", "EAST-05:30")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def logged(path: Path, lines: list[dict[str, Any]], **options: Any) -> list[bytes]:
    """What the file has after these lines."""
    log = Log(str(path), **options)
    for line in lines:
        log.put(**line)
    assert log.close(PATIENCE)
    content = path.read_bytes()
    assert content == b"" or content.endswith(b"\n")
    return content.split(b"\n")[:-1]


# ---- formats ---------------------------------------------------------------------------------------------------------


def test_common_and_combined(tmp_path: Path) -> None:
    common = b'192.0.2.1 - - [11/Oct/2000:02:25:36 +0530] "GET /a/b?c=d HTTP/1.1" 200 2326'
    assert logged(tmp_path / "a", [LINE]) == [common]
    rest = b' "http://example.org/x?y" "Tool/1.0 (it)"'
    assert logged(tmp_path / "b", [LINE], format="combined") == [common + rest]


def test_what_is_missing_is_a_dash(tmp_path: Path) -> None:
    (line,) = logged(tmp_path / "a", [{"status": 400, "minor": 0}], format="combined")
    assert line == b'- - - [01/Jan/1970:05:30:00 +0530] "- - HTTP/1.0" 400 0 "-" "-"'


def test_json(tmp_path: Path) -> None:
    (line,) = logged(tmp_path / "a", [LINE], format="json")
    assert json.loads(line) == {
        "time": "2000-10-11T02:25:36.123+05:30",
        "peer": "192.0.2.1",
        "method": "GET",
        "target": "/a/b?c=d",
        "version": "HTTP/1.1",
        "status": 200,
        "bytes": 2326,
        "referer": "http://example.org/x?y",
        "agent": "Tool/1.0 (it)",
        "took_us": 1234,
    }


def test_an_own_format_with_every_placeholder(tmp_path: Path) -> None:
    text = "|".join(f"{{{name}}}" for name in PLACEHOLDERS) + "|{{}}"
    (line,) = logged(tmp_path / "a", [LINE], format=text)
    assert line.split(b"|") == [
        *(b"192.0.2.1", b"GET", b"/a/b?c=d", b"/a/b", b"c=d", b"http://example.org/x?y"),
        *(b"Tool/1.0\\x20(it)", b"HTTP/1.1", b"200", b"2326", b"11/Oct/2000:02:25:36 +0530"),
        *(b"2000-10-11T02:25:36.123+05:30", b"971211336.123", b"1234", b"0.001234", b"{}"),
    ]


def test_queries_can_be_left_out(tmp_path: Path) -> None:
    text = "{target} {path} {query} {referer}"
    (line,) = logged(tmp_path / "a", [LINE], format=text, query=False)
    assert line == b"/a/b /a/b - http://example.org/x"


def test_a_zone_west_of_greenwich_and_a_new_second(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "WEST+03:30")
    time.tzset()
    walls = [WALL, WALL + 10**9, WALL + 86_400 * 10**9, WALL]
    lines = logged(tmp_path / "a", [{"wall_ns": wall} for wall in walls], format="{time} {iso_time}")
    assert lines == [
        b"10/Oct/2000:17:25:36 -0330 2000-10-10T17:25:36.123-03:30",
        b"10/Oct/2000:17:25:37 -0330 2000-10-10T17:25:37.123-03:30",
        b"11/Oct/2000:17:25:36 -0330 2000-10-11T17:25:36.123-03:30",
        b"10/Oct/2000:17:25:36 -0330 2000-10-10T17:25:36.123-03:30",
    ]


@given(st.integers(0, 4_000_000_000))
@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_times_are_those_of_the_calendar(tmp_path: Path, second: int) -> None:
    path = tmp_path / "a"
    path.unlink(missing_ok=True)
    (line,) = logged(path, [{"wall_ns": second * 10**9}], format="{time}")
    assert line.decode() == time.strftime("%d/%b/%Y:%H:%M:%S +0530", time.gmtime(second + 19_800))


@pytest.mark.parametrize(
    ("format", "words"),
    [
        ("", "give common"),
        ("{cookie}", "what may stand in braces"),
        ("{}", "what may stand in braces"),
        ("{status:d}", "what may stand in braces"),
        ("{status", "is broken"),
        ("{peer}\n", "control character"),
        ("{peer}" * 200, "at most 128"),
    ],
)
def test_a_format_that_cannot_be_is_one_sentence(tmp_path: Path, format: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        Log(str(tmp_path / "a"), format)
    assert not (tmp_path / "a").exists()


# ---- hostile clients -------------------------------------------------------------------------------------------------

hostile = st.one_of(
    st.binary(max_size=60), st.sampled_from([b'"', b"\\", b'" 200 1\n', b"\r\n", b"\\x22", b"\x00", b" "])
)
entries = st.lists(
    st.fixed_dictionaries(
        dict.fromkeys(("peer", "method", "target", "referer", "agent"), hostile)
        | {"status": st.integers(100, 599), "sent_bytes": st.integers(0, 2**63), "wall_ns": st.integers(0, 2**61)}
    ),
    max_size=8,
)
COMBINED = re.compile(
    rb'([^ ]+) - - \[([^\]"]+)\] "([^ "]+) ([^ "]+) (HTTP/1\.[01])" (\d{3}) (\d+) "([^"]*)" "([^"]*)"'
)


def unescaped(text: bytes) -> bytes:
    return re.sub(rb"\\x([0-9a-f]{2})", lambda found: bytes([int(found[1], 16)]), text)


@given(entries)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_hostile_text_stays_a_text(tmp_path: Path, entries: list[dict[str, Any]]) -> None:
    path = tmp_path / "a"
    path.unlink(missing_ok=True)
    lines = logged(path, entries, format="combined")
    assert len(lines) == len(entries)
    for line, entry in zip(lines, entries, strict=True):
        assert all(32 <= byte < 127 for byte in line)
        found = COMBINED.fullmatch(line)
        assert found is not None, line
        values = dict(zip(("peer", "method", "target", "referer", "agent"), found.group(1, 3, 4, 8, 9), strict=True))
        for name, value in values.items():
            assert unescaped(value) == (entry[name] or b"-")
        assert int(found[6]) == entry["status"]
        assert int(found[7]) == entry["sent_bytes"]


@given(entries)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_hostile_json_stays_one_object(tmp_path: Path, entries: list[dict[str, Any]]) -> None:
    path = tmp_path / "a"
    path.unlink(missing_ok=True)
    lines = logged(path, entries, format="json")
    assert len(lines) == len(entries)
    for line, entry in zip(lines, entries, strict=True):
        assert all(32 <= byte < 127 for byte in line)
        value = json.loads(line)
        for name in ("peer", "method", "target", "referer", "agent"):
            assert value[name].encode("latin-1") == entry[name]


@pytest.mark.parametrize("format", ["combined", "json"])
@pytest.mark.parametrize("byte", [b"a", b"\xff", b'"'])
def test_what_is_too_long_is_cut_and_stays_a_text(tmp_path: Path, format: str, byte: bytes) -> None:
    (line,) = logged(tmp_path / "a", [{"target": byte * 100_000, "agent": byte * 5000}], format=format)
    assert len(line) < 2 * limits.HTTP_LOG_FIELD_BYTES + 200
    if format == "json":
        assert json.loads(line)["target"].endswith("...")
    else:
        found = COMBINED.fullmatch(line)
        assert found is not None
        assert unescaped(found[4][:-3]).strip(byte) == b""


# ---- the ring --------------------------------------------------------------------------------------------------------


def test_one_of_n_is_logged(tmp_path: Path) -> None:
    log = Log(str(tmp_path / "a"), "{status}", sample=3)
    for status in range(100, 110):
        log.put(status=status)
    assert log.close(PATIENCE)
    assert (tmp_path / "a").read_text().split() == ["102", "105", "108"]
    counters = log.counters()
    assert (counters["lines"], counters["skipped"], counters["dropped"]) == (3, 7, 0)


def test_many_lines_run_around_the_ring(tmp_path: Path) -> None:
    log = Log(str(tmp_path / "a"), "{target}", ring_bytes=997)
    for index in range(2000):
        log.put(target=b"/%d" % index)
        if index % 40 == 39:
            assert log.flush(PATIENCE)
    assert log.close(PATIENCE)
    assert (tmp_path / "a").read_text().split() == [f"/{index}" for index in range(2000)]
    assert log.counters()["written_bytes"] == (tmp_path / "a").stat().st_size


def test_several_threads_log_whole_lines(tmp_path: Path) -> None:
    log = Log(str(tmp_path / "a"), "{peer} {target}")

    def work(name: bytes) -> None:
        for index in range(500):
            log.put(peer=name, target=b"/%d" % index)

    threads = [threading.Thread(target=work, args=(name,)) for name in (b"a", b"b", b"c")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert log.close(PATIENCE)
    lines = (tmp_path / "a").read_text().splitlines()
    for name in "abc":
        assert [line for line in lines if line[0] == name] == [f"{name} /{index}" for index in range(500)]


@pytest.fixture
def pipe(tmp_path: Path) -> Iterator[tuple[str, int]]:
    """A named pipe that is full of empty lines, so that the first write to it hangs until the test reads."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    writer = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(writer, b"\n")
    os.close(writer)
    yield str(path), reader
    os.close(reader)


def fill(log: Log) -> int:
    """Log until lines are dropped. Returns how many were put."""
    count = 0
    while log.counters()["dropped"] < 10:
        count += 1
        log.put(target=b"/%d" % count)
        assert count < 1_000_000
    return count


def read_all(reader: int, expected: int) -> list[bytes]:
    content = b""
    os.set_blocking(reader, True)
    while len(content.split()) < expected or not content.endswith(b"\n"):
        content += os.read(reader, 65_536)
    return content.split()


def test_a_full_ring_drops_and_counts_and_the_loop_never_waits(pipe: tuple[str, int]) -> None:
    log = Log(pipe[0], "{target}", ring_bytes=1000)
    count = fill(log)
    counters = log.counters()
    assert counters["lines"] + counters["dropped"] == count
    lines = read_all(pipe[1], counters["lines"])
    assert len(lines) == counters["lines"]
    numbers = [int(line[1:]) for line in lines]
    assert numbers == sorted(set(numbers))
    assert log.flush(PATIENCE)
    log.put(target=b"/after")
    assert log.close(PATIENCE)
    assert read_all(pipe[1], 1) == [b"/after"]


def test_closing_does_not_wait_for_a_file_that_hangs(pipe: tuple[str, int]) -> None:
    log = Log(pipe[0], "{target}", ring_bytes=1000)
    fill(log)
    assert not log.flush(0.01)
    assert not log.close(0.01)
    assert log.close()  # it is closed, whatever became of the file
    log.put(target=b"/late")
    before = log.counters()["dropped"]
    log.put(target=b"/late")
    assert log.counters()["dropped"] == before + 1
    read_all(pipe[1], log.counters()["lines"])


# ---- the file --------------------------------------------------------------------------------------------------------


def until(condition: Any) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0)


@full_disk
def test_a_full_disk_is_counted_and_the_log_recovers(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.symlink_to("/dev/full")
    log = Log(str(path), "{target}", ring_bytes=1000)
    log.put(target=b"/first")
    until(lambda: log.counters()["errors"] > 0)
    assert log.counters()["error"] == errno.ENOSPC
    assert not log.flush(0.01)
    count = 1 + fill(log)
    path.unlink()
    log.reopen()
    assert log.flush(PATIENCE)
    log.put(target=b"/last")
    assert log.close(PATIENCE)
    lines = path.read_text().splitlines()
    assert (lines[0], lines[-1]) == ("/first", "/last")
    counters = log.counters()
    assert len(lines) == counters["lines"]
    assert counters["lines"] + counters["dropped"] == count + 1
    assert counters["error"] == 0


@full_disk
def test_what_could_not_be_written_until_the_end_is_counted(tmp_path: Path) -> None:
    log = Log("/dev/full", "{target}")
    for _ in range(5):
        log.put(target=b"/lost")
    assert not log.close(PATIENCE)
    counters = log.counters()
    assert (counters["lines"], counters["dropped"], counters["waiting_bytes"]) == (5, 5, 0)


LIMITED = """
import resource, signal, sys
from penstock.http.log import Log
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (25, resource.RLIM_INFINITY))
log = Log(sys.argv[1], "{target}")
for number in range(5):
    log.put(target=b"/line-%d" % number)
while not log.counters()["errors"]:
    log.flush(0.01)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
print(log.close(30))
"""


def test_a_line_that_was_cut_by_the_end_of_the_disk_is_completed(tmp_path: Path) -> None:
    path = tmp_path / "log"
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(path)], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout, done.stderr) == ("True\n", "")
    assert path.read_text().splitlines() == [f"/line-{number}" for number in range(5)]


def test_rotation_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "log"
    # In a ring of this size the parts lie in two pieces.
    log = Log(str(path), "{target}", ring_bytes=1000)
    for part in range(4):
        for index in range(100):
            log.put(target=b"/%d/%d" % (part, index))
        path.rename(tmp_path / f"old-{part}")
        log.reopen()
        assert log.flush(PATIENCE)
    assert log.close(PATIENCE)
    assert path.read_bytes() == b""
    for part in range(4):
        assert (tmp_path / f"old-{part}").read_text().split() == [f"/{part}/{index}" for index in range(100)]
    assert log.counters()["reopened"] == 4


def test_reopening_what_is_still_there_appends(tmp_path: Path) -> None:
    log = Log(str(tmp_path / "log"), "{target}")
    for index in range(3):
        log.put(target=b"/%d" % index)
        log.reopen()
    assert log.flush(PATIENCE)
    assert log.close(PATIENCE)
    assert (tmp_path / "log").read_text() == "/0\n/1\n/2\n"


def test_a_name_that_cannot_be_opened_any_more_keeps_the_old_file(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    log = Log(str(folder / "log"), "{target}")
    folder.rename(tmp_path / "gone")
    log.put(target=b"/a")
    log.reopen()
    assert log.flush(PATIENCE)
    log.put(target=b"/b")
    assert log.close(PATIENCE)
    assert (tmp_path / "gone" / "log").read_text() == "/a\n/b\n"
    counters = log.counters()
    assert (counters["reopened"], counters["reopen_errors"]) == (0, 1)


def test_half_a_line_of_somebody_before_is_ended(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"/whole\n/ha")
    assert logged(path, [{"target": b"/new"}], format="{target}") == [b"/whole", b"/ha", b"/new"]


def test_a_new_file_is_not_for_everybody(tmp_path: Path) -> None:
    logged(tmp_path / "log", [])
    assert (tmp_path / "log").stat().st_mode & 0o007 == 0


@pytest.mark.parametrize(
    ("target", "words"),
    [("", "give the name"), ("a\0b", "give the name"), ("/nowhere/at/all", "No such file"), ("/", "Is a directory")],
)
def test_a_file_that_cannot_be_written_is_one_sentence(target: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        Log(target)


def test_a_pipe_without_a_reader_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match="No such device"):
        Log(str(tmp_path / "pipe"))


@pytest.mark.parametrize("wrong", [{"sample": 0}, {"ring_bytes": 1}])
def test_a_senseless_argument_is_one_sentence(tmp_path: Path, wrong: dict[str, int]) -> None:
    with pytest.raises(UsageError, match=next(iter(wrong))):
        Log(str(tmp_path / "a"), **wrong)  # type: ignore[arg-type]


STANDARD_OUTPUT = """
from penstock.http.log import Log
log = Log("-", "{target}")
log.put(target=b"/a")
log.reopen()
log.flush(30)
log.put(target=b"/b")
"""


def test_standard_output_and_what_is_left_at_the_exit() -> None:
    done = subprocess.run(
        [sys.executable, "-c", STANDARD_OUTPUT], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout, done.stderr, done.returncode) == ("/a\n/b\n", "", 0)


FORKED = """
import os, sys
from penstock.http.log import Log
log = Log(sys.argv[1], "{target}")
log.put(target=b"/parent")
child = os.fork()
if child == 0:
    log.put(target=b"/child")
    log.reopen()
    ok = not log.flush(30) and not log.close(30) and log.counters()["dropped"] == 1
    os._exit(0 if ok else 1)
_, status = os.waitpid(child, 0)
print(status, log.close(30))
"""


def test_a_forked_child_drops_and_touches_nothing(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORKED, str(tmp_path / "log")],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("0 True\n", "")
    assert (tmp_path / "log").read_text() == "/parent\n"


def test_the_formats_have_names() -> None:
    assert set(FORMATS) == {"common", "combined", "json"}
