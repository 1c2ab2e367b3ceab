"""A discrete-event twin of a continuous-batching engine, in virtual time."""
