"""Checks of arguments that authors pass: numbers and callbacks."""

import inspect

MOST = 1e11
"""The largest number that is taken. A time so many seconds from now has a year of four digits, and
what is made of it fits into a database's columns.
"""


def check_numbers(user: str, *numbers: object) -> None:
    """Check that times and sizes are positive, and no larger than `MOST`.

    Args:
        user: The function or class that takes the numbers; the error names it.
        numbers: Seconds, bytes or counts.

    Raises:
        ValueError: A number is not positive, or is too large.
    """
    for number in numbers:
        if not isinstance(number, int | float) or not 0 < number <= MOST:
            raise ValueError(f"{user} takes a number over 0, not {number!r}; at most {MOST:g}")


def check_whole(user: str, **numbers: object) -> None:
    """Check that counts are whole numbers.

    Args:
        user: The function or class that takes the numbers; the error names it.
        numbers: Counts by the name of their parameter.

    Raises:
        TypeError: A count is not a whole number.
    """
    for name, number in numbers.items():
        if not isinstance(number, int):
            raise TypeError(f"{user} takes a whole number for {name}, not {number!r}")


def check_functions(user: str, **functions: object) -> None:
    """Check that callbacks are functions, and not async.

    Args:
        user: The function or class that takes the callbacks; the error names it.
        functions: Callbacks by the name of their parameter.

    Raises:
        TypeError: A callback is no function, or an async one.
    """
    for name, function in functions.items():
        if inspect.iscoroutinefunction(function):
            raise TypeError(f"{user} takes a function for {name} that is not async")
        if not callable(function):
            default = ": leave it out for the default" if function is None else ""
            raise TypeError(f"{user} takes a function for {name}, not {function!r}{default}")
