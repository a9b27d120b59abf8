/* skeep.h - the public ABI of the skeep compute core.
 *
 * skeep computes on the tensors of neural networks, above all on quantized weights, where their bytes lie: in a mapped
 * GGUF file, in memory that skeep allocated or in memory of the host program. A host works with five things:
 *
 *   pool     threads, and the scratch memory of operations             skeep_pool_create
 *   storage  bytes with one owner: allocated, borrowed or mapped       skeep_storage_allocate, _borrow, _map
 *   view     a tensor in a storage: address, encoding, shape, strides  skeep_view_of
 *   op       a function over views, run on a pool                      skeep_matmul_t, skeep_norm, ...
 *   status   what each call returns: code, operand and detail          skeep_status_text writes it as a sentence
 *
 *   skeep_pool_create(0, 0, &pool);                                    one thread for each processor
 *   skeep_storage_map(fd, 0, file_size, &file);                        the weights: no copy is made
 *   skeep_storage_allocate(x_bytes + y_bytes, 0, &memory);             room for activations
 *   skeep_view_of(file, w_byte, SKEEP_ENC_Q4_0, 2, w_shape, &w);       w[out, in]
 *   skeep_view_of(memory, 0, SKEEP_F32, 2, x_shape, &x);               x[tokens, in]
 *   skeep_view_of(memory, x_bytes, SKEEP_F32, 2, y_shape, &y);         y[tokens, out]
 *   skeep_status st = skeep_matmul_t(pool, NULL, &x, &w, &y);          y = x * transpose(w)
 *   if (st.code != SKEEP_OK) skeep_status_text(st, text, sizeof text);
 *   skeep_storage_close(memory, NULL); skeep_storage_close(file, NULL); skeep_pool_destroy(pool);
 *
 * An operation checks all of its views before it starts. It either computes the right result or returns an error that
 * says which view it cannot accept, and why.
 *
 * Rules for every function below, unless its comment says otherwise:
 *
 * Calls
 *  - A call returns a skeep_status by value. When it fails, it has written nothing to its outputs.
 *  - Functions may be called from any thread. A skeep_step belongs to one thread at a time.
 *  - No call aborts the process, prints, changes errno or the locale, or reads the environment (except SKEEP_ISA
 *    and SKEEP_MACHINE, once).
 *  - Operations do not allocate memory: their scratch memory belongs to the pool.
 *  - A call uses less than 16 KiB of the calling thread's stack.
 *  - Counts are size_t, strides and extents int64_t, addresses in structs uint64_t, so that structs are the same on
 *    every supported platform (Linux on amd64 and arm64). Lists of views are arrays of `const skeep_view *`.
 *
 * Arguments
 *  - Reserved fields must be zero.
 *  - A parameter that is not finite or outside its documented range is SKEEP_ERR_ARGUMENT with operand -1. Its detail
 *    is the parameter's position in the argument list, from 0. In operations that take a struct of parameters (rope,
 *    attend) it is the byte offset of the field in that struct, unless the pool is NULL (0) or the step has not begun
 *    (1), which is found before the struct is read.
 *  - Extents are > 0 and their product is below 2^63.
 *  - Operands are row-major: the last axis has stride 1, the others any stride >= 0. Exceptions:
 *      weights of products may have any block order for which there is a kernel;
 *      index data, tables, the factors of rope and the operands of convert, encode and prepack may have any strides
 *      and block order;
 *      in products, the distance from one row of x to the next must be constant, and so for y.
 *    Another layout is SKEEP_ERR_LAYOUT.
 *  - The stride of an axis that has one element (along the block axis: one block) is ignored, except in the order
 *    ROW_PANEL, where strides describe the plane that the view is part of.
 *  - Outputs must not overlap each other, themselves or inputs. Where a comment says "y may be x", y may be exactly the
 *    view x.
 *
 * Floating point
 *  - Every call rounds to nearest, without traps, and keeps subnormal numbers (except in products). This does not
 *    depend on the floating-point control of the calling thread or of the thread that created the pool. When the call
 *    returns, with whatever status, the caller's own control is in force again. Exception flags are unspecified then.
 *
 * Data that others change during a call
 *  - Indices (token ids, positions, sequences) may be written by other threads: each index is used with the value that
 *    was checked, or the call returns SKEEP_ERR_INDEX and its outputs are unspecified.
 *  - A mapped file may be truncated: the call returns SKEEP_ERR_FAULT or SKEEP_ERR_CHANGED and its outputs are
 *    unspecified. Beyond the new end, the rest of the last page reads as zeros without a fault. To detect that, each
 *    call without a step (skeep_get too) calls fstat once for each mapped operand after it has read, and skeep_step_end
 *    does it for a whole step.
 */
#ifndef SKEEP_H
#define SKEEP_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define SKEEP_API __attribute__((visibility("default")))
#else
#define SKEEP_API
#endif

/* The version of the ABI in this header: major in the upper 16 bits (raised by incompatible changes), minor in the
 * lower. The function returns that of the library. */
#define SKEEP_ABI_VERSION 0x00010001u
SKEEP_API uint32_t skeep_abi_version(void);

/* ---- status ------------------------------------------------------------------------------------------------------ */

/* The outcome of a call. */
typedef struct skeep_status {
  int32_t code;    /* SKEEP_OK or SKEEP_ERR_* */
  int32_t operand; /* position of the view that caused the error among the views of the call, from 0; -1 = none */
  uint64_t detail; /* a number whose meaning depends on the code */
} skeep_status;

