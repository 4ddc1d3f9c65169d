"""What reaches standard error: where something failed, never what was said."""

import asyncio
import logging
import sys
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.logs import Quiet, blanked, printable, secrets_of, to_stderr, truncate
from tests.support.kept_logging import kept_logging

SECRET = "the-prompt-of-somebody"


def record_of(name: str, text: str, *args: object, error: BaseException | None = None) -> logging.LogRecord:
    info = (type(error), error, error.__traceback__) if error is not None else None
    return logging.LogRecord(name, logging.ERROR, __file__, 1, text, args, info)


def failing() -> None:
    try:
        raise KeyError(SECRET)
    except KeyError as cause:
        raise ValueError(f"cannot read {SECRET}") from cause


def test_a_traceback_has_places_and_kinds_and_no_words() -> None:
    with pytest.raises(ValueError, match=SECRET) as caught:
        failing()
    line = Quiet("%(message)s").format(record_of("ragway", "%s failed", "rag-1", error=caught.value))
    assert line.startswith("rag-1 failed\nTraceback, without messages:\n")
    assert ", in failing\nbuiltins.KeyError\nthen:\n" in line
    assert line.endswith("in failing\nbuiltins.ValueError")
    assert SECRET not in line


def test_a_line_commands_no_terminal_and_makes_no_second_line() -> None:
    line = Quiet("%(message)s").format(record_of("ragway", "cannot read %s", "a\x1b[2J\nb\u202e.md"))
    assert line == r"cannot read a\x1b[2J\nb\u202e.md"
    assert Quiet("%(message)s").format_line("POST /\x9b1m\r\n") == r"POST /\x9b1m\r\n"


@given(st.text(st.characters(blacklist_categories=[])))
def test_what_is_printable_is_one_line_or_the_same_lines(text: str) -> None:
    assert len(printable(text).splitlines()) <= 1
    assert printable(text).encode() or not text
    shown = printable(text, lines=True)
    assert shown.count("\n") == text.count("\n")
    assert {*shown} & {*map(chr, range(32)), "\x7f", *map(chr, range(0x80, 0xA0))} <= {"\n", "\t"}
    assert printable(shown, lines=True) == shown


def test_what_another_handler_wrote_in_full_is_not_taken_over() -> None:
    with pytest.raises(ValueError, match=SECRET) as caught:
        failing()
    record = record_of("ragway", "failed", error=caught.value)
    assert SECRET in logging.Formatter().format(record)
    assert SECRET not in Quiet("%(message)s").format(record)


def test_the_parts_of_a_group_are_told_alike() -> None:
    group = ExceptionGroup(SECRET, [ValueError(SECRET), ExceptionGroup(SECRET, [KeyError(SECRET)])])
    line = Quiet("%(message)s").format(record_of("ragway", "failed", error=group))
    assert line.count("Error") == 2
    assert SECRET not in line


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("Executing <Task finished name='T' coro=<f()> result='{}'> took 0.2 seconds", " took 0.2 seconds"),
        ("Executing <Task finished coro=<f()> result='{} took 0.1 seconds'> took 0.2 seconds", "coro=<f()> result=…"),
        ("Executing <Handle f('{}', b') at x took') at a.py:1> took 0.2 seconds", "<Handle f(…)"),
        ("Task exception was never retrieved\nfuture: <Task finished coro=<f()> exception=E('{}')>", "coro=<f()>"),
        ("<Future finished result={{'a':\n'{}'}} created at a.py:1>", "<Future finished"),
    ],
)
def test_asyncio_tells_of_tasks_without_their_results_and_arguments(text: str, kept: str) -> None:
    line = Quiet("%(message)s").format(record_of("asyncio", text.format(SECRET)))
    assert kept in line
    assert SECRET not in line


def test_a_library_s_warning_is_told_without_its_words() -> None:
    line = Quiet("%(message)s").format(record_of("py.warnings", "%s", f"a.py:1: UserWarning: {SECRET}\n  code()"))
    assert line == "a.py:1: UserWarning"


def test_a_secret_of_the_environment_is_blanked_in_every_line(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("MY_API_KEY", "sk-1234567"), ("LONG_TOKEN", "sk-1234567-longer"), ("PORT_KEY", "8000")):
        monkeypatch.setenv(name, value)
    quiet = Quiet("%(levelname)s %(message)s")
    assert quiet.format(record_of("any", "sent %s and sk-1234567-longer to :8000", "sk-1234567")) == (
        "ERROR sent *** and *** to :8000"
    )
    assert blanked("sk-1234567") == "***"


def test_secrets_are_known_by_their_variables_names() -> None:
    environ = {"A_KEY": "k" * 8, "b_password": "p" * 8, "C_SECRET": "s" * 7, "KEY_FILE": "f" * 8, "A_TOKEN": "t" * 9}
    assert secrets_of(environ) == ["t" * 9, "k" * 8, "p" * 8] or secrets_of(environ) == ["t" * 9, "p" * 8, "k" * 8]


@pytest.mark.parametrize(("text", "told"), [("", ""), ("x" * 100, "x" * 100), ("x" * 101, "x" * 100 + "…")])
def test_a_clients_text_is_cut(text: str, told: str) -> None:
    assert truncate(text) == told


@pytest.mark.parametrize(
    ("level", "ours", "libraries"), [("debug", 10, 30), ("info", 20, 30), ("warning", 30, 30), ("error", 40, 40)]
)
def test_a_level_is_for_our_own_lines_and_libraries_stay_quiet(
    level: str, ours: int, libraries: int, capsys: pytest.CaptureFixture[str]
) -> None:
    with kept_logging(), warnings.catch_warnings():
        warnings.simplefilter("always")
        to_stderr(level, "%(message)s")
        assert [logging.getLogger(name).getEffectiveLevel() for name in ("ragway", "asyncio")] == [ours, ours]
        assert logging.getLogger("a.library").getEffectiveLevel() == libraries
        logging.getLogger("a.library").info("https://a?key=%s", SECRET)
        warnings.warn(SECRET, UserWarning, stacklevel=1)
    said = capsys.readouterr().err
    assert ("UserWarning" in said) == (level != "error")
    assert SECRET not in said


def test_the_lines_of_this_interpreters_asyncio_are_understood(capsys: pytest.CaptureFixture[str]) -> None:
    """The forms above are asyncio's own: a task that fails with nobody looking, under the loop's debug mode."""

    async def lost() -> None:
        async def fails(text: str) -> None:
            raise ValueError(text)

        task = asyncio.create_task(fails(SECRET))
        await asyncio.wait({task})
        del task

    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Quiet("%(message)s"))
    logger = logging.getLogger("asyncio")
    logger.addHandler(handler)
    logger.propagate = False
    try:
        asyncio.run(lost(), debug=True)
    finally:
        logger.removeHandler(handler)
        logger.propagate = True
    said = capsys.readouterr().err
    assert "Task exception was never retrieved" in said
    assert "builtins.ValueError" in said
    assert SECRET not in said
