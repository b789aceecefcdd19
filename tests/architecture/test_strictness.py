"""Under CI=true a skip is a failure, in an inner run of pytest."""

from __future__ import annotations

import pytest

CONFTEST = "from tests.strictness import pytest_make_collect_report, pytest_runtest_makereport\n"
SKIPS = "import pytest\n\n@pytest.mark.skip(reason='no kubectl')\ndef test_one(): pass\n"
SKIPS_INSIDE = "import pytest\n\ndef test_one(): pytest.skip('no kubectl')\n"
SKIPS_MODULE = "import pytest\n\npytest.importorskip('no_such_module_at_all')\n"
EXPECTED_FAILURE = "import pytest\n\n@pytest.mark.xfail\ndef test_one(): assert False\n"


def run(pytester: pytest.Pytester, source: str) -> dict[str, int]:
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(source)
    plain = ("-p", "no:xdist", "-p", "no:cacheprovider", "-p", "no:asyncio")
    return pytester.runpytest_inprocess(*plain).parseoutcomes()


@pytest.mark.parametrize(("source", "outcome"), [(SKIPS, "errors"), (SKIPS_INSIDE, "failed"), (SKIPS_MODULE, "errors")])
def test_skip_fails_under_ci(
    source: str, outcome: str, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", "true")

    assert run(pytester, source) == {outcome: 1}


@pytest.mark.parametrize("source", [SKIPS, SKIPS_INSIDE, SKIPS_MODULE])
def test_skip_stays_a_skip_elsewhere(source: str, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "")

    assert run(pytester, source) == {"skipped": 1}


def test_expected_failure_is_no_skip(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")

    assert run(pytester, EXPECTED_FAILURE) == {"xfailed": 1}