#define SKEEP_OK 0
/* The storage or mark of a view or handle is closed. detail: id of the storage, 0 when it is no longer known. */
#define SKEEP_ERR_CLOSED 1
/* Others hold pins on the storage. detail: how many. */
#define SKEEP_ERR_BUSY 2
/* A NULL, a reserved field that is not zero, or a value out of range. detail: with an operand, the byte offset of the
 * field in skeep_view; without one, the position of the parameter (or its offset in a
 * struct of parameters). */
#define SKEEP_ERR_ARGUMENT 3
/* A layout or range reaches outside the bytes it belongs to. detail: how many bytes it would need; UINT64_MAX =
 * more than any address reaches. */
#define SKEEP_ERR_BOUNDS 4
/* Rank or extents do not fit the operation. detail: the axis. */
#define SKEEP_ERR_SHAPE 5
/* The encoding is unknown or not accepted here. detail: the encoding. (A dtype or a block size that does not belong to
 * the encoding is SKEEP_ERR_ARGUMENT.) */
#define SKEEP_ERR_FORMAT 6
/* Strides, block axis or block order are not accepted here. detail: the axis; UINT64_MAX = block axis or order. */
#define SKEEP_ERR_LAYOUT 7
/* The table of kernels has none for these operands. detail: encoding << 32 | op. */
#define SKEEP_ERR_NO_KERNEL 8
/* With operand -1: out of memory, slots or scratch; detail: bytes that were requested. With an operand: the step has
 * no room for another pin; detail: how many storages and marks it can pin. */
#define SKEEP_ERR_MEMORY 9
/* A system call failed. detail: errno. */
#define SKEEP_ERR_IO 10
/* A page of a mapped file could not be read (truncated file, I/O error). detail: the address; operand: the one whose
 * bytes contain it. */
#define SKEEP_ERR_FAULT 11
/* The size or modification time of a mapped file changed after it was mapped. detail: id of the storage; operand: in a
 * step, that of the operation that read the file first. */
#define SKEEP_ERR_CHANGED 12
/* An output overlaps itself or another operand. detail: position of that operand. Two operands overlap when the ranges
 * from first to last byte they reach do. */
#define SKEEP_ERR_OVERLAP 13
/* An index (token id, position, sequence) is out of range. detail: its position in the flattened index data. */
#define SKEEP_ERR_INDEX 14
/* An output is in read-only storage. detail: id of the storage. */
#define SKEEP_ERR_READONLY 15
/* An element that the output's format cannot represent or the operation cannot accept. detail: its position in the
 * flattened operand. */
#define SKEEP_ERR_VALUE 16

/* Writes s as an English sentence into text: at most size bytes, always terminated when size > 0. Storages are called
 * by the names they have at the time of this call. Returns the length of the whole sentence. */
SKEEP_API size_t skeep_status_text(skeep_status s, char *text, size_t size);

/* ---- formats: what the bytes mean -------------------------------------------------------------------------------- */

/* dtype: the logical type of an element. The elements of quantized weights are logically F32; only their encoding says
 * how they are stored. The numbers are those of GGUF. */
#define SKEEP_F32 0
#define SKEEP_F16 1
#define SKEEP_I8 24
#define SKEEP_I16 25
#define SKEEP_I32 26
#define SKEEP_I64 27
#define SKEEP_F64 28
#define SKEEP_BF16 30

/* Encoding: how elements are stored. Dense encodings store each element as a number of its own and have the id of
 * their dtype. Packed encodings store blocks of elements, e.g. 32 codes of 4 bits and their scale; their ids are those
 * of GGUF. Ids from 256 on are skeep's own and occur in memory only. */
/* generated: encodings */
#define SKEEP_ENC_Q4_0 2
#define SKEEP_ENC_Q4_1 3
#define SKEEP_ENC_Q5_0 6
#define SKEEP_ENC_Q5_1 7
#define SKEEP_ENC_Q8_0 8
#define SKEEP_ENC_Q8_1 9
#define SKEEP_ENC_Q2_K 10
#define SKEEP_ENC_Q3_K 11
#define SKEEP_ENC_Q4_K 12
#define SKEEP_ENC_Q5_K 13
#define SKEEP_ENC_Q6_K 14
#define SKEEP_ENC_Q8_K 15
#define SKEEP_ENC_IQ2_XXS 16
#define SKEEP_ENC_IQ2_XS 17
#define SKEEP_ENC_IQ3_XXS 18
#define SKEEP_ENC_IQ1_S 19
#define SKEEP_ENC_IQ4_NL 20
#define SKEEP_ENC_IQ3_S 21
#define SKEEP_ENC_IQ2_S 22
#define SKEEP_ENC_IQ4_XS 23
#define SKEEP_ENC_IQ1_M 29
#define SKEEP_ENC_TQ1_0 34
#define SKEEP_ENC_TQ2_0 35
#define SKEEP_ENC_MXFP4 39
#define SKEEP_ENC_NVFP4 40
#define SKEEP_ENC_Q1_0 41
#define SKEEP_ENC_Q2_0 42
#define SKEEP_ENC_A8 256
/* end: encodings */
/* A8 is for activations. A block has 128 elements: 4 f32 scales (one for each 32 elements), 8 i16 sums of codes (one
 * for each 16) and 128 i8 codes in [-127, 127]. Rows whose length is no multiple of 128 are padded with zero codes. */

/* One encoding. */
typedef struct skeep_encoding_info {
  uint32_t id;
  uint32_t dtype;          /* logical type of the elements */
  uint32_t block_elements; /* 1 = dense; 0 = unknown or retired, cannot be read */
  uint32_t block_bytes;
  uint32_t flags; /* SKEEP_ENC_FLAG_* */
  uint32_t reserved;
  const char *name; /* as GGUF spells it, e.g. "Q4_K"; static */
} skeep_encoding_info;
#define SKEEP_ENC_FLAG_RETIRED 1u    /* the id is no longer in use; its block size is unknown */
#define SKEEP_ENC_FLAG_ACTIVATION 2u /* for activations; not for weights */
#define SKEEP_ENC_FLAG_INTEGER 4u    /* elements are integers: read them with skeep_get_i64 */

