from __future__ import annotations

import logging

import pytest

from claimsmith.telemetry import Meter, get_logger, log_event


def test_a_log_line_is_a_sentence_with_its_facts_for_people_and_for_machines(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="claimsmith.node"):
        log_event(get_logger("node"), logging.INFO, "Claim prepared", claim="default/a", uid="u1")

    assert caplog.messages == ["Claim prepared claim=default/a uid=u1"]
    assert vars(caplog.records[0])["fields"] == {"claim": "default/a", "uid": "u1"}


def test_counters_add_up_per_labels_in_any_order() -> None:
    meter = Meter()
    meter.add("calls", driver="a", result="ok")
    meter.add("calls", 2, result="ok", driver="a")
    meter.add("calls", driver="b", result="ok")

    assert meter.values() == {
        ("calls", (("driver", "a"), ("result", "ok"))): 3,
        ("calls", (("driver", "b"), ("result", "ok"))): 1,
    }


def test_a_gauge_keeps_its_last_value() -> None:
    meter = Meter()
    meter.set("claims", 5, driver="a")
    meter.set("claims", 2, driver="a")

    assert meter.values() == {("claims", (("driver", "a"),)): 2}
