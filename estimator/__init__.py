"""The kappad sidecar."""
