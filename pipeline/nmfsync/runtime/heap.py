"""A binary heap in two arrays, for kernels of every folder.

Python's `heapq` is the reference in the tests.

The entry at place i is not larger than its children, at 2i + 1 and 2i + 2, so
that the smallest is at place 0. The caller keeps the number of entries.
"""

from nmfsync.runtime.compiled import compiled


@compiled
def push(keys, items, length, key, item):
    """Put an item into the heap; return the new number of entries."""
    place = length
    while place > 0 and keys[(place - 1) // 2] > key:  # the parent moves down
        keys[place], items[place] = keys[(place - 1) // 2], items[(place - 1) // 2]
        place = (place - 1) // 2
    keys[place], items[place] = key, item
    return length + 1


@compiled
def pop(keys, items, length):
    """Remove the entry of the smallest key, at place 0; return the new number of entries."""
    length -= 1
    key, item = keys[length], items[length]  # the last entry needs another place
    place, child = 0, 1
    while child < length:
        if child + 1 < length and keys[child + 1] < keys[child]:
            child += 1
        if keys[child] >= key:
            break
        keys[place], items[place] = keys[child], items[child]  # the smaller child moves up
        place, child = child, 2 * child + 1
    keys[place], items[place] = key, item
    return length
