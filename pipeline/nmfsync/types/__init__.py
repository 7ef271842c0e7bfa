"""What travels between the stages: arrays, cameras, features, matches, ground truth."""