/* The table of encodings: the number of its rows, and one of them. ERR_ARGUMENT when there is no such row. */
SKEEP_API size_t skeep_encoding_count(void);
SKEEP_API skeep_status skeep_encoding_at(size_t row, skeep_encoding_info *info);

/* ---- storage: who owns which bytes, and until when --------------------------------------------------------------- */

/* A storage owns a range of bytes from its creation until it is closed and no longer in use. It is also called the root
 * of the marks and views made from it.
 *
 * Slot, generation. The core keeps each storage in a slot, a record that is never unmapped but may be used for another
 * storage later. The slot's generation is a number that grows whenever the slot is opened and closed. Handles and views
 * contain the slot's address (cell) and its generation; they are live while the slot still has that generation. A stale
 * handle or view is therefore always detected: the call returns SKEEP_ERR_CLOSED before it touches any byte.
 *
 * Pin. While something is pinned, its bytes stay where they are. Each operation pins the storages of its views, until
 * it returns or, when it is part of a step, until the step ends (skeep_step_end). A host takes pins with skeep_pin.
 *
 * Mark. A mark is a scope within a storage: it has a slot of its own, and the views made from the mark become stale
 * when it ends, while the storage and its other views stay valid. An arena that is reused for each token needs this. A
 * pin taken through a mark counts on the mark and on its root.
 *
 * How they end:
 *  - skeep_storage_close invalidates all handles and views at once and returns without waiting, even inside a step that
 *    uses the storage. The bytes are freed when the last pin is given back, or by the close itself when there is none.
 *  - skeep_mark_release, skeep_mark_renew and skeep_storage_reset invalidate at once too. Then they wait, because the
 *    bytes are about to be used again: for pins taken through the marks that end, not for pins on the root or on other
 *    marks.
 *  - These functions take a step (or NULL). Pass the step that the calling thread is running: the function gives the
 *    step's pins on marks back first, and the next operation of the step takes those it needs again. So two threads
 *    that each end their own marks during their own steps never wait for each other. A step that is not passed is
 *    waited for like any other holder of pins. If the caller itself runs that step, or holds a pin of skeep_pin on the
 *    mark, the function never returns.
 *
 * After fork, the child process may create, use and close storages, marks, pins and steps, whatever other threads of
 * the parent were doing: no lock stays locked. Pins that those threads held at the fork are never given back in the
 * child. A storage with such pins keeps its bytes until the child exits; a mark with such pins must not be released,
 * renewed or reset. Pools have no workers in the child: create a new one. Mapped and borrowed bytes are shared with the
 * parent as far as their memory is. */

/* Handle of a storage, a mark or a pin. A plain value: copy it freely. */
typedef struct skeep_storage {
  uint64_t cell;       /* address of the slot */
  uint64_t generation; /* of the slot when the handle was made */
} skeep_storage;

/* A group of operations with one set of pins and one error: see "pool and step" below. */
typedef struct skeep_step skeep_step;

/* Domains: kinds of memory. */
#define SKEEP_DOMAIN_HEAP 0    /* managed memory of the host, which keeps it in place until close */
#define SKEEP_DOMAIN_OFFHEAP 1 /* memory outside of any managed heap */
#define SKEEP_DOMAIN_MAPPED 2  /* pages of a file, read-only */
#define SKEEP_DOMAIN_DEVICE 3  /* not implemented: every call returns SKEEP_ERR_NO_KERNEL */

typedef struct skeep_storage_info {
  uint64_t address;
  uint64_t bytes;
  uint64_t id;       /* of the root; never reused within a process */
  uint64_t pins;     /* at the time of the call: of a root all of them, of a mark those taken through it */
  uint32_t domain;   /* SKEEP_DOMAIN_* */
  uint32_t readonly; /* 1 = must not be an output */
  uint32_t is_mark;
  uint32_t reserved;
} skeep_storage_info;

/* Allocates bytes (> 0) of zeroed memory, domain OFFHEAP. alignment is a power of two up to 2 MiB, 0 = 64. Large
 * allocations are advised to use huge pages. ERR_MEMORY when there is not enough. */
SKEEP_API skeep_status skeep_storage_allocate(uint64_t bytes, uint64_t alignment, skeep_storage *out);
/* Makes a storage of memory that the caller owns. The caller keeps it in place until the storage is closed and the last
 * pin is gone; then release (or NULL) is called once, with arg, on the thread that did the last of the two. release
 * must not use the same storage. domain is HEAP or OFFHEAP. readonly != 0 forbids it as an output. */
SKEEP_API skeep_status skeep_storage_borrow(void *address, uint64_t bytes, uint32_t domain, uint32_t readonly,
                                            void (*release)(void *arg), void *arg, skeep_storage *out);
/* Maps length bytes of the file fd from offset on (any value), read-only and shared. The storage keeps a duplicate of
 * fd; the caller may close its own. ERR_BOUNDS when the range ends behind the end of the file. When the file is
 * truncated later, operations return ERR_FAULT or ERR_CHANGED; without skeep_fault_guard_install, SIGBUS ends the
 * process instead of ERR_FAULT. */
SKEEP_API skeep_status skeep_storage_map(int fd, uint64_t offset, uint64_t length, skeep_storage *out);
/* Describes an open storage or mark. */
SKEEP_API skeep_status skeep_storage_info_of(skeep_storage s, skeep_storage_info *info);
/* Gives an open root a name for messages, such as the path of its file. The name is copied; of a name longer than 255
 * bytes, "..." and its end are kept. NULL removes the name. */
