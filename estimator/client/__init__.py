"""What the commands and tools call a sidecar with."""
