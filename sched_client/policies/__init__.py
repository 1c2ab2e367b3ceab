"""Orders for waiting requests."""
