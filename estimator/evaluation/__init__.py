"""Measure how well learners predict, on traces, without a sidecar."""
