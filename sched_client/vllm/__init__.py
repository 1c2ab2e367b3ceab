"""Inside vLLM's scheduler; imports nothing until a name is asked for."""
