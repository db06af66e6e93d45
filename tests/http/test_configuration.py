"""Where a setting comes from, which place wins, and what is said of a mistake in each of them."""

from __future__ import annotations

import tomllib
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import limits
from penstock.errors import UsageError
from penstock.http.configuration import SETTINGS, Configuration, Setting, load
from penstock.http.options import HttpOptions
from penstock.http.settings import Flag, Mode, Names, Seconds, Text, Whole, as_toml

LINE = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=20)


def values_of(setting: Setting) -> st.SearchStrategy[Any]:
    """What a setting may be, in moderation: other rules say which settings go together."""
    kind = setting.kind
    if isinstance(kind, Flag):
        return st.booleans()
    if isinstance(kind, Seconds):
        return st.integers(1, 1_000) | st.floats(0.001, 1_000)
    if isinstance(kind, Whole):
        return st.integers(kind.least, min(kind.most, kind.least + 1_000))
    if isinstance(kind, Mode):
        return st.none()
    if isinstance(kind, Names):
        return st.lists(st.ip_addresses().map(str), max_size=4).map(tuple)
    assert isinstance(kind, Text)
    return LINE


def some(*names: str) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional={name: values_of(SETTINGS[name]) for name in names})


# Settings that exclude each other are tried by name below.
BOUND = {
    *("unix", "unix_mode", "fd", "workers", "threads", "tls_key", "tls_client_ca", "proxy_protocol", "status"),
    "expires",
}
FREE = [name for name in SETTINGS if name not in BOUND]


def text_of(name: str, value: object) -> str:
    shown = SETTINGS[name].kind.show(value)
    if isinstance(shown, bool):
        return "true" if shown else "false"
    return str(shown)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("configuration")


def write(folder: Path, text: str | bytes) -> Path:
    path = folder / "penstock.toml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def refused(**arguments: Any) -> str:
    arguments.setdefault("environment", {})
    with pytest.raises(UsageError) as caught:
        load(arguments.pop("given", {}), **arguments)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# ---- which place wins ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "variable", "option", "wins"),
    [
        (None, None, None, 8_000),
        ("1", None, None, 1),
        (None, "2", None, 2),
        (None, None, "3", 3),
        ("1", "2", None, 2),
        ("1", None, "3", 3),
        (None, "2", "3", 3),
        ("1", "2", "3", 3),
        ("1", "", None, 1),
    ],
)
def test_the_later_place_wins(
    tmp_path: Path, file: str | None, variable: str | None, option: str | None, wins: int
) -> None:
    path = write(tmp_path, f"port = {file}\n") if file else None
    environment = {} if variable is None else {"PENSTOCK_PORT": variable}
    assert load({"port": option} if option else {}, environment, path).port == wins


@given(some(*FREE), some(*FREE), some(*FREE))
def test_every_setting_has_the_value_of_the_last_place_that_names_it(
    folder: Path, file: dict[str, Any], variables: dict[str, Any], options: dict[str, Any]
) -> None:
    # "none" is a word for nothing; nothing else is drawn here that has two meanings.
    text = "".join(f"{name} = {as_toml(SETTINGS[name].kind.show(value))}\n" for name, value in file.items())
    path = write(folder, text)
    environment = {SETTINGS[name].variable: text_of(name, value) for name, value in variables.items()}
    told = load({name: text_of(name, value) for name, value in options.items()}, environment, path)
    for name in SETTINGS:
        wanted = next((place[name] for place in (options, variables, file) if name in place), SETTINGS[name].default)
        wanted = None if wanted == "none" else wanted
        got = getattr(told, name)
        assert got == (pytest.approx(wanted) if isinstance(wanted, float) else wanted), name


@given(some(*FREE))
def test_what_is_printed_is_read_as_the_same(values: dict[str, Any]) -> None:
    told = load({name: text_of(name, value) for name, value in values.items()}, {})
    again = load(tomllib.loads(told.toml()), {})
    assert again == told


def test_the_file_may_be_named_by_the_environment(tmp_path: Path) -> None:
    path = write(tmp_path, "port = 1\n")
    assert load({}, {"PENSTOCK_CONFIG": str(path)}).port == 1
    assert load({}, {"PENSTOCK_CONFIG": ""}).port == 8_000


def test_every_limit_and_time_of_a_server_is_a_setting() -> None:
    assert {each.name for each in fields(HttpOptions)} <= SETTINGS.keys()
    told = load({"header_timeout": "1.5", "max_connections": "7"}, {})
    assert (told.options().header_timeout, told.options().max_connections) == (1.5, 7)
    assert Configuration().options() == HttpOptions()


def test_none_takes_a_value_away(tmp_path: Path) -> None:
    path = write(tmp_path, 'max_connections_per_address = 5\nindex = "none"\n')
    assert load({}, {}, path).max_connections_per_address == 5
    assert load({}, {}, path).index is None
    assert load({"max_connections_per_address": "none"}, {}, path).max_connections_per_address is None


