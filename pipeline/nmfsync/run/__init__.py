"""The only composers: they join the stages to a run of a scene, a batch, or a file."""