SKEEP_API skeep_status skeep_storage_set_name(skeep_storage s, const char *name);
/* Writes the name of the storage with this id (from a view or the detail of a status) into text: at most size bytes,
 * always terminated when size > 0. Returns the length of the whole name, 0 when there is none. The name of a closed
 * storage is known until its slot is used again. Searches all storages: meant for messages, not for speed. */
SKEEP_API size_t skeep_storage_name(uint64_t id, char *text, size_t size);
/* ERR_CHANGED when the size or modification time of a mapped storage's file is no longer that at the time of
 * mapping. */
SKEEP_API skeep_status skeep_storage_verify(skeep_storage s);
/* Advises the operating system on the use of a byte range of a mapped storage, as madvise. */
SKEEP_API skeep_status skeep_storage_advise(skeep_storage s, uint64_t byte, uint64_t length, uint32_t advice);
#define SKEEP_ADVICE_NORMAL 0
#define SKEEP_ADVICE_SEQUENTIAL 1
#define SKEEP_ADVICE_WILLNEED 2
#define SKEEP_ADVICE_DONTNEED 3
/* How many bytes of a mapped storage are in memory now (mincore). */
SKEEP_API skeep_status skeep_storage_resident(skeep_storage s, uint64_t *bytes);

/* Closes a root as described above. The pins of step (or NULL) on the root and on all marks are given back here instead
 * of at the step's end. A second close is ERR_CLOSED. */
SKEEP_API skeep_status skeep_storage_close(skeep_storage s, skeep_step *step);
/* As skeep_storage_close, but when anyone other than step holds pins, changes nothing and returns ERR_BUSY. */
SKEEP_API skeep_status skeep_storage_try_close(skeep_storage s, skeep_step *step);
/* Tells after a close whether the bytes are still in use: OK and the number of pins on the closed root, or ERR_CLOSED
 * when all have been given back (and release has run). ERR_ARGUMENT when the root is open. */
SKEEP_API skeep_status skeep_storage_left(skeep_storage s, uint64_t *pins);

/* Opens a mark on a root. Marks nest. */
SKEEP_API skeep_status skeep_mark_open(skeep_storage root, skeep_storage *mark);
/* Ends a mark and those opened after it on the same root. Waits for pins as described above. */
SKEEP_API skeep_status skeep_mark_release(skeep_storage mark, skeep_step *step);
/* Invalidates the views of a mark and releases the marks opened after it, but keeps the mark open: *mark gets the new
 * generation. Cheaper than release and open; meant for scopes that begin anew with each step. Waits as release does.
 * ERR_CLOSED when another thread ended the mark meanwhile. */
SKEEP_API skeep_status skeep_mark_renew(skeep_storage *mark, skeep_step *step);
/* Releases all open marks of a root. Views made from the root itself stay valid. */
SKEEP_API skeep_status skeep_storage_reset(skeep_storage root, skeep_step *step);

/* Pins a storage or mark. Pass *pin to skeep_unpin exactly once, also after a close; it has no other use. Each pin
 * takes a slot; ERR_MEMORY when there is none. */
SKEEP_API skeep_status skeep_pin(skeep_storage s, skeep_storage *pin);
/* Gives a pin back. ERR_CLOSED when that was done before, ERR_ARGUMENT when the handle is not from skeep_pin (a storage
 * or mark); then nothing changes, so no other pin can be lost by mistake. */
SKEEP_API skeep_status skeep_unpin(skeep_storage pin);

/* ---- view: a tensor in a storage --------------------------------------------------------------------------------- */

/* The order in which the blocks of a matrix are stored. (o, b) is block b of row o, bpr the number of blocks in a row,
 * out the number of rows, P the number of rows in a panel. Positions count blocks. */
#define SKEEP_ORDER_ROW_MAJOR 0         /* (o, b) is at o*bpr + b, as in a GGUF file */
#define SKEEP_ORDER_INPUT_BLOCK_MAJOR 1 /* (o, b) is at b*out + o */
#define SKEEP_ORDER_ROW_PANEL 2         /* (o, b) is at (o/P)*P*bpr + b*P + o%P; the last out%P rows are row-major */
/* A view of some rows in ROW_PANEL begins at a multiple of P and ends at one, or where the matrix ends. A view does not
 * say where that is: a host that narrows one itself must keep to it. */
typedef struct skeep_order {
  uint8_t family;     /* SKEEP_ORDER_* */
  uint8_t panel;      /* P for ROW_PANEL, else 0 */
  uint8_t interleave; /* max size of the units by which the P blocks at one b are interleaved; 0 = whole blocks */
  uint8_t version;    /* of the interleaving; 0 for whole blocks */
} skeep_order;
/* The feed order, which the products of most packed encodings read fastest, as an initializer: panels of 16 rows, whose
 * blocks are interleaved so that a vector register loads the same few bytes of all 16 rows at once. docs/layouts.md says
 * where each byte is. skeep_prepack converts to it and back; the kernel table says which encodings have it. */
#define SKEEP_ORDER_FEED {SKEEP_ORDER_ROW_PANEL, 16, 4, 1}

/* Where each element of a tensor is. shape counts elements; strides and offset count blocks, or elements when block is
 * 1 (dense). Unused axes have extent 1 and stride 0.
 *
 * With block > 1, block_axis is the axis along which elements form blocks. Its extent is a multiple of block; in A8 it
 * may be any, and its last block is padded. In ROW_MAJOR and INPUT_BLOCK_MAJOR the element (i0..i3) is in the block at
 * offset + sum(stride[a] * (a == block_axis ? i[a]/block : i[a])). In ROW_PANEL row_axis is the axis of the rows o,
 * stride[row_axis] is bpr of the whole plane and stride[block_axis] is P. */
