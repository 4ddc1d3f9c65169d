"""Large tables of cases: one test checks all rows."""

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

Test = Callable[..., Any]


def all_rows(names: str | tuple[str, ...], table: Iterable[Any]) -> Callable[[Test], Test]:
    """Check all rows in one test, and report each that fails. Written like `pytest.mark.parametrize`.

    pytest and its workers spend some 3 ms of processor time on a test, mostly more than a row needs. All rows share the
    fixtures of the test.
    """
    fields = (names,) if isinstance(names, str) else names
    cases = [dict(zip(fields, (row,) if isinstance(names, str) else row, strict=True)) for row in table]
    assert cases, "the table is empty"

    def checks_all(test: Test) -> Test:
        @functools.wraps(test)
        def run(**fixtures: Any) -> None:
            with _failures() as may_fail:
                for case in cases:
                    with may_fail(case):
                        test(**fixtures, **case)

        @functools.wraps(test)
        async def run_async(**fixtures: Any) -> None:
            with _failures() as may_fail:
                for case in cases:
                    with may_fail(case):
                        await test(**fixtures, **case)

        made: Test = run_async if inspect.iscoroutinefunction(test) else run
        signature = inspect.signature(test)
        fixtures = [parameter for name, parameter in signature.parameters.items() if name not in fields]
        made.__signature__ = signature.replace(parameters=fixtures)  # type: ignore[attr-defined]
        return made

    return checks_all


@contextlib.contextmanager
def _failures() -> Iterator[Callable[[object], contextlib.AbstractContextManager[None]]]:
    """Raises, at the end, what was raised in its inner blocks."""
    failed: list[BaseException] = []

    @contextlib.contextmanager
    def may_fail(case: object) -> Iterator[None]:
        try:
            yield
        except (Exception, BaseExceptionGroup, pytest.fail.Exception) as error:  # noqa: BLE001 - raised at the end
            error.add_note(f"the row: {case}")
            failed.append(error)

    yield may_fail
    if failed:
        raise BaseExceptionGroup(f"{len(failed)} rows fail", failed)