# ---- what is said of mistakes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("port", "65536"),
        ("port", "-1"),
        ("port", "8_000"),
        ("port", " 80"),
        ("port", "tcp://127.0.0.1:80"),
        ("port", "9" * 5_000),
        ("port", "\uff18\uff10"),
        ("port", "none"),
        ("header_timeout", "0"),
        ("header_timeout", "5s"),
        ("header_timeout", "nan"),
        ("header_timeout", "inf"),
        ("header_timeout", "86401"),
        ("header_timeout", "1e3"),
        ("listing", "perhaps"),
        ("unix_mode", "999"),
        ("unix_mode", "66"),
        ("workers", "0"),
        ("threads", "257"),
        ("max_connections", "0"),
        ("host", "a\nb"),
        ("log_sample", "0"),
    ],
)
def test_a_wrong_value_is_named_with_its_place_and_what_is_allowed(name: str, text: str) -> None:
    shown = repr(text) if len(text) < 100 else "very long"
    wants = f"is {shown}; give {SETTINGS[name].kind.wants}"
    assert refused(given={name: text}) == f"{SETTINGS[name].option} {wants}"
    assert (
        refused(environment={SETTINGS[name].variable: text}) == f"{SETTINGS[name].variable} in the environment {wants}"
    )


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("port = true", "port is True; give a whole number"),
        ("port = 80.5", "port is 80.5; give a whole number"),
        ("port = 70000", "port is 70000; give a whole number from 0 to 65,535"),
        ("header_timeout = inf", "header_timeout is inf; give seconds above 0"),
        ("header_timeout = nan", "header_timeout is nan; give seconds above 0"),
        ("header_timeout = -1", "header_timeout is -1; give seconds above 0"),
        ("header_timeout = 1979-05-27", "header_timeout is datetime.date(1979, 5, 27); give seconds"),
        ("listing = 1", "listing is 1; give true or false"),
        ("host = 5", "host is 5; give text"),
        ('host = ""', "host is ''; give text"),
        ("unix_mode = 660", "unix_mode is 660; give three octal digits"),
        ("[header_timeout]", "header_timeout is {}; give seconds"),
    ],
)
def test_a_wrong_value_in_a_file_is_named_with_the_file(tmp_path: Path, line: str, words: str) -> None:
    path = write(tmp_path, line + "\n")
    assert refused(path=path).startswith(f"{path}: {words}")


def test_a_mistake_is_told_even_where_it_is_overridden(tmp_path: Path) -> None:
    path = write(tmp_path, "port = -1\n")
    assert "port is -1" in refused(path=path, environment={"PENSTOCK_PORT": "1"}, given={"port": "2"})
    assert "PENSTOCK_PORT" in refused(environment={"PENSTOCK_PORT": "x"}, given={"port": "2"})


def test_a_name_that_does_not_exist_is_told_with_the_nearest(tmp_path: Path) -> None:
    path = write(tmp_path, "header-timeout = 5\n")
    assert refused(path=path) == f"{path}: there is no setting 'header-timeout'; did you mean header_timeout?"
    assert refused(environment={"PENSTOCK_HEADR_TIMEOUT": "5"}) == (
        "PENSTOCK_HEADR_TIMEOUT in the environment: there is no such setting; did you mean PENSTOCK_HEADER_TIMEOUT?"
    )
    path = write(tmp_path, "zzz = 5\n")
    assert refused(path=path) == f"{path}: there is no setting 'zzz'; penstock serve --help lists them"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"port 80\n", "is not TOML: Expected '=' after a key in a key/value pair (at line 1, column 6); mend it"),
        (b"port = 1\nport = 2\n", "is not TOML: Cannot overwrite a value"),
        (b"port = 1\n\xff\n", "is not UTF-8 at byte 9"),
        (b"#" * (limits.HTTP_CONFIGURATION_MAX_BYTES + 1), "has more than 1,048,576 bytes"),
        (b"x = " + b"[" * 100_000, "is not TOML"),
    ],
    ids=["no equals", "twice", "no text", "large", "deep"],
)
def test_a_broken_file_is_one_sentence(tmp_path: Path, content: bytes, words: str) -> None:
    path = write(tmp_path, content)
    assert refused(path=path).startswith(f"the configuration file {path} {words}")


def test_a_file_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    assert refused(path=tmp_path / "no.toml").endswith("no.toml cannot be read: No such file or directory")
    assert refused(path=tmp_path).endswith("cannot be read: Is a directory")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"workers": "2", "threads": "2"}, "workers is 2 and threads is 2; leave one of them at 1"),
        ({"unix": "a", "fd": "3"}, "unix is 'a' and fd is 3; give one place to listen on"),
        ({"unix_mode": "660"}, "unix_mode is 660, but there is no Unix socket"),
        ({"tls_key": "key"}, "tls_key is 'key', but there is no certificate; give tls_cert, too"),
        ({"expires": "true"}, "expires is true, but not for how long; give max_age, too"),
        ({"tls_client_ca": "ca"}, "tls_client_ca is 'ca', but there is no certificate"),
    ],
)
def test_settings_that_exclude_each_other(given: dict[str, str], words: str) -> None:
    assert refused(given=given).startswith(words)
