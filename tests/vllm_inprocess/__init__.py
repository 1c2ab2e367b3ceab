"""Tests that run inside vLLM's own interpreter, against its real scheduler, without a model."""
