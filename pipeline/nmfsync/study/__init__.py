"""The paper's experiments, run again."""
