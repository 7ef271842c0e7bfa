"""Every kernel gives the same bits: those of this processor, and those of others."""

import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from llvmlite import binding, ir

from builders import python
from nmfsync.matching.kernels import (
    BLAS,
    KERNEL,
    KERNELS,
    LANE,
    LENGTH,
    kernel_of_processor,
    write_absorb,
    write_multiply,
)
from nmfsync.matching.kernels import numba as compiler

BY_NAME = {kernel.name: kernel for kernel in KERNELS}

# What the compiler is told, in the words of LLVM: target, processor, further features.
PROCESSORS = {
    "AVX-512 VNNI": ("x86_64-linux-gnu", "icelake-server", ""),
    "AVX-VNNI": ("x86_64-linux-gnu", "alderlake", ""),
    "AVX2": ("x86_64-linux-gnu", "haswell", ""),
    "NEON dot product": ("aarch64-linux-gnu", "cortex-a76", "+dotprod"),
}

INSTRUCTIONS = {
    "AVX-512 VNNI": "vpdpbusd",
    "AVX-VNNI": "vpdpbusd",
    "AVX2": "vpmaddwd",
    "NEON dot product": "sdot",
}

TESTS = Path(__file__).parents[1]

MATCHED = """
import hashlib
import numpy as np
from builders import overlapping_images, random_features
from nmfsync.matching.kernels import KERNEL
from nmfsync.matching.nearest import mutual_nearest, prepare
from nmfsync.matching.pairs import all_pairs
rng = np.random.default_rng(8)
features = [*overlapping_images(3, 400), random_features(rng, 1), random_features(rng, 700)]
images = [f.descriptors for f in features]
images[0][:40] = 255  # the largest products
images[4][30:60] = 255
images, pairs = prepare(images), all_pairs(len(images))
first = mutual_nearest(images, images, pairs)
found = np.concatenate(first + mutual_nearest(images, images, pairs, first))
print(KERNEL.name, len(found), hashlib.sha256(found.tobytes()).hexdigest(), sep="|")
"""


def matched_by(**told: str) -> tuple[str, int, str]:
    """Match in another process, which may be told of another processor: kernel, matches, digest."""
    environment = {**os.environ, **told, "PYTHONPATH": str(TESTS)}
    name, matches, digest = python("-c", MATCHED, env=environment).stdout.split("|")
    return name, int(matches), digest


# Compiling for another processor takes ten seconds: with the tests for the one that most have.
@pytest.mark.parametrize(
    "name",
    [*(pytest.param(n, marks=pytest.mark.benchmark) for n in ("AVX-512 VNNI", "AVX-VNNI")), "AVX2"],
)
def test_kernels_give_the_same_bits(name):
    """This processor's own is compared with the definition, and so is BLAS, in `test_nearest`."""
    kernel = BY_NAME[name]
    known = {feature for feature, there in binding.get_host_cpu_features().items() if there}
    if kernel is KERNEL or not known.issuperset({*kernel.needs, "avx2"}):
        pytest.skip(f"this processor has no {name}, or uses it anyway")
    features = ",".join(f"+{feature}" for feature in ("avx2", *kernel.needs))
    found = matched_by(NUMBA_CPU_NAME=PROCESSORS[name][1], NUMBA_CPU_FEATURES=features)
    own = matched_by()
    assert own[0] == KERNEL.name
    assert own[1] > 500
    assert found == (name, *own[1:])


def test_the_compiler_decides_what_the_processor_has(monkeypatch):
    monkeypatch.setattr(compiler.config, "CPU_NAME", "generic")
    assert kernel_of_processor() is BLAS
    monkeypatch.setattr(compiler.config, "CPU_FEATURES", "+sse4.2,+avx2,-avx512f")
    assert kernel_of_processor().name == "AVX2"


def compiled_for(name: str) -> tuple[str, bytes]:
    """Compile the two steps of a kernel for its processor: assembly and object code."""
    kernel = BY_NAME[name]
    triple, processor, features = PROCESSORS[name]
    module = ir.Module(name)
    module.triple = triple
    number, address = ir.FloatType(), ir.IntType(64)
    steps = {
        "multiply": (write_multiply, [address] * 3),
        "absorb": (write_absorb, [address, number, *[address] * 3, number, number]),
    }
    for step, (write, kinds) in steps.items():
        function = ir.Function(module, ir.FunctionType(ir.VoidType(), kinds), step)
        builder = ir.IRBuilder(function.append_basic_block())
        write(kernel, builder, *function.args)
        builder.ret_void()
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    machine = binding.Target.from_triple(triple).create_target_machine(
        cpu=processor, features=features, opt=3, reloc="pic"
    )
    parsed = binding.parse_assembly(str(module))
    return machine.emit_assembly(parsed), machine.emit_object(parsed)


