"""Ground truth through space: depths, and the cameras they need."""
