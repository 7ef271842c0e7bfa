"""Ground truth of scenes with calibrated cameras: depths, and distances to epipolar lines."""
