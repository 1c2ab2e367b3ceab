"""Every metric and the logs."""
