"""Products of bytes by VPDPBUSD, the instruction of AVX-512 VNNI, in LLVM's language."""

import numba
from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

LENGTH = 128  # of a descriptor

LANES = 16  # numbers of 32 bits in a register

ROWS, BLOCKS = 8, 3  # of a tile: 24 sums, 3 blocks of columns and a row fill the 32 registers

WIDTH = BLOCKS * LANES


def multiplies_bytes() -> bool:
    """Whether the processor, as the compiler is told to see it, has VPDPBUSD."""
    told = [getattr(numba.config, name) for name in ("CPU_NAME", "CPU_FEATURES")]
    features = binding.get_host_cpu_features()
    return not any(told) and all(features.get(f) for f in ("avx512f", "avx512vnni"))


USE_BYTES = multiplies_bytes()

_BYTE, _INT, _FLOAT = ir.IntType(8), ir.IntType(32), ir.FloatType()

_INTS, _FLOATS = ir.VectorType(_INT, LANES), ir.VectorType(_FLOAT, LANES)

_REGISTER = 4 * LANES  # bytes


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
        for word in range(LENGTH // 4):
            right = [
                _load(builder, column, _REGISTER * (word * BLOCKS + b), _INTS)
                for b in range(BLOCKS)
            ]
            for i in range(ROWS):
                four = _load(builder, row, LENGTH * i + 4 * word, _INT)
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

    The first `block` and the row are numbers, the others addresses. Rows and
    blocks come in ascending order, so that the first of equal distances stays.
    """

    def generate(context, builder, signature, arguments):
        products, row_norm, column_norms, by_row, by_column, row, block = arguments

        def smaller(a, b):
            return builder.select(builder.fcmp_ordered("<", a, b), a, b)

        def nearer(state, d, place):
            first, second, old = state
            better = builder.fcmp_ordered("<", d, first)
            loser = builder.select(better, first, d)
            winner = builder.select(better, d, first)
            return winner, smaller(loser, second), builder.select(better, place, old)

        def state(address, b):
            return [_load(builder, address, _REGISTER * (3 * b + n), _FLOATS) for n in range(3)]

        def keep(values, address, b):
            for n, value in enumerate(values):
                _store(builder, value, address, _REGISTER * (3 * b + n))

        row_norms = _everywhere(builder, row_norm, _FLOATS)
        rows = _everywhere(builder, row, _FLOATS)
        of_row = state(by_row, 0)
        for b in range(BLOCKS):
            product = _load(builder, products, _REGISTER * b, _INTS)
            norm = _load(builder, column_norms, _REGISTER * b, _FLOATS)
            twice = builder.fmul(
                builder.sitofp(product, _FLOATS), ir.Constant(_FLOATS, [-2] * LANES)
            )
            d = builder.fadd(twice, builder.fadd(norm, row_norms))
            keep(nearer(state(by_column, b), d, rows), by_column, b)
            number = _everywhere(builder, builder.fadd(block, ir.Constant(_FLOAT, b)), _FLOATS)
            of_row = nearer(of_row, d, number)
        keep(of_row, by_row, 0)
        return context.get_dummy_value()

    numbers, address = types.float32, types.intp
    return types.void(address, numbers, *[address] * 3, numbers, numbers), generate
