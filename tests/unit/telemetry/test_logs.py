"""One event a line, as JSON where nobody reads along."""

import json
from collections.abc import Iterator

import pytest
import structlog

from estimator.telemetry.logs import configure_logs, get_logger


@pytest.fixture(autouse=True)
def _restore() -> Iterator[None]:
    yield
    structlog.reset_defaults()


def test_json_lines_hold_the_facts_and_the_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("json", "info")
    log = get_logger("test")
    log.debug("hidden")
    try:
        float("κ")
    except ValueError:
        log.exception("bad", key="en")
    (line,) = capsys.readouterr().err.splitlines()
    event = json.loads(line)
    assert (event["event"], event["component"], event["key"]) == ("bad", "test", "en")
    assert event["exception"][0]["exc_value"].endswith("'κ'")
    assert event["timestamp"].endswith("Z")


def test_auto_is_json_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("auto", "debug")
    get_logger("test").debug("seen")
    assert json.loads(capsys.readouterr().err)["event"] == "seen"


def test_console_lines_are_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("console", "warning")
    get_logger("test").warning("look", n=3)
    text = capsys.readouterr().err
    assert "look" in text
    assert "n=3" in text
