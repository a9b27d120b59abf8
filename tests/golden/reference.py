"""Decodes or encodes standard input to standard output with the package gguf; started by golden.

    reference.py decode TYPE BLOCK_BYTES      blocks to float32
    reference.py encode TYPE COLUMNS          rows of float32 to blocks

Exit status: 3 when the package does not know how, 4 when it is not installed.
"""
import sys

try:
    import numpy
    from gguf import GGMLQuantizationType, quants
except ImportError as e:
    sys.exit((print(e, file=sys.stderr), 4)[1])

what, kind, width = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
data = sys.stdin.buffer.read()
numpy.seterr(all="ignore")
try:
    if what == "decode":
        y = quants.dequantize(numpy.frombuffer(data, numpy.uint8).reshape(-1, width), GGMLQuantizationType(kind))
        y = y.astype("<f4")
    else:
        y = quants.quantize(numpy.frombuffer(data, "<f4").reshape(-1, width), GGMLQuantizationType(kind))
except (NotImplementedError, ValueError) as e:
    sys.exit((print(e, file=sys.stderr), 3)[1])
sys.stdout.buffer.write(numpy.ascontiguousarray(y).tobytes())
