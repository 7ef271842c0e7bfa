"""Compiled searches in ascending arrays, for kernels of every folder."""

from nmfsync.runtime.compiled import compiled


@compiled
def first_from(values, start, stop, least):
    """Find the first of the ascending values[start:stop] that is at least `least`, or `stop`."""
    while start < stop:
        middle = (start + stop) // 2
        if values[middle] < least:
            start = middle + 1
        else:
            stop = middle
    return start


# A list that is this many times as long as another one is searched, not read.
FAR_LONGER = 8


@compiled
def next_common(values, e, e_stop, f, f_stop):
    """Find the next value that two ascending parts of an array have in common.

    The parts are values[e:e_stop] and values[f:f_stop]. Takes no longer than the shorter
    part is long, but for a logarithm.

    Returns
    -------
    e, f : int
        The places of the value; without one, `e` or `f` is where its part stops.
    """
    while e < e_stop and f < f_stop and values[e] != values[f]:
        if values[e] < values[f]:
            far = e_stop - e > FAR_LONGER * (f_stop - f)
            e = first_from(values, e, e_stop, values[f]) if far else e + 1
        else:
            far = f_stop - f > FAR_LONGER * (e_stop - e)
            f = first_from(values, f, f_stop, values[e]) if far else f + 1
    return e, f
