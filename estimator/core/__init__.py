"""Learning: pure mathematics and state transitions, no input or output."""
