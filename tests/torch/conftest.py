"""These tests use the torch_floe that is installed for the Python that runs them."""

import importlib.util

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if items and importlib.util.find_spec("torch_floe") is None:
        raise pytest.UsageError("torch_floe is not installed: pip install --no-build-isolation .")
