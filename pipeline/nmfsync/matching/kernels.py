"""The inner steps of matching in LLVM's language: products of descriptors, and the nearest.

A kernel says what a processor's registers hold and which instruction multiplies:
VPDPBUSD (AVX-512 VNNI, AVX-VNNI) and SDOT (ARM) multiply four bytes in every
lane of 32 bits with four others and add the products to a sum, VPMADDWD (AVX2)
two numbers of 16 bits. All sums are whole and exact, so every kernel gives the
same bits. The functions below are called by the compiler, once, and put the
instructions together: their loops are unrolled.

`nearest` says where the plain definition is that tests compare with.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numba
from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

LENGTH = 128  # of a descriptor, in bytes

LANE = 4  # bytes of a lane: of a sum, and of the numbers that are multiplied for it at a time

# What is kept of the neighbours of a row or column: the squared distances to the nearest and
# to the second nearest, and where the nearest is.
FIRST, SECOND, PLACE = 0, 1, 2

NEIGHBOUR = 3  # numbers in all


@dataclass(frozen=True)
class Kernel:
    """How a processor multiplies descriptors.

    Attributes
    ----------
    name : str
        The instruction.
    needs : tuple of str
        What the compiler calls the features of such a processor.
    lanes : int
        Numbers of 32 bits in a register.
    rows, blocks : int
        Of a tile, rows and registers of columns: its sums, with the columns of a step and one
        row, fill most of the registers. Images are padded to whole tiles of columns, so the
        rows divide the columns.
    row, column : str
        Types of the numbers that are multiplied; those of a row are a − 128.
    centred : bool
        Those of a column are b − 128 as well; otherwise b.
    multiply_add : callable
        Called with a builder and a sum, columns and a row; writes the instruction, and returns
        the new sum.
    """

    name: str
    needs: tuple[str, ...]
    lanes: int
    rows: int
    blocks: int
    row: str
    column: str
    centred: bool
    multiply_add: Callable[..., Any]


def _intrinsic(name: str, sums: int, numbers: ir.VectorType | None = None) -> Callable[..., Any]:
    """Write an instruction that takes a sum, columns and a row, of which it has its own type."""
    total = ir.VectorType(_INT, sums)

    def multiply_add(builder: Any, *operands: Any) -> Any:
        kind = numbers or total
        function = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(total, [total, kind, kind]), name
        )
        first, *others = operands
        return builder.call(function, [first, *(builder.bitcast(o, kind) for o in others)])

    return multiply_add


def _multiply_words(builder: Any, total: Any, columns: Any, row: Any) -> Any:
    """VPMADDWD, and an addition of its own."""
    words = ir.VectorType(ir.IntType(16), 16)
    function = cgutils.get_or_insert_function(
        builder.module,
        ir.FunctionType(ir.VectorType(_INT, 8), [words, words]),
        "llvm.x86.avx2.pmadd.wd",
    )
    products = builder.call(function, [builder.bitcast(o, words) for o in (columns, row)])
    return builder.add(total, products)


_INT, _FLOAT = ir.IntType(32), ir.FloatType()

_BYTES = ir.VectorType(ir.IntType(8), 16)

# The fastest first.
KERNELS = (
    Kernel("AVX-512 VNNI", ("avx512f", "avx512vnni"), 16, 8, 3, "i1", "u1", False,
           _intrinsic("llvm.x86.avx512.vpdpbusd.512", 16)),
    Kernel("AVX-VNNI", ("avxvnni",), 8, 4, 3, "i1", "u1", False,
           _intrinsic("llvm.x86.avx512.vpdpbusd.256", 8)),
    Kernel("AVX2", ("avx2",), 8, 4, 2, "i2", "i2", False, _multiply_words),
    Kernel("NEON dot product", ("dotprod",), 4, 8, 2, "i1", "i1", True,
           _intrinsic("llvm.aarch64.neon.sdot.v4i32.v16i8", 4, _BYTES)),
)  # fmt: skip

# BLAS multiplies in single precision, and the compiler has registers of its own for the rest.
BLAS = Kernel("BLAS", (), 16, 8, 3, "f4", "f4", False, lambda *_: None)


def kernel_of_processor() -> Kernel:
    """Return the fastest kernel of the processor, as the compiler is told to see it."""
    config = numba.config
    if config.CPU_NAME or config.CPU_FEATURES:
        known = {f[1:] for f in (config.CPU_FEATURES or "").split(",") if f.startswith("+")}
    else:
        known = {name for name, there in binding.get_host_cpu_features().items() if there}
    return next((kernel for kernel in KERNELS if known.issuperset(kernel.needs)), BLAS)


KERNEL = kernel_of_processor()

LANES, ROWS, BLOCKS = KERNEL.lanes, KERNEL.rows, KERNEL.blocks

WIDTH = BLOCKS * LANES  # columns of a tile


def _ints(kernel: Kernel) -> Any:
    return ir.VectorType(_INT, kernel.lanes)


def _floats(kernel: Kernel) -> Any:
    return ir.VectorType(_FLOAT, kernel.lanes)


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
    first = ir.Constant(ir.VectorType(_INT, kind.count), [0] * kind.count)
    return builder.shuffle_vector(lone, lone, first)


@intrinsic
def multiply(typing, rows, columns, tile):
    """Put the products of the rows and columns of a tile into it; all are addresses."""

    def generate(context, builder, signature, addresses):
        write_multiply(KERNEL, builder, *addresses)
        return context.get_dummy_value()

    return types.void(*[types.intp] * 3), generate


def write_multiply(kernel: Kernel, builder: Any, row: Any, column: Any, out: Any) -> None:
    """Write `multiply` for a kernel.

    The sums stay in registers while the first numbers of every row and column
    are multiplied, as many as a lane holds, then the next ones.
    """
    ints, register = _ints(kernel), LANE * kernel.lanes
    size = LENGTH * int(kernel.row[1])  # bytes of a row
    sums = [[ir.Constant(ints, [0] * kernel.lanes)] * kernel.blocks for _ in range(kernel.rows)]
    for step in range(size // LANE):
        right = [
            _load(builder, column, register * (step * kernel.blocks + b), ints)
            for b in range(kernel.blocks)
        ]
        for i in range(kernel.rows):
            left = _everywhere(builder, _load(builder, row, size * i + LANE * step, _INT), ints)
            sums[i] = [
                kernel.multiply_add(builder, total, columns, left)
                for total, columns in zip(sums[i], right, strict=True)
            ]
    for n, total in enumerate(s for row_sums in sums for s in row_sums):
        _store(builder, total, out, register * n)


@intrinsic
def absorb(typing, products, row_norm, column_norms, by_row, by_column, row, block):
    """Take the distances of a row to the blocks of columns of a tile into the neighbours of both.

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

    `row_norm`, `row` and `block`, the first of them, are numbers, the others
    addresses.
    """

    def generate(context, builder, signature, arguments):
        write_absorb(KERNEL, builder, *arguments)
        return context.get_dummy_value()

    numbers, address = types.float32, types.intp
    return types.void(address, numbers, *[address] * 3, numbers, numbers), generate


def write_absorb(
    kernel: Kernel,
    builder: Any,
    products: Any,
    row_norm: Any,
    column_norms: Any,
    by_row: Any,
    by_column: Any,
    row: Any,
    block: Any,
) -> None:
    """Write `absorb` for a kernel."""
    floats, register = _floats(kernel), LANE * kernel.lanes
    row_norms = _everywhere(builder, row_norm, floats)
    rows = _everywhere(builder, row, floats)
    of_row = _load_neighbours(builder, by_row, 0, floats)
    for b in range(kernel.blocks):
        product = _load(builder, products, register * b, _ints(kernel))
        norm = _load(builder, column_norms, register * b, floats)
        minus_two = ir.Constant(floats, [-2] * kernel.lanes)
        twice = builder.fmul(builder.sitofp(product, floats), minus_two)
        d = builder.fadd(twice, builder.fadd(norm, row_norms))
        of_column = _load_neighbours(builder, by_column, b, floats)
        _store_neighbours(builder, _nearer(builder, of_column, d, rows), by_column, b)
        number = _everywhere(builder, builder.fadd(block, ir.Constant(_FLOAT, b)), floats)
        of_row = _nearer(builder, of_row, d, number)
    _store_neighbours(builder, of_row, by_row, 0)


def _load_neighbours(builder, address, b, kind):
    """Nearest and second nearest distance, and place of the nearest, in every lane of block b."""
    register = LANE * kind.count
    return [_load(builder, address, register * (NEIGHBOUR * b + n), kind) for n in range(NEIGHBOUR)]


def _store_neighbours(builder, values, address, b):
    for n, value in enumerate(values):
        register = LANE * value.type.count
        _store(builder, value, address, register * (NEIGHBOUR * b + n))


def _nearer(builder, neighbours, d, place):
    """Neighbours after the distances d, without a jump: the larger distance may be the second."""
    first, second, old = neighbours
    better = builder.fcmp_ordered("<", d, first)
    smaller = builder.select(better, d, first)
    larger = builder.select(better, first, d)
    closer = builder.fcmp_ordered("<", larger, second)
    return smaller, builder.select(closer, larger, second), builder.select(better, place, old)