typedef struct skeep_layout {
  int64_t shape[4];
  int64_t stride[4];
  int64_t offset;
  uint32_t block;    /* elements in a block of the encoding; 1 = dense */
  uint8_t rank;      /* 0..4 */
  int8_t block_axis; /* -1 when dense */
  int8_t row_axis;   /* -1 unless ROW_PANEL or INPUT_BLOCK_MAJOR */
  uint8_t reserved;
  skeep_order order;
  uint32_t reserved2;
} skeep_layout;

/* A tensor, as operations take it. A plain value that owns nothing: copy it freely. Only skeep_view_of sets cell and
 * generation; they say whether the view is live, as in a handle. */
typedef struct skeep_view {
  uint64_t data;       /* address from which layout.offset counts; any alignment */
  uint64_t bytes;      /* the tensor must not reach beyond so many bytes from data */
  uint64_t cell;       /* address of the slot of the storage or mark */
  uint64_t generation; /* of that slot when the view was made */
  uint64_t storage;    /* id of the root, for messages */
  uint32_t value;      /* any number, for the caller's own use; not interpreted */
  uint16_t dtype;      /* SKEEP_F32 ... */
  uint16_t encoding;   /* SKEEP_ENC_*, or the dtype when dense */
  skeep_layout layout;
  uint64_t reserved[3];
} skeep_view;

/* Makes a row-major view without gaps, of shape[rank] elements from byte `byte` of s on; s is a storage or a mark. A
 * packed encoding has its blocks along the last axis. For another layout, edit view->layout. */
SKEEP_API skeep_status skeep_view_of(skeep_storage s, uint64_t byte, uint32_t encoding, uint32_t rank,
                                     const int64_t *shape, skeep_view *view);
/* Checks a view as every operation does: liveness, fields, format, layout and bounds. */
SKEEP_API skeep_status skeep_view_check(const skeep_view *view);
/* How many bytes a tensor of this encoding and shape takes without gaps. ERR_BOUNDS when that overflows. */
SKEEP_API skeep_status skeep_bytes_of(uint32_t encoding, uint32_t rank, const int64_t *shape, uint64_t *bytes);

/* ---- pool and step ----------------------------------------------------------------------------------------------- */

/* Worker threads and the scratch memory of their operations. The workers serve one operation at a time. A second
 * thread that uses the pool meanwhile computes alone, with a spare set of scratch memory; further ones wait. */
typedef struct skeep_pool skeep_pool;
/* threads includes the calling thread; 0 = as many as there are processors this thread may run on. scratch is in bytes
 * for each thread, 0 = 1 MiB. With more threads than processors, no more threads than processors work at the same time:
 * about as fast as a pool of the right size, never faster.
 * After an operation, workers stay awake for a millisecond, unless all pools of the process have more threads awake than
 * there are processors. A worker may change its own affinity to leave the processor of the calling thread, for others
 * that both the calling thread and the thread that created the pool may run on. */
SKEEP_API skeep_status skeep_pool_create(uint32_t threads, uint64_t scratch, skeep_pool **out);
SKEEP_API uint32_t skeep_pool_threads(const skeep_pool *pool);
/* Waits for operations that have begun, then ends the workers and frees the pool. No operation may begin on it any
 * more. NULL is allowed. */
SKEEP_API void skeep_pool_destroy(skeep_pool *pool);

/* A step groups operations, e.g. all those that compute one token. It pins each storage and mark once instead of in
 * each operation, and it keeps the first error: later operations return that error and do nothing, so that a host may
 * check once, at the end. It also holds an array of views in C memory (the frame), for hosts whose own heap moves. */

/* Creates a step. frame_views: length of the frame. roots: how many storages and marks the step can pin, 0 = 64; one
 * more is ERR_MEMORY. The operations of the step are those called with it between begin and end; elsewhere they are
 * ERR_ARGUMENT. */
SKEEP_API skeep_status skeep_step_create(uint32_t frame_views, uint32_t roots, skeep_step **out);
SKEEP_API skeep_view *skeep_step_frame(skeep_step *step);
SKEEP_API skeep_status skeep_step_begin(skeep_step *step);
/* Gives the pins back, checks all mapped files for changes and returns the first error of the step. A changed file also
 * replaces an error in the data (SKEEP_ERR_VALUE, SKEEP_ERR_INDEX), which it may have caused. It is reported for the
 * operation (see skeep_step_status) and operand that read the file first in this step. */
SKEEP_API skeep_status skeep_step_end(skeep_step *step);
/* Returns the first error so far. *op (op may be NULL) gets the number of the operation that caused it, from 0. */
SKEEP_API skeep_status skeep_step_status(const skeep_step *step, uint64_t *op);
/* Ends the step when it is running, and frees it. NULL is allowed. */
SKEEP_API void skeep_step_destroy(skeep_step *step);

/* ---- operations --------------------------------------------------------------------------------------------------
 * pool is required. step is the running step, or NULL: then the call pins its operands itself.
 * Shapes: T is the number of tokens. Floating-point outputs are F32 unless said otherwise. */

/* generated: operations */

/* Copies x to y of the same shape and decodes it or converts its numbers on the way. x may have any encoding, strides
 * and order. y is F32, F16 or BF16, or has the dense encoding of x; then the bits are copied. Each element is rounded
 * once, to nearest even, and overflows to infinity. (This is what Materialize runs in Go.) */
SKEEP_API skeep_status skeep_convert(skeep_pool *pool, skeep_step *step, const skeep_view *x, const skeep_view *y);

