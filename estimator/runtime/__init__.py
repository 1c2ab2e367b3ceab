"""The learner task, the publisher and the configuration."""
