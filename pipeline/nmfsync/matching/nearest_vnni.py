"""Products of bytes by VPDPBUSD, the instruction of AVX-512 VNNI, in LLVM's language.

For every lane of 32 bits, it multiplies four bytes without a sign by four with
one and adds the products to a sum. The functions below are called by the
compiler, once, and put the instructions together: their loops are unrolled.

`nearest` says where the plain definition is that tests compare with.
"""

import numba
from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

LENGTH = 128  # of a descriptor, in bytes

WORD = 4  # bytes of a number of 32 bits, and of a descriptor that are multiplied at a time

LANES = 16  # numbers of 32 bits in a register

# Of a tile, rows and blocks of columns: 24 sums, 3 blocks and a row fill most of the 32 registers.
ROWS, BLOCKS = 8, 3

WIDTH = BLOCKS * LANES  # columns of a tile

# What is kept of the neighbours of a row or column: the squared distances to the nearest and
# to the second nearest, and where the nearest is.
FIRST, SECOND, PLACE = 0, 1, 2

NEIGHBOUR = 3  # numbers in all


def multiplies_bytes() -> bool:
    """Whether the processor, as the compiler is told to see it, has VPDPBUSD."""
    overridden = any(getattr(numba.config, name) for name in ("CPU_NAME", "CPU_FEATURES"))
    features = binding.get_host_cpu_features()
    return not overridden and all(features.get(f) for f in ("avx512f", "avx512vnni"))


USE_BYTES = multiplies_bytes()

_INT, _FLOAT = ir.IntType(32), ir.FloatType()

_INTS, _FLOATS = ir.VectorType(_INT, LANES), ir.VectorType(_FLOAT, LANES)

_REGISTER = WORD * LANES  # bytes


def _at(builder, address, offset, kind):
    """Pointer to what lies some bytes behind an address."""
    return builder.inttoptr(
        builder.add(address, ir.Constant(address.type, offset)), kind.as_pointer()
    )


def _load(builder, address, offset, kind):
    return builder.load(_at(builder, address, offset, kind), align=4)


def _store(builder, value, address, offset):
    builder.store(value, _at(builder, address, offset, value.type), align=4)


def _everywhere(builder, number, kind):
    """Vector with the same number in every lane."""
    lone = builder.insert_element(ir.Constant(kind, ir.Undefined), number, _INT(0))
    return builder.shuffle_vector(lone, lone, ir.Constant(_INTS, [0] * LANES))


@intrinsic
def multiply(typing, rows, columns, tile):
    """Put the products of 8 rows and 48 columns into a tile; all are addresses.

    The 24 sums stay in registers while the four bytes of every row and column
    are multiplied, then the next four.
    """

    def generate(context, builder, signature, addresses):
        row, column, out = addresses
        vpdpbusd = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(_INTS, [_INTS] * 3), "llvm.x86.avx512.vpdpbusd.512"
        )
        sums = [[ir.Constant(_INTS, [0] * LANES)] * BLOCKS for _ in range(ROWS)]
        for word in range(LENGTH // WORD):
            right = [
                _load(builder, column, _REGISTER * (word * BLOCKS + b), _INTS)
                for b in range(BLOCKS)
            ]
            for i in range(ROWS):
                four = _load(builder, row, LENGTH * i + WORD * word, _INT)
                left = _everywhere(builder, four, _INTS)
                sums[i] = [
                    builder.call(vpdpbusd, [s, b, left])
                    for s, b in zip(sums[i], right, strict=True)
                ]
        for n, total in enumerate(s for row_sums in sums for s in row_sums):
            _store(builder, total, out, _REGISTER * n)
        return context.get_dummy_value()

    return types.void(*[types.intp] * 3), generate


@intrinsic
def absorb(typing, products, row_norm, column_norms, by_row, by_column, row, block):
    """Take the distances of a row to three blocks of columns into the neighbours of both.

    In plain words, for every block b and every lane,

        d = row_norm + column_norms[b, lane] - 2 * products[b, lane]
        update(by_row[:, lane], d, block + b)
        update(by_column[b, :, lane], d, row)

    where the first of equal distances stays, as rows and blocks come in
    ascending order:

        def update(neighbour, d, place):
            first, second, _ = neighbour
            if d < first:
                neighbour[:] = d, first, place
            elif d < second:
                neighbour[1] = d

    `row_norm`, `row` and `block`, the first of the three, are numbers, the others
    addresses.
    """

    def generate(context, builder, signature, arguments):
        products, row_norm, column_norms, by_row, by_column, row, block = arguments
        row_norms = _everywhere(builder, row_norm, _FLOATS)
        rows = _everywhere(builder, row, _FLOATS)
        of_row = _load_neighbours(builder, by_row, 0)
        for b in range(BLOCKS):
            product = _load(builder, products, _REGISTER * b, _INTS)
            norm = _load(builder, column_norms, _REGISTER * b, _FLOATS)
            twice = builder.fmul(
                builder.sitofp(product, _FLOATS), ir.Constant(_FLOATS, [-2] * LANES)
            )
            d = builder.fadd(twice, builder.fadd(norm, row_norms))
            of_column = _load_neighbours(builder, by_column, b)
            _store_neighbours(builder, _nearer(builder, of_column, d, rows), by_column, b)
            number = _everywhere(builder, builder.fadd(block, ir.Constant(_FLOAT, b)), _FLOATS)
            of_row = _nearer(builder, of_row, d, number)
        _store_neighbours(builder, of_row, by_row, 0)
        return context.get_dummy_value()

    numbers, address = types.float32, types.intp
    return types.void(address, numbers, *[address] * 3, numbers, numbers), generate


def _load_neighbours(builder, address, b):
    """Nearest and second nearest distance, and place of the nearest, in every lane of block b."""
    return [
        _load(builder, address, _REGISTER * (NEIGHBOUR * b + n), _FLOATS) for n in range(NEIGHBOUR)
    ]


def _store_neighbours(builder, values, address, b):
    for n, value in enumerate(values):
        _store(builder, value, address, _REGISTER * (NEIGHBOUR * b + n))


def _nearer(builder, neighbours, d, place):
    """Neighbours after the distances d, without a jump: the larger distance may be the second."""
    first, second, old = neighbours
    better = builder.fcmp_ordered("<", d, first)
    smaller = builder.select(better, d, first)
    larger = builder.select(better, first, d)
    closer = builder.fcmp_ordered("<", larger, second)
    return smaller, builder.select(closer, larger, second), builder.select(better, place, old)