@pytest.mark.parametrize("name", BY_NAME)
def test_the_compiler_takes_the_instruction(name):
    kernel = BY_NAME[name]
    assembly, _ = compiled_for(name)
    steps = LENGTH * int(kernel.row[1]) // LANE
    assert assembly.count(INSTRUCTIONS[name]) == steps * kernel.rows * kernel.blocks


PROGRAM = """
#include <stdio.h>
void multiply(long rows, long columns, long tile);
void absorb(long products, float norm, long norms, long by_row, long by_column, float row,
            float block);
static char rows[1 << 16], columns[1 << 16], tile[1 << 16], norms[1 << 10], by_row[1 << 10],
            by_column[1 << 12];
int main(void) {
    float row_norms[64];
    fread(rows, 1, ROWS * ROW_SIZE, stdin);
    fread(columns, 1, COLUMNS_SIZE, stdin);
    fread(row_norms, 4, ROWS, stdin);
    fread(norms, 1, 4 * WIDTH, stdin);
    fread(by_row, 1, 12 * LANES, stdin);
    fread(by_column, 1, 12 * WIDTH, stdin);
    multiply((long)rows, (long)columns, (long)tile);
    for (int i = 0; i < ROWS; i++)
        absorb((long)(tile + 4 * WIDTH * i), row_norms[i], (long)norms, (long)by_row,
               (long)by_column, (float)i, 5.0f);
    fwrite(tile, 1, 4 * WIDTH * ROWS, stdout);
    fwrite(by_row, 1, 12 * LANES, stdout);
    fwrite(by_column, 1, 12 * WIDTH, stdout);
    return 0;
}
"""


@pytest.mark.skipif(
    not (shutil.which("qemu-aarch64") and shutil.which("aarch64-linux-gnu-gcc")),
    reason="needs the Debian packages qemu-user, gcc-aarch64-linux-gnu, libc6-dev-arm64-cross",
)
def test_an_emulated_arm_processor_gives_the_same_bits(tmp_path):
    kernel = BY_NAME["NEON dot product"]
    width = kernel.lanes * kernel.blocks
    (tmp_path / "steps.o").write_bytes(compiled_for(kernel.name)[1])
    (tmp_path / "main.c").write_text(PROGRAM)
    sizes = {
        "ROWS": kernel.rows, "WIDTH": width, "LANES": kernel.lanes, "ROW_SIZE": LENGTH,
        "COLUMNS_SIZE": LENGTH * width,
    }  # fmt: skip
    subprocess.run(
        ["aarch64-linux-gnu-gcc", "-static", *(f"-D{name}={n}" for name, n in sizes.items()),
         "main.c", "steps.o", "-o", "steps"], cwd=tmp_path, check=True,
    )  # fmt: skip
    rng = np.random.default_rng(3)
    a, b = rng.integers(-128, 128, (2, max(kernel.rows, width), LENGTH)).astype(np.int8)
    a, b = a[: kernel.rows], b[:width]
    a[0], b[0] = -128, -128  # the largest product
    row_norms = rng.integers(0, 2**20, kernel.rows).astype(np.float32)
    norms = rng.integers(0, 2**20, width).astype(np.float32)
    nothing = [np.full((n, 3, kernel.lanes), np.inf, np.float32) for n in (1, kernel.blocks)]
    columns = b.reshape(width, LENGTH // LANE, LANE).swapaxes(0, 1)
    given = [a, np.ascontiguousarray(columns), row_norms, norms, *nothing]
    out = subprocess.run(
        ["qemu-aarch64", "-cpu", "max", "steps"], cwd=tmp_path, check=True, capture_output=True,
        input=b"".join(array.tobytes() for array in given),
    ).stdout  # fmt: skip
    products = a.astype(np.int64) @ b.T.astype(np.int64)
    tile = np.frombuffer(out[: 4 * products.size], np.int32)
    assert tile.reshape(products.shape).tolist() == products.tolist()
    neighbours = np.frombuffer(out[4 * products.size :], np.float32)
    D = row_norms[:, None].astype(np.int64) + norms.astype(np.int64) - 2 * products
    by_row, by_column = np.split(neighbours, [3 * kernel.lanes])
    last = np.sort(D.reshape(-1, kernel.blocks, kernel.lanes).reshape(-1, kernel.lanes), axis=0)
    assert by_row.reshape(3, -1)[:2].tolist() == last[:2].tolist()
    of_columns = by_column.reshape(kernel.blocks, 3, kernel.lanes)
    nearest = np.sort(D, axis=0)[:2].reshape(2, kernel.blocks, kernel.lanes)
    assert of_columns[:, :2].tolist() == nearest.swapaxes(0, 1).tolist()
    places = D.argmin(axis=0).reshape(kernel.blocks, kernel.lanes)
    assert of_columns[:, 2].tolist() == places.tolist()
