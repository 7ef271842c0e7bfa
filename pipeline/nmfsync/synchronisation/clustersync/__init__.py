"""ClusterSync: correlation clustering with prices learnt from the matches.

`method` states the objective, and puts together what the other files hold:

- `graph`: the matches as a graph; `start`: a first clustering;
- `search`: the score and the local search, by the moves in `reassign` (with
  `assignment` and `heap`) and `exchange` (with `division`), on the clusters in
  `members`;
- `probabilities` and `unweighted`: the way for matches with probabilities and without;
- `prices`: what the score rewards and charges, learnt from what `counts` counts.

Throughout, p and q are features, i and j images, a, b and c clusters, and s and
t positions in a list of features. m is the number of features, k of images.

The kernels are plain loops that numba compiles. Small steps are functions of
their own. numba counts the references to the arrays a function is handed, which
can cost more than such a step does, unless it finds that it need not: so these
functions make no arrays and have few branches, and two are compiled into their
callers. Tuples with names hold the buffers that are made once.
"""
