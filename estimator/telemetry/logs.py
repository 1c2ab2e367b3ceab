"""Log lines: one event a line with its facts, for people on a terminal and JSON elsewhere."""

import logging
import sys
from typing import Final, Literal

import structlog

__all__ = ["configure_logs", "get_logger"]

_LEVELS: Final = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}


def configure_logs(
    form: Literal["auto", "json", "console"] = "auto",
    level: Literal["debug", "info", "warning", "error"] = "info",
) -> None:
    """Set how and what is written to standard error.

    Parameters
    ----------
    form : {"auto", "json", "console"}
        ``auto`` is ``console`` on a terminal, ``json`` otherwise.
    level : {"debug", "info", "warning", "error"}
        The least severe level that is written.
    """
    if form == "auto":
        form = "console" if sys.stderr.isatty() else "json"
    last: list[structlog.types.Processor]
    if form == "json":
        last = [
            structlog.processors.dict_tracebacks,
            structlog.processors.JSONRenderer(ensure_ascii=False),
        ]
    else:
        last = [structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())]
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *last,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[level]),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        # Tests configure more than once.
        cache_logger_on_first_use=False,
    )


def get_logger(name: str) -> structlog.typing.FilteringBoundLogger:
    """Give the logger of a component."""
    logger: structlog.typing.FilteringBoundLogger = structlog.get_logger(component=name)
    return logger
