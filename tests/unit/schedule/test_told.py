"""What is told again, and when."""

from __future__ import annotations

import pytest

from claimsmith.schedule.told import EXPLAIN_EVERY_S, ToldBook


class Clock:
    """A clock that stands until it is moved."""

    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def book(clock: Clock) -> ToldBook[str]:
    return ToldBook(clock)


def test_a_first_text_is_news(book: ToldBook[str]) -> None:
    assert book.note("a", "no device")


def test_the_same_text_again_is_no_news(book: ToldBook[str]) -> None:
    book.note("a", "no device")

    assert not book.note("a", "no device")


def test_another_text_is_news(book: ToldBook[str]) -> None:
    book.note("a", "no device")

    assert book.note("a", "no room")


def test_what_is_forgotten_is_news_again(book: ToldBook[str]) -> None:
    book.note("a", "no device")
    book.forget("a")

    assert book.note("a", "no device")


def test_the_first_attempts_are_all_explained(book: ToldBook[str]) -> None:
    book.note("a", "no device")

    assert [book.is_due("a", attempts=number) for number in (1, 2, 3)] == [True, True, False]


def test_a_later_attempt_is_explained_after_a_while(book: ToldBook[str], clock: Clock) -> None:
    book.note("a", "no device")
    clock.now_s = EXPLAIN_EVERY_S

    assert book.is_due("a", attempts=9)


def test_what_was_never_told_is_due_whatever_the_attempts(book: ToldBook[str]) -> None:
    assert book.is_due("a", attempts=9)
