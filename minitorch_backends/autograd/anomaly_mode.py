"""Anomaly detection, under the name of torch's module."""

from .extras.anomaly_mode import *  # noqa: F403
