"""What the package offers by name is there, sorted and documented."""

import inspect

import pytest

import harness_nb


def test_public_names_are_sorted_and_unique():
    assert list(harness_nb.__all__) == sorted(set(harness_nb.__all__))


@pytest.mark.parametrize("name", getattr(harness_nb, "__all__", []))
def test_every_public_name_is_there_and_says_what_it_is(name):
    offered = getattr(harness_nb, name)
    if inspect.isclass(offered) or inspect.isroutine(offered):
        assert inspect.getdoc(offered)


def test_completion_shows_the_public_names():
    assert set(harness_nb.__all__) <= set(dir(harness_nb))


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="nonesuch"):
        harness_nb.nonesuch  # noqa: B018 - the look-up is the test