/* Encodes x in the encoding of y, which must have an encode kernel: F32, F16, BF16 and most packed encodings have one.
 * x is floating-point, of any encoding, strides and order, and is decoded to F32 first; the blocks of x and y run along
 * the same axis. Dense encodings round to nearest even. Q4_0, Q4_1, Q5_0, Q5_1 and Q8_0 give the same blocks as their
 * reference encoder; for the others a search looks for the blocks with the least squared error. The bits depend neither
 * on the number of threads nor on the instruction set. An element that is not finite, or whose block would not be, is
 * ERR_VALUE on x, for the first such element in logical order; y is unspecified then. */
SKEEP_API skeep_status skeep_encode(skeep_pool *pool, skeep_step *step, const skeep_view *x, const skeep_view *y);

/* Copies the blocks of x to y, which has the same encoding and shape, in the block order of y. The blocks themselves do
 * not change. */
SKEEP_API skeep_status skeep_prepack(skeep_pool *pool, skeep_step *step, const skeep_view *x, const skeep_view *y);

/* Quantizes the rows of x[T, n] F32 to y[T, n] A8. Each group of 32 elements gets the scale max(|x|) / 127, and its
 * codes are rounded to nearest even. A NaN or infinity makes the scale of its group NaN. A group with max(|x|) below
 * 2^-119 becomes 0. */
SKEEP_API skeep_status skeep_quantize_rows(skeep_pool *pool, skeep_step *step, const skeep_view *x,
                                           const skeep_view *y);

/* Computes y[T, out] = x[T, in] * transpose(w[out, in]). With x in A8 the kernel multiplies integer codes; with x in
 * F32 it decodes w and multiplies floats. The terms of each output element are added in a fixed order, so that no
 * result depends on the number of threads. Subnormal floats (below 2^-126) count as zero, whether they are given or
 * arise; the floating-point control of the calling thread is not changed by that. All sums are in F32: where a term, a
 * sum of terms, or the product of the scales of two blocks is beyond its range, the result is infinite or NaN, even if
 * the exact sum is not. */
SKEEP_API skeep_status skeep_matmul_t(skeep_pool *pool, skeep_step *step, const skeep_view *x, const skeep_view *w,
                                      const skeep_view *y);

/* Computes 1 to 3 products of the same input at once: y[i] = x * transpose(w[i]) + bias[i] for i < count. bias, or any
 * entry of it, may be NULL; bias[i] is F32 [out_i]. When one of the weights has no kernel for the encoding of x,
 * nothing is computed. Operand positions: x is 0, w 1..count, bias from count+1 on, y from 2*count+1 on. */
SKEEP_API skeep_status skeep_project(skeep_pool *pool, skeep_step *step, const skeep_view *x, uint32_t count,
                                     const skeep_view *const *w, const skeep_view *const *bias,
                                     const skeep_view *const *y);

/* Computes y[T, n] = scale * table[ids[T], n]. Elements are decoded to F32 before they are
 * scaled. ids are I32 in [0, rows of table). scale is finite. */
SKEEP_API skeep_status skeep_embed(skeep_pool *pool, skeep_step *step, const skeep_view *table, const skeep_view *ids,
                                   float scale, const skeep_view *y);

/* Computes s = x + before and y = s / sqrt(mean(s^2) + eps) * w + after along the last axis of x (RMS normalization
 * with residual additions). x has any rank; w is F32 [n]. before, after and sum, which gets s, may be NULL. sum may be
 * x or before; y may be x, before or after. eps >= 0. s is rounded to F32, and y once more at the end; all between is
 * precise, so that rows of any magnitude, subnormal ones too, are equally accurate with any eps. 0 / 0 is NaN. */
SKEEP_API skeep_status skeep_norm(skeep_pool *pool, skeep_step *step, const skeep_view *x, const skeep_view *before,
                                  const skeep_view *w, const skeep_view *after, float eps, const skeep_view *sum,
                                  const skeep_view *y);

/* Which elements of a head are rotated as a pair. */
#define SKEEP_ROPE_NORMAL 0 /* pairs (2i, 2i+1) */
#define SKEEP_ROPE_NEOX 1   /* pairs (i, i + dims/2) */

/* The parameters of a rotary position embedding (Su et al. 2021) with linear and YaRN scaling (Peng et al. 2023). */
typedef struct skeep_rope_params {
  uint32_t form;             /* SKEEP_ROPE_*: which elements are rotated as a pair */
  uint32_t dims;             /* how many elements of each head are rotated, from its first on; even, <= head_dim */
  float base;                /* theta_i = base^(-2i/dims) */
  float scale;               /* factor of the angles: 1 / context scaling */
  float ext_factor;          /* 0 = linear scaling only, 1 = full YaRN */
  float attn_factor;         /* factor of cos and sin; 1 without YaRN */
  float beta_fast;           /* YaRN: a pair with at least so many turns in original_context is not scaled */
  float beta_slow;           /* YaRN: a pair with at most so many turns in original_context is scaled fully */
  uint32_t original_context; /* YaRN: context length that the model was first trained with */
  uint32_t reserved;         /* must be zero */
} skeep_rope_params;

/* Applies a rotary position embedding to x. x and y are [T, heads, head_dim] F32, y may be x; positions [T] I32 >= 0;
 * factors F32 [dims/2] or NULL. Pair i is rotated by the angle position * ((1 - r_i)*scale + r_i) * base^(-2i/dims) /
 * factors[i], computed in double, with r_i = ext_factor * ramp(i; beta_fast, beta_slow, original_context). cos and sin
 * are multiplied by attn_factor and by nothing else. Only the result is rounded to F32. Elements from dims on are
 * copied. From one position to the next, the angle of no pair may change by more than 2048 radians: a base, scale or
 * ext_factor beyond that is ERR_ARGUMENT, a factor ERR_VALUE on factors. A position with an angle of 2^31 or more is
 * ERR_INDEX. */
