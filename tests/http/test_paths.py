"""From a target's path to an open file: against models, and against everything that ever got out of a root."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, unquote_to_bytes

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import limits
from penstock.http.files import Files
from penstock.http.paths import decode_path, encode_path, open_beneath
from tests.http.site import SECRET, content_of, get, put

UPS = [
    "..", "%2e%2e", "%2E%2E", ".%2e", "%2e.", "%252e%252e", "%%32%65%%32%65", "%c0%ae%c0%ae", "%e0%80%ae%e0%80%ae",
    "%f0%80%80%ae%f0%80%80%ae", "%c0%2e%c0%2e", "%u002e%u002e", "...", "....", ".. ", "..%20", "..%00", "..%0a", "..%09",
    "..;", "..%3b", "%uff0e%uff0e", "%ef%bc%8e%ef%bc%8e", "%e2%80%a5", "\uff0e\uff0e", "..\x00", "..\x7f", "..%ff",
    "..%c0", "..%",
]  # fmt: skip
SLASHES = [
    "/", "//", "/./", "%2f", "%2F", "%252f", "%5c", "%5C", "\\", "%255c", "%c0%af", "%C0%AF", "%c1%9c", "%e0%80%af",
    "%f0%80%80%af", "%u2215", "%u2216", "%ef%bc%8f", "%e2%88%95", "/%00/", "%2f%2f", "/%2e/", "\\/", "/\\", "%0d%0a/", "%",
]  # fmt: skip


def traversals() -> Iterator[str]:
    """Yield a few thousand disguises of a path that climbs out."""
    for up in UPS:
        for slash in SLASHES:
            yield f"/{up}{slash}secret"
            yield f"/{up}{slash}{up}{slash}secret"
            yield f"/sub/{up}{slash}{up}{slash}secret"
            yield f"/sub{slash}{up}{slash}{up}{slash}outside/secret"
    yield from (
        "//secret",
        "/%2fetc/passwd",
        "/sub/../../root/../secret",
        "/.well-known/../../secret",
        "secret",
        "../secret",
    )
    yield from ("/sub/..%2f..%2fsecret", "/file.txt/../../secret", "/nothing/../../secret", "/./../secret", "/..")


@pytest.fixture(params=[False, True], ids=["by the kernel", "name by name"])
def walks(request: pytest.FixtureRequest) -> bool:
    walk: bool = request.param
    return walk


@pytest.fixture
def root(tmp_path: Path) -> Path:
    put(tmp_path / "secret", SECRET)
    put(tmp_path / "outside" / "secret", SECRET)
    put(tmp_path / "root" / "file.txt", b"file")
    put(tmp_path / "root" / "sub" / "deep.txt", b"deep")
    return tmp_path / "root"


def test_no_disguise_leads_out(root: Path, walks: bool) -> None:
    files = Files(root, dotfiles=True, listing=True)
    files.walks = walks
    tried = 0
    for path in traversals():
        answer = get(files, path)
        assert answer.status in {400, 404}, path
        assert SECRET not in content_of(answer)
        tried += 1
    assert tried > 2_000


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"", b""),
        (b"/", b""),
        (b"/a", b"a"),
        (b"/a/", b"a/"),
        (b"//a//b//", b"a/b/"),
        (b"/./a/./b/.", b"a/b/"),
        (b"/a/../b", b"b"),
        (b"/a/b/..", b"a/"),
        (b"/a/..", b""),
        (b"/a/b/../../c", b"c"),
        (b"/foo..bar.txt", b"foo..bar.txt"),
        (b"/a..", b"a.."),
        (b"/%41%7e%C3%BC", "A~ü".encode()),
        ("/\u00fc".encode(), "\u00fc".encode()),
        (b"/a%20b+c", b"a b+c"),
        (b"/100%25", b"100%"),
        (b"/%3Fx%23", b"?x#"),
        (b"/.well-known/acme", b".well-known/acme"),
        (b"/.well-known", b".well-known"),
        (b"/%2ewell-known/x", b".well-known/x"),
        ("/\U0010ffff".encode(), "\U0010ffff".encode()),
        # Refused.
        (b"a", "malformed"),
        (b"*", "malformed"),
        (b"/..", "malformed"),
        (b"/a/../..", "malformed"),
        (b"/a%00", "malformed"),
        (b"/a\0b", "malformed"),
        (b"/a%", "malformed"),
        (b"/a%4", "malformed"),
        (b"/a%4g", "malformed"),
        (b"/a%-1", "malformed"),
        (b"/a%2fb", "malformed"),
        (b"/a%5cb", "malformed"),
        (b"/a\\b", "malformed"),
        (b"/a?b", "malformed"),
        (b"/a#b", "malformed"),
        (b"/a%0ab", "malformed"),
        (b"/a%7f", "malformed"),
        (b"/%80", "malformed"),
        (b"/%c0%ae", "malformed"),
        (b"/%e0%9f%bf", "malformed"),
        (b"/%ed%a0%80", "malformed"),
        (b"/%f4%90%80%80", "malformed"),
        (b"/%f0%8f%bf%bf", "malformed"),
        (b"/%e2%82", "malformed"),
        (b"/%e2%82/x", "malformed"),
        (b"/.htaccess", "hidden"),
        (b"/a/.git/config", "hidden"),
        (b"/a/.well-known/x", "hidden"),
        (b"/.well-known/.x", "hidden"),
        (b"/.well-knownx", "hidden"),
        (b"/.well", "hidden"),
        (b"/...", "hidden"),
        (b"/" + b"n" * 255, b"n" * 255),
        (b"/" + b"n" * 256, "long"),
        (b"/" + b"n" * 256 + b"/x", "long"),
        (b"/abcdefg" * 300, "long"),
    ],
)
def test_decoding(raw: bytes, expected: bytes | str) -> None:
    assert decode_path(raw) == expected


def test_dot_files_can_be_shown() -> None:
    assert decode_path(b"/a/.git/config", True) == b"a/.git/config"
    assert decode_path(b"/a/.git/../..", True) == b""


def decode_model(raw: bytes) -> bytes | None:  # noqa: PLR0911 - a list of refusals
    """Decode, resolve and judge in the obvious way; None if refused as malformed or long, dot files shown."""
    if raw and not raw.startswith(b"/"):
        return None
    escapes = raw.split(b"%")[1:]
    if any(len(text) < 2 or not all(digit in b"0123456789abcdefABCDEF" for digit in text[:2]) for text in escapes):
        return None
    if any(unquote_to_bytes(b"%" + text[:2]) in {b"/", b"\\"} for text in escapes):
        return None
    decoded = unquote_to_bytes(raw)
    if any(code < 32 or code in b"\x7f\\" for code in decoded) or any(code in b"?#" for code in raw):
        return None
    try:
        decoded.decode("utf-8")
    except UnicodeDecodeError:
        return None
    done: list[bytes] = []
    names = decoded.split(b"/")
    for name in names:
        if name == b"..":
            if not done:
                return None
            done.pop()
        elif name not in {b"", b"."}:
            if len(name) > limits.HTTP_NAME_MAX_BYTES:
                return None
            done.append(name)
    path = b"/".join(done)
    folder = bool(done) and names[-1] in {b"", b".", b".."}
    return path + b"/" if folder else path


PIECES = st.sampled_from(
    ["/", "/", "/", ".", "..", "%2e", "%2E", "%2f", "%5c", "\\", "a", "b.txt", "%41", "%", "%4", "%00", "%c0%ae", "%c3%bc",
     "%ed%a0%80", "%f0%9f%90%a7", "\u00fc", "foo..bar", "~", "%25", "%252e", " ", "?", "#", "\x01", "%7f", "...", "x" * 255]
)  # fmt: skip


@given(st.lists(PIECES, max_size=9).map(lambda pieces: ("/" + "".join(pieces)).encode()))
def test_decoding_is_as_the_model_has_it(raw: bytes) -> None:
    found = decode_path(raw, True)
    assert (None if isinstance(found, str) else found) == decode_model(raw)


@given(st.binary(max_size=40).map(lambda raw: b"/" + raw))
def test_decoding_any_bytes_is_as_the_model_has_it(raw: bytes) -> None:
    found = decode_path(raw, True)
    assert (None if isinstance(found, str) else found) == decode_model(raw)


@given(st.lists(st.text(min_size=1, max_size=8), min_size=1, max_size=4))
def test_what_is_encoded_is_decoded_again(names: list[str]) -> None:
    path = "/".join(names).encode("utf-8", "surrogatepass")
    encoded = encode_path(path)
    assert unquote_to_bytes(encoded) == path
    assert all(32 < code < 127 for code in encoded)
    assert quote(path, safe="!$&'()*+,;=:@/~").encode() == encoded
    if decode_model(b"/" + encoded) == path:
        assert decode_path(b"/" + encoded, True) == path


# ---- opening ---------------------------------------------------------------------------------------------------------


def model_open(root: Path, path: str) -> Path | None:
    """Follow a path name by name, links inside the root only."""
    here: list[str] = []
    todo = path.split("/")
    followed = 0
    while todo:
        name = todo.pop(0)
        if name in {"", "."}:
            continue
        if name == "..":
            if not here:
                return None
            here.pop()
            continue
        at = root.joinpath(*here, name)
        if at.is_symlink():
            followed += 1
            target = os.readlink(at)
            if target.startswith("/") or followed > 40:
                return None
            todo = [*target.split("/"), *todo]
        elif not at.exists() or (todo and not at.is_dir()):
            return None
        else:
            here.append(name)
    return root.joinpath(*here)


def opened(root: int, path: str, walk: bool) -> int | None:
    """Return the number (inode) of what was opened; None if nothing was."""
    try:
        descriptor = open_beneath(root, path.encode(), walk)
    except OSError as error:
        if error.errno not in {errno.ENOENT, errno.ENOTDIR, errno.EXDEV, errno.ELOOP}:
            raise
        return None
    try:
        assert not os.get_inheritable(descriptor)
        return os.fstat(descriptor).st_ino
    finally:
        os.close(descriptor)


NAMES = st.sampled_from(["a", "b", "c", "d"])
TARGET_PIECES = st.sampled_from(["a", "b", "c", "d", "..", "..", ".", "", "outside", "root"])
TARGETS = st.one_of(
    st.lists(TARGET_PIECES, min_size=1, max_size=5).map("/".join).filter(bool),
    st.just("/etc"),
    st.just("../outside/secret"),
)
NODES = st.tuples(st.lists(NAMES, min_size=1, max_size=3), st.one_of(st.none(), st.just(""), TARGETS))


def plant(root: Path, nodes: list[tuple[list[str], str | None]]) -> None:
    """Make folders (None), files ("") and links, as far as they can be made without leaving the root ourselves."""
    for names, target in nodes:
        parent = root
        for name in names[:-1]:
            if not (parent / name).is_symlink() and (parent / name).is_dir():
                parent /= name
        at = parent / names[-1]
        if at.is_symlink() or at.exists():
            continue
        if target is None:
            at.mkdir()
        elif target:
            at.symlink_to(target)
        else:
            at.write_bytes(b"inside")


@given(
    st.lists(NODES, max_size=10), st.lists(st.lists(TARGET_PIECES, min_size=1, max_size=6).map("/".join), max_size=12)
)
def test_no_path_through_any_links_leaves_the_root(nodes: list[tuple[list[str], str | None]], paths: list[str]) -> None:
    with tempfile.TemporaryDirectory() as name:
        root = Path(name) / "root"
        root.mkdir()
        put(Path(name) / "outside" / "secret", SECRET)
        plant(root, nodes)
        inside = {root.stat().st_ino}
        for folder, folders, names in os.walk(root):
            inside |= {os.lstat(os.path.join(folder, entry)).st_ino for entry in folders + names}
        descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
        try:
            for path in [*paths, *("/".join(names) for names, _ in nodes)]:
                path = path.strip("/") or "."
                expected = model_open(root, path)
                by_kernel = opened(descriptor, path, False)
                by_walk = opened(descriptor, path, True)
                assert by_kernel == by_walk == (None if expected is None else expected.stat().st_ino), path
                assert by_walk is None or by_walk in inside
        finally:
            os.close(descriptor)


def test_links_inside_work_and_others_do_not(root: Path, walks: bool) -> None:
    (root / "same").symlink_to("file.txt")
    (root / "sub" / "up").symlink_to("../file.txt")
    (root / "folder").symlink_to("sub")
    (root / "round").symlink_to("sub/../folder/../sub")
    (root / "out").symlink_to("../secret")
    (root / "outer").symlink_to("../outside")
    (root / "full").symlink_to(root / "file.txt")
    (root / "loop").symlink_to("loop")
    (root / "gone").symlink_to("nothing")
    (root / "back").symlink_to("../root/file.txt")
    files = Files(root)
    files.walks = walks
    for path, content in {
        "same": b"file",
        "sub/up": b"file",
        "folder/deep.txt": b"deep",
        "round/deep.txt": b"deep",
    }.items():
        answer = get(files, f"/{path}")
        assert (answer.status, answer.body) == (200, content), path
    for path in ("out", "outer/secret", "full", "loop", "gone", "back", "same/x", "loop/x", "outer/"):
        assert get(files, f"/{path}").status == 404, path
    assert files.walks is walks


def test_as_many_links_are_followed_as_the_kernel_follows(root: Path) -> None:
    descriptor = os.open(root, os.O_RDONLY)
    try:
        (root / "link0").symlink_to("file.txt")
        for number in range(1, 60):
            (root / f"link{number}").symlink_to(f"link{number - 1}")
        for number in range(60):
            assert opened(descriptor, f"link{number}", True) == opened(descriptor, f"link{number}", False)
        assert opened(descriptor, "link39", True) is not None
        assert opened(descriptor, "link40", True) is None
    finally:
        os.close(descriptor)


def test_endless_links_end(root: Path) -> None:
    (root / "sub" / "again").symlink_to("../sub/again/" + "../sub/" * 300 + "x")
    (root / "long").symlink_to("/".join(["n" * 200] * 20))
    (root / "name").symlink_to("n" * 300)
    descriptor = os.open(root, os.O_RDONLY)
    try:
        for path in (b"sub/again", b"long", b"name", b"x/" * 4_000, b"n" * 300):
            with pytest.raises(OSError, match=r"too long|Too many levels|No such"):
                open_beneath(descriptor, path, True)
    finally:
        os.close(descriptor)


def test_a_slash_at_the_end_wants_a_directory(root: Path) -> None:
    (root / "link").symlink_to("sub")
    (root / "flat").symlink_to("file.txt")
    descriptor = os.open(root, os.O_RDONLY)
    try:
        for walk in (False, True):
            assert opened(descriptor, "sub/", walk) == opened(descriptor, "link/", walk) == (root / "sub").stat().st_ino
            assert opened(descriptor, "file.txt/", walk) is None
            assert opened(descriptor, "flat/", walk) is None
            assert opened(descriptor, "/file.txt", walk) is None
    finally:
        os.close(descriptor)


def test_opening_leaves_no_descriptors(root: Path) -> None:
    (root / "sub" / "up").symlink_to("../sub/../file.txt")
    (root / "sub" / "out").symlink_to("../../secret")
    descriptor = os.open(root, os.O_RDONLY)
    try:
        before = set(os.listdir("/dev/fd"))
        for path in ("sub/up", "sub/out", "sub/deep.txt", "sub/nothing", "nothing/x", "sub/deep.txt/x"):
            opened(descriptor, path, True)
        assert set(os.listdir("/dev/fd")) == before
    finally:
        os.close(descriptor)


WITHOUT_OPENAT2 = """
import ctypes, os, sys

