"""The thin client inside vLLM; empty, so that nothing heavy is imported by accident."""