SKEEP_API skeep_status skeep_rope(skeep_pool *pool, skeep_step *step, const skeep_view *x, const skeep_view *positions,
                                  const skeep_view *factors, skeep_rope_params params, const skeep_view *y);

/* Stores k and v [T, kv_heads, head_dim] F32 in the caches [sequences, kv_heads, capacity, head_dim] (F32, F16 or
 * BF16). Each token goes to its sequence (sequences NULL: all to sequence 0), at cache row position mod capacity. A
 * negative position, a sequence out of range, or two tokens for the same cache row are ERR_INDEX before anything is
 * written. A finite element that the caches' encoding would round to infinity (in F16 from 65520 on) is ERR_VALUE on k
 * or v, for the first in logical order; the cache rows of this call are unspecified then. Infinities and NaN are stored
 * as they are. Both caches have the same encoding; the head_dim of v may differ from that of k. */
SKEEP_API skeep_status skeep_kv_store(skeep_pool *pool, skeep_step *step, const skeep_view *k, const skeep_view *v,
                                      const skeep_view *positions, const skeep_view *sequences,
                                      const skeep_view *k_cache, const skeep_view *v_cache);

/* The parameters of attention. */
typedef struct skeep_attend_params {
  float scale;       /* factor of q.k, e.g. 1/sqrt(head_dim) */
  float softcap;     /* scores become softcap * tanh(score / softcap); 0 = they stay */
  uint32_t window;   /* a token sees its own and the window - 1 positions before it; 0 = all */
  uint32_t reserved; /* must be zero */
} skeep_attend_params;

/* Computes attention over the caches: y[T, heads, head_dim] = softmax(q.K) V for q [T, heads, head_dim]. heads is a
 * multiple of kv_heads, and head h reads KV head h / (heads / kv_heads). The keys and values of this call's positions
 * must be stored before. Which positions a token p sees follows from its position alone: those from max(0, p - window +
 * 1) to p; cache row s holds the position p - ((p - s) mod capacity). The softmax is computed in one streaming pass
 * (Milakov & Gimelshein 2018). With m as the largest position of a sequence in this call, positions <= m - capacity are
 * overwritten already: a token that would see one is ERR_SHAPE on k_cache before anything is written. A row of y is NaN
 * when all of its scores are -inf, or when a score, after the softcap, is above the range of F32. Scores below that
 * range have weight 0. The mean of finite values is finite even when their sum is beyond F32. The bits of a row depend
 * neither on the other tokens of the call nor on the number of threads. The head_dim of y is that of the values. */
SKEEP_API skeep_status skeep_attend(skeep_pool *pool, skeep_step *step, const skeep_view *q, const skeep_view *k_cache,
                                    const skeep_view *v_cache, const skeep_view *positions, const skeep_view *sequences,
                                    skeep_attend_params params, const skeep_view *y);

/* Which activation function act is applied to the gate. */
#define SKEEP_GLU_SILU 0      /* SwiGLU */
#define SKEEP_GLU_GELU_TANH 1 /* GeGLU, tanh form */
#define SKEEP_GLU_GELU_ERF 2  /* GeGLU, exact form */
#define SKEEP_GLU_RELU 3      /* ReGLU */

/* Computes y = act(gate) * up for each element. y may be gate or up. act(-inf) is its limit 0, not the NaN of -inf *
 * 0. */
SKEEP_API skeep_status skeep_glu(skeep_pool *pool, skeep_step *step, const skeep_view *gate, const skeep_view *up,
                                 uint32_t form, const skeep_view *y);

/* Computes y = a + b. b has the shape of a, or is one row [n] that is added to each row of a. y may be a. */
SKEEP_API skeep_status skeep_add(skeep_pool *pool, skeep_step *step, const skeep_view *a, const skeep_view *b,
                                 const skeep_view *y);

/* Computes y = a * b. b has the shape of a, or is one row [n] that multiplies each row of a. y may be a. */
SKEEP_API skeep_status skeep_mul(skeep_pool *pool, skeep_step *step, const skeep_view *a, const skeep_view *b,
                                 const skeep_view *y);

/* Computes y = softmax(scale * x) along the last axis. y may be x. A row whose scaled elements are all -inf becomes
 * NaN. */
SKEEP_API skeep_status skeep_softmax(skeep_pool *pool, skeep_step *step, const skeep_view *x, float scale,
                                     const skeep_view *y);

/* Computes y = cap * tanh(x / cap) for each element. y may be x. */
SKEEP_API skeep_status skeep_softcap(skeep_pool *pool, skeep_step *step, const skeep_view *x, float cap,
                                     const skeep_view *y);
/* end: operations */

/* ---- reference --------------------------------------------------------------------------------------------------- */

/* Reads one element, decoded, at index[rank]: any format and layout, integers too. ERR_INDEX when an index is outside
 * its extent; detail: the axis. */
SKEEP_API skeep_status skeep_get(const skeep_view *view, const int64_t *index, double *value);
/* As skeep_get for integer formats, exact for all of int64. ERR_FORMAT for other formats. */
SKEEP_API skeep_status skeep_get_i64(const skeep_view *view, const int64_t *index, int64_t *value);
/* y = x * transpose(w), computed with skeep_get in float64: slow, but right for every format and layout, to test
 * against. y is F32. magnitude (F32, or NULL) gets the sum of the absolute values of each element's terms, for error
 * bounds. */
SKEEP_API skeep_status skeep_reference_matmul_t(const skeep_view *x, const skeep_view *w, const skeep_view *y,
                                                const skeep_view *magnitude);

