"""The walls round the tests hold: no key in sight, nothing outside this machine within reach."""

import os
import socket

import pytest


@pytest.mark.parametrize("host", ["192.0.2.1", "example.com"])
def test_no_test_can_reach_outside(host):
    with pytest.raises(PermissionError, match=f"tried to reach {host}"):
        socket.create_connection((host, 80))


def test_this_machine_can_be_reached():
    with socket.create_server(("127.0.0.1", 0)) as server:
        socket.create_connection(server.getsockname()).close()


def test_no_key_is_in_sight():
    assert [name for name in os.environ if name.endswith("_API_KEY")] == []
