"""The demonstration, and the real vLLM that it and the tests run."""
