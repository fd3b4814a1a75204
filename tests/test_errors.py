"""The tree of errors, and who is told."""

import copy
import pickle

import pytest

from harness_nb import errors
from harness_nb.errors import HarnessError, ProviderError, RunStop, ToolError, UsageError


@pytest.mark.parametrize("kind", [ToolError, UsageError, ProviderError, RunStop])
def test_one_base_catches_them_all(kind):
    assert issubclass(kind, HarnessError)
    assert kind.__name__ in errors.__doc__


def test_a_providers_error_keeps_its_words_and_the_facts_beside_them():
    fault = ProviderError("Overloaded", status=529, code="overloaded_error", retryable=True, retry_after=2.5)
    assert str(fault) == "Overloaded"
    assert (fault.status, fault.code, fault.retryable, fault.retry_after) == (
        529,
        "overloaded_error",
        True,
        2.5,
    )


def test_a_fault_is_not_retried_unless_said():
    assert not ProviderError("Bad request").retryable


def test_a_stop_has_a_reason_and_a_sentence():
    stop = RunStop("budget", "The budget is spent.")
    assert (stop.reason, stop.detail, str(stop)) == ("budget", "The budget is spent.", "The budget is spent.")


def sent(fault):
    return pickle.loads(pickle.dumps(fault))  # noqa: S301 - our own bytes


@pytest.mark.parametrize("again", [copy.copy, sent])
def test_errors_can_be_copied_and_sent_between_processes(again):
    stop, fault = again(RunStop("budget", "Spent.")), again(ProviderError("Busy", status=529))
    assert (str(stop), stop.reason, str(fault), fault.status) == ("Spent.", "budget", "Busy", 529)
