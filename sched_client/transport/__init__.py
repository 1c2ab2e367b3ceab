"""The background threads that watch a sidecar and report to it."""