/* ---- kernels ----------------------------------------------------------------------------------------------------- */

/* A kernel is the code of one operation for one encoding and instruction set. Operations choose the best one that this
 * machine can run. These functions list the kernels and say which would be chosen. */

/* Numbers of the operations. They do not change. */
/* generated: operation ids */
#define SKEEP_OP_DECODE 1
#define SKEEP_OP_QUANTIZE_ROWS 2
#define SKEEP_OP_CONVERT 3
#define SKEEP_OP_PREPACK 4
#define SKEEP_OP_MATMUL_T 5
#define SKEEP_OP_EMBED 6
#define SKEEP_OP_NORM 7
#define SKEEP_OP_ROPE 8
#define SKEEP_OP_KV_STORE 9
#define SKEEP_OP_ATTEND 10
#define SKEEP_OP_GLU 11
#define SKEEP_OP_ADD 12
#define SKEEP_OP_MUL 13
#define SKEEP_OP_SOFTMAX 14
#define SKEEP_OP_SOFTCAP 15
#define SKEEP_OP_ENCODE 16
#define SKEEP_OP_PROJECT 17
/* end: operation ids */

#define SKEEP_ISA_PORTABLE 0
#define SKEEP_ISA_AVX2 1   /* AVX2, FMA, F16C */
#define SKEEP_ISA_AVX512 2 /* AVX-512 F, BW, VL, DQ, VNNI, VBMI */
#define SKEEP_ISA_NEON 3   /* Advanced SIMD; dotprod and i8mm where said */

/* One kernel. */
typedef struct skeep_kernel_info {
  uint32_t op;
  uint32_t isa;        /* SKEEP_ISA_* */
  uint16_t encoding;   /* of the weight, table or source; 0xffff = any that can be decoded */
  uint16_t activation; /* of the other input: SKEEP_F32, SKEEP_ENC_A8, ...; 0xffff = not applicable */
  skeep_order order;
  uint32_t runnable; /* 1 when this machine can run it and SKEEP_ISA allows it */
  uint32_t reserved;
  const char *name; /* e.g. "skeep_matmul_t_q4_0_avx2"; static */
} skeep_kernel_info;
/* The table of kernels, those included that this machine cannot run: the number of its rows, and one of them. */
SKEEP_API size_t skeep_kernel_count(void);
SKEEP_API skeep_status skeep_kernel_at(size_t row, skeep_kernel_info *info);
/* *row gets the row of the table that op would run on these operands; no element is read. Operands are in the order of
 * the operation's function, with NULL for absent ones; those after the last one that a kernel is chosen by may be left
 * out. ERR_NO_KERNEL, ERR_LAYOUT or ERR_FORMAT name the operand for which there is no kernel. CONVERT and EMBED return
 * the DECODE row they use. In PROJECT each weight is chosen for as in MATMUL_T; the row is that of the first weight.
 * A product of one token with A8 may run the row of another instruction set than one of several tokens, if this
 * processor is faster so; its bits are the same. Operations without kernels (PREPACK) are ERR_ARGUMENT. */
SKEEP_API skeep_status skeep_select(uint32_t op, const skeep_view *const *operands, uint32_t count, uint32_t *row);
/* The instruction set in use. The environment variable SKEEP_ISA=portable|avx2|avx512|neon, read at the first call,
 * limits it. When the machine does not have that set, the best one below is used; any other value is ignored. To be
 * sure that a limit is in force, compare the result.
 * How products of few tokens read weights follows from the processor; results do not depend on it. The environment variable
 * SKEEP_MACHINE=ahead=BYTES,panels=1|2,feed=avx2|avx512,stored=avx2|avx512 (any of these words), read at the first product,
 * overrides it: how far weights in feed order are prefetched, how many of their panels are read side by side, and the
 * instruction set for one token, in feed order and as stored. Any other value is ignored. */
SKEEP_API uint32_t skeep_isa(void);
SKEEP_API const char *skeep_isa_name(uint32_t isa);
SKEEP_API const char *skeep_op_name(uint32_t op);

/* ---- process-wide ------------------------------------------------------------------------------------------------ */

/* Installs a SIGBUS handler that turns a fault of an operation on mapped bytes into SKEEP_ERR_FAULT. It runs on the
 * alternate stack (SA_ONSTACK) and passes every other SIGBUS on to the handler that was installed before it. The Go
 * package calls this function for every mapped storage; other hosts call it when they want it.
 *
 * Calling it again while its handler is the installed one changes nothing. When the host has installed another handler
 * since, skeep's is installed on top again and the host's becomes the previous one; ERR_MEMORY after 16 such changes.
 *
 * Rules for a handler that the host installs later: for signals that are not its own it calls the handler it found,
 * with the signal, info and context it got. It may have any flags and block any signals: skeep's handler may leave by a
 * jump, and then restores the signal mask that the thread had at the fault. The previous handler, too, may call the
 * handler that it found, or jump. When one host handler is both above and below skeep's, so that they would call each
 * other forever, the signal goes on to an older handler.
 *
 * A thread may block SIGBUS: operations unblock it while they run. The mask is read by a thread's first operation of a
 * step and by each call without a step. So a thread that began a step with SIGBUS unblocked must not block it before
 * the step ends. */
SKEEP_API skeep_status skeep_fault_guard_install(void);

/* Counters of the open storages of the process. NULL is allowed. */
typedef struct skeep_counters {
  uint64_t storages;
  uint64_t heap_bytes, offheap_bytes, mapped_bytes;
  uint64_t slots; /* ever made, not only those in use */
} skeep_counters;
SKEEP_API void skeep_counters_read(skeep_counters *out);

#ifdef __cplusplus
}
#endif
#endif
