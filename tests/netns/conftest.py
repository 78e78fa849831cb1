from collections.abc import Iterator

import pytest

from cluster import Cluster


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "slow: takes tens of seconds")


@pytest.fixture
def hosts(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """As many hosts as the test says."""
    with Cluster(request.param) as cluster:
        yield cluster
