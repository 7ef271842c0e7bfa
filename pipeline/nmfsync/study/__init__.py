"""The paper's experiments: run again, and the paper's claims compared with the results."""
