"""--config and --data, options as dataclasses, and command groups; light, so that --help stays fast."""

import difflib
import functools
from collections.abc import Callable
from dataclasses import field, fields, is_dataclass
from pathlib import Path
from typing import Any

import click

CONFIG = "ragway.yaml"


def options(command: Callable[..., Any]) -> Callable[..., Any]:
    """--config and --data, before or after a command's name."""
    config = click.option(
        "--config",
        "config_file",
        type=click.Path(path_type=Path, dir_okay=False),
        callback=_or_before,
        help=f"Settings file (default: {CONFIG} if it exists).",
    )
    data = click.option(
        "--data", type=click.Path(file_okay=False), callback=_or_before, help="Data folder (default: data/)."
    )
    return config(data(command))


def _or_before(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
    """The option's value, or the one given before the command's name."""
    return ctx.find_root().params.get(param.name or "") if value is None else value


def option(*flags: str, **settings: Any) -> Any:
    """A field in an options dataclass, with `click.option`'s arguments. See `options_of`."""
    return field(metadata={"option": functools.partial(click.option, *flags, **settings)})


def options_of(kind: type) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a command a dataclass's options as `args`; inherited options come last.

    A field without `option` takes the parameter with its name, which the command itself declares.
    """
    names = [one.name for one in fields(kind)]
    inherited = {one.name for one in fields(kind.__base__)} if is_dataclass(kind.__base__) else set()

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def wrapper(**given: Any) -> Any:
            args = kind(**{name: given.pop(name) for name in names})
            return command(args=args, **given)

        own_first = sorted(fields(kind), key=lambda one: one.name in inherited)
        for one in reversed(own_first):
            if "option" in one.metadata:
                wrapper = one.metadata["option"](one.name)(wrapper)
        return wrapper

    return decorate


class Commands(click.Group):
    """A group that answers a mistyped command with the nearest one."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        known = self.list_commands(ctx)
        if args and args[0] not in known and not args[0].startswith("-"):
            close = difflib.get_close_matches(args[0], known, 1, 0.5)
            hint = f"did you mean {close[0]!r}?" if close else f"commands: {', '.join(known)}"
            ctx.fail(f"No such command {args[0]!r}: {hint}")
        return super().resolve_command(ctx, args)
