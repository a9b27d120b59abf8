#!/usr/bin/env python3
"""A host in Python, by ctypes alone: maps a file, multiplies by what it holds, closes, is refused.

core_host.py LIBRARY, the pure-C libskeep_core.so (no Go runtime). With numpy its arrays are lent without a copy.
"""
import ctypes as c
import os
import struct
import sys
import tempfile
import unittest

try:
    import numpy
except ImportError:
    numpy = None

F32, Q8_0 = 0, 8
CLOSED, OVERLAP, READONLY = 1, 13, 15
HEAP = 0


class Status(c.Structure):
    _fields_ = [("code", c.c_int32), ("operand", c.c_int32), ("detail", c.c_uint64)]


class Handle(c.Structure):
    _fields_ = [("cell", c.c_uint64), ("generation", c.c_uint64)]


class Layout(c.Structure):
    _fields_ = [("shape", c.c_int64 * 4), ("stride", c.c_int64 * 4), ("offset", c.c_int64), ("block", c.c_uint32),
                ("rank", c.c_uint8), ("block_axis", c.c_int8), ("row_axis", c.c_int8), ("reserved", c.c_uint8),
                ("order", c.c_uint8 * 4), ("reserved2", c.c_uint32)]


class View(c.Structure):
    _fields_ = [("data", c.c_uint64), ("bytes", c.c_uint64), ("cell", c.c_uint64), ("generation", c.c_uint64),
                ("storage", c.c_uint64), ("value", c.c_uint32), ("dtype", c.c_uint16), ("encoding", c.c_uint16),
                ("layout", Layout), ("reserved", c.c_uint64 * 3)]


RELEASE = c.CFUNCTYPE(None, c.c_void_p)
PROTOTYPES = {
    "skeep_abi_version": (c.c_uint32, []),
    "skeep_status_text": (c.c_size_t, [Status, c.c_char_p, c.c_size_t]),
    "skeep_pool_create": (Status, [c.c_uint32, c.c_uint64, c.POINTER(c.c_void_p)]),
    "skeep_pool_destroy": (None, [c.c_void_p]),
    "skeep_storage_map": (Status, [c.c_int, c.c_uint64, c.c_uint64, c.POINTER(Handle)]),
    "skeep_storage_borrow": (Status, [c.c_void_p, c.c_uint64, c.c_uint32, c.c_uint32, RELEASE, c.c_void_p,
                                      c.POINTER(Handle)]),
    "skeep_storage_close": (Status, [Handle, c.c_void_p]),
    "skeep_view_of": (Status, [Handle, c.c_uint64, c.c_uint32, c.c_uint32, c.POINTER(c.c_int64), c.POINTER(View)]),
    "skeep_matmul_t": (Status, [c.c_void_p, c.c_void_p] + [c.POINTER(View)] * 3),
    "skeep_get": (Status, [c.POINTER(View), c.POINTER(c.c_int64), c.POINTER(c.c_double)]),
}
library = None


class Error(Exception):
    """A status that is not OK, with the sentence of the core."""

    def __init__(self, status):
        text = c.create_string_buffer(256)
        library.skeep_status_text(status, text, len(text))
        super().__init__(text.value.decode())
        self.status = status


def must(status):
    if status.code:
        raise Error(status)


def load(path):
    global library
    library = c.CDLL(path)
    for name, (result, arguments) in PROTOTYPES.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments


def view(handle, encoding, *shape, byte=0):
    v = View()
    must(library.skeep_view_of(handle, byte, encoding, len(shape), (c.c_int64 * len(shape))(*shape), c.byref(v)))
    return v


def borrow(address, size, readonly, release):
    handle = Handle()
    must(library.skeep_storage_borrow(address, size, HEAP, readonly, release, None, c.byref(handle)))
    return handle


