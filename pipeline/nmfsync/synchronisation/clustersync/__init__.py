"""ClusterSync: correlation clustering with prices learnt from the matches."""