class Filter(ctypes.Structure):
    _fields_ = [("code", ctypes.c_ushort), ("yes", ctypes.c_ubyte), ("no", ctypes.c_ubyte), ("value", ctypes.c_uint)]

class Program(ctypes.Structure):
    _fields_ = [("size", ctypes.c_ushort), ("steps", ctypes.POINTER(Filter))]

from penstock.http.files import Files

# Load the number of the call; if it is 437, fail with the number given; else let it pass.
steps = (Filter * 4)((0x20, 0, 0, 0), (0x15, 0, 1, 437), (0x06, 0, 0, 0x50000 | int(sys.argv[2])), (0x06, 0, 0, 0x7FFF0000))
libc = ctypes.CDLL(None, use_errno=True)
if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, ctypes.byref(Program(4, steps)), 0, 0):
    sys.exit("this kernel takes no filters")
files = Files(sys.argv[1])
print([files.walks, files.answer("GET", b"/sub/up").body, files.answer("GET", b"/out").status, files.walks])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has openat2, and filters that forbid it")
@pytest.mark.parametrize("failed", [errno.ENOSYS, errno.EPERM])
def test_where_the_kernel_does_not_know_the_call(root: Path, failed: int) -> None:
    (root / "sub" / "up").symlink_to("../file.txt")
    (root / "out").symlink_to("../secret")
    command = [sys.executable, "-c", WITHOUT_OPENAT2, str(root), str(failed)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    if "takes no filters" in done.stderr:
        pytest.skip("the filter that forbids openat2 cannot be set here")
    assert done.stdout == "[False, b'file', 404, True]\n", done.stderr