class Host(unittest.TestCase):
    ROWS, N, HEAD = 7, 96, 33

    def setUp(self):
        self.pool = c.c_void_p()
        must(library.skeep_pool_create(2, 0, c.byref(self.pool)))
        self.addCleanup(library.skeep_pool_destroy, self.pool)
        self.released = []
        self.release = RELEASE(self.released.append)

    def mapped(self):
        """Q8_0 rows behind a head of odd length, and their values."""
        values, blocks = [], bytearray(b"\xee" * self.HEAD)
        for o in range(self.ROWS):
            row = []
            for b in range(self.N // 32):
                scale, codes = 2.0 ** (b - 9), [(o * 31 + b * 17 + i * 13) % 255 - 127 for i in range(32)]
                blocks += struct.pack("<e32b", scale, *codes)
                row += [scale * code for code in codes]
            values.append(row)
        handle = Handle()
        with tempfile.TemporaryFile() as f:
            f.write(blocks)
            f.flush()
            must(library.skeep_storage_map(f.fileno(), self.HEAD, len(blocks) - self.HEAD, c.byref(handle)))
        return handle, view(handle, Q8_0, self.ROWS, self.N), values

    def test_product_on_a_mapped_file(self):
        handle, w, values = self.mapped()
        x, y = (c.c_float * self.N)(*[i % 5 - 2 for i in range(self.N)]), (c.c_float * self.ROWS)()
        sx, sy = (borrow(c.addressof(a), c.sizeof(a), a is x, self.release) for a in (x, y))
        vx, vy = view(sx, F32, 1, self.N), view(sy, F32, 1, self.ROWS)
        must(library.skeep_matmul_t(self.pool, None, vx, w, vy))
        for o, row in enumerate(values):
            want, terms = sum(a * b for a, b in zip(x, row)), sum(abs(a * b) for a, b in zip(x, row))
            self.assertLessEqual(abs(y[o] - want), self.N * 2.0 ** -24 * terms)
        element = c.c_double()
        must(library.skeep_get(w, (c.c_int64 * 2)(self.ROWS - 1, self.N - 1), c.byref(element)))
        self.assertEqual(element.value, values[-1][-1])

        self.refused(READONLY, 2, vx, w, vx)
        self.refused(OVERLAP, 2, vy, w, vy)
        before = list(y)
        must(library.skeep_storage_close(handle, None))
        error = self.refused(CLOSED, 1, vx, w, vy)
        self.assertIn(f"storage {w.storage}", str(error))
        self.assertEqual(list(y), before)
        with self.assertRaises(Error) as caught:
            must(library.skeep_storage_close(handle, None))
        self.assertEqual(caught.exception.status.code, CLOSED)
        for s in (sx, sy):
            must(library.skeep_storage_close(s, None))
        self.assertEqual(len(self.released), 2)

    def refused(self, code, operand, *views):
        with self.assertRaises(Error) as caught:
            must(library.skeep_matmul_t(self.pool, None, *views))
        status = caught.exception.status
        self.assertEqual((status.code, status.operand), (code, operand), caught.exception)
        return caught.exception

    @unittest.skipIf(numpy is None, "numpy is missing")
    def test_arrays_of_numpy(self):
        random = numpy.random.default_rng(1)
        x, w = (random.standard_normal(shape, numpy.float32) for shape in ((3, 64), (5, 64)))
        y = numpy.zeros((3, 5), numpy.float32)
        handles = [borrow(a.ctypes.data, a.nbytes, a is not y, self.release) for a in (x, w, y)]
        must(library.skeep_matmul_t(self.pool, None, *(view(h, F32, *a.shape) for h, a in zip(handles, (x, w, y)))))
        numpy.testing.assert_allclose(y, x.astype(float) @ w.astype(float).T, rtol=1e-4, atol=1e-4)
        for h in handles:
            must(library.skeep_storage_close(h, None))
        self.assertEqual(len(self.released), 3)

    def test_abi(self):
        self.assertEqual(library.skeep_abi_version() >> 16, 1)
        self.assertEqual((c.sizeof(View), c.sizeof(Layout)), (160, 88))


if __name__ == "__main__":
    load(sys.argv.pop(1) if len(sys.argv) > 1 else os.environ["SKEEP_CORE_LIBRARY"])
    passed = unittest.main(exit=False).result.wasSuccessful()
    if passed and numpy is None:
        print("skip: numpy is missing: its arrays were not tried", flush=True)
    sys.exit(not passed)
