/* skeep.h - the public ABI of the skeep compute core.
 *
 * One logical tensor, many physical forms: a skeep_view says which bytes (data, bytes, cell), what
 * they mean (dtype, encoding) and how a logical index reaches them (layout). Every operation takes
 * views, checks all of them, and either runs right or is refused by name.
 *
 * Conventions, valid for every function below:
 *  - A call returns skeep_status by value. On failure no output byte has been written unless the
 *    function says otherwise, and `operand` is the position of the offending view in the argument
 *    list (0 = the first view), or -1.
 *  - No call aborts, prints, sets errno, reads the environment (but SKEEP_ISA, once) or changes the locale. Operations do
 *    not allocate; their scratch belongs to the pool and is sized when the pool is made.
 *  - A call takes less than 16 KiB of its caller's stack.
 *  - Floats are computed under one control, whatever the calling thread's or that of the thread that made the pool is:
 *    rounded to nearest, no exception trapping, subnormal numbers kept (but in products). The caller has its own
 *    rounding, traps and treatment of subnormals again when a call returns, with any status; which exception flags are
 *    raised then is not specified.
 *  - Counts are size_t, strides and extents int64_t, addresses in structs uint64_t, so that all
 *    structs are the same on every supported platform (linux on amd64 and arm64).
 *  - Functions are safe to call from any thread unless said otherwise; a skeep_step belongs to one
 *    thread at a time. Outputs must not overlap inputs unless the operation says "in place".
 *  - Reserved fields must be zero. Extents of operands are > 0, their product below 2^63. Operands are row major, with
 *    stride 1 on their last axis and any stride >= 0 on the others, unless said otherwise: weights of products may have
 *    any order that has a kernel; index data, tables and what is converted, encoded or prepacked any stride (and order);
 *    rows of x and y in products are evenly spaced. Another layout is SKEEP_ERR_LAYOUT. Strides of axes of one cell are
 *    not looked at (but for those of ROW_PANEL, which tell the plane). No output overlaps itself.
 *  - After SKEEP_ERR_FAULT and SKEEP_ERR_CHANGED the outputs are unspecified. A file that changed without a fault
 *    (cut within its last page, it reads as zeros there) is reported by skeep_step_end, and by every call without a
 *    step, skeep_get included, once it has read: one fstat for each mapped operand.
 *  - Index data (ids, positions, sequences) that another thread writes during a call do no harm: each index is used as
 *    it was checked, or the call is SKEEP_ERR_INDEX and the outputs are unspecified.
 *  - A parameter that is not finite, or out of the range that is stated, is SKEEP_ERR_ARGUMENT without an operand; detail
 *    is its position in the argument list. Where the operation takes a struct of parameters (rope, attend), detail is the
 *    field's byte offset in it; only an absent pool (0) and a step that has not begun (1) come before the struct is read.
 *  - Lists of views are arrays of `const skeep_view *`.
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

/* The ABI of this header: major in the upper 16 bits (changes break), minor in the lower. */
#define SKEEP_ABI_VERSION 0x00010001u
SKEEP_API uint32_t skeep_abi_version(void);

/* ---- status ------------------------------------------------------------------------------- */

/* The outcome of a call. code is one of SKEEP_OK and SKEEP_ERR_*; operand the argument position of
 * the view that caused it, or -1; detail belongs to the code (see each). */
typedef struct skeep_status {
  int32_t code;
  int32_t operand;
  uint64_t detail;
} skeep_status;

#define SKEEP_OK 0
#define SKEEP_ERR_CLOSED 1    /* the storage or mark behind a view or handle was closed; detail: storage id */
#define SKEEP_ERR_BUSY 2      /* pins are held by somebody else; detail: how many */
#define SKEEP_ERR_ARGUMENT 3  /* a NULL, a reserved field that is not zero, a parameter out of range; detail: with \
                                 an operand the byte offset of the field in skeep_view, else the parameter's position */
#define SKEEP_ERR_BOUNDS 4    /* the layout (or range) reaches outside the bytes; detail: bytes it would need */
#define SKEEP_ERR_SHAPE 5     /* extents or rank do not fit the operation; detail: axis */
#define SKEEP_ERR_FORMAT 6    /* encoding unknown, or not accepted here; detail: encoding. A dtype or block that is not \
                                 the encoding's is ERR_ARGUMENT */
#define SKEEP_ERR_LAYOUT 7    /* strides, block axis or order not accepted here; detail: axis */
#define SKEEP_ERR_NO_KERNEL 8 /* no row of the kernel table fits; detail: encoding << 32 | op */
#define SKEEP_ERR_MEMORY 9    /* out of memory, slots or scratch; detail: bytes asked for. With an operand, a step is full; detail: \
                                 how many storages and marks it can pin */
#define SKEEP_ERR_IO 10       /* a system call failed; detail: errno value */
#define SKEEP_ERR_FAULT 11    /* a mapped page could not be read (file truncated, I/O error); detail: address, operand: \
                                 the one whose bytes hold it */
#define SKEEP_ERR_CHANGED 12  /* a mapped file changed size or time since it was mapped; detail: storage id, operand: \
                                 of a step's the one that read it first */
#define SKEEP_ERR_OVERLAP 13  /* an output overlaps itself or another operand; detail: position of that operand. Between \
                                 operands what counts is the range from the first byte reached to the last */
#define SKEEP_ERR_INDEX 14    /* index data (token id, position, sequence) out of range; detail: its flat position */
#define SKEEP_ERR_READONLY 15 /* an output lies in a read-only storage; detail: storage id */
#define SKEEP_ERR_VALUE 16    /* an element that the output's format cannot hold, or the operation not take; detail: its \
                                 flat position */

/* Writes the English sentence for s into text (at most size bytes, always terminated when size > 0), with the names of
 * storages as they are at this time. Returns the length of the whole sentence. */
SKEEP_API size_t skeep_status_text(skeep_status s, char *text, size_t size);

/* ---- formats ------------------------------------------------------------------------------- */

/* What an element logically is. Packed weights are logically F32; the encoding never replaces it.
 * Numbers follow GGUF where GGUF has the type. */
#define SKEEP_F32 0
#define SKEEP_F16 1
#define SKEEP_I8 24
#define SKEEP_I16 25
#define SKEEP_I32 26
#define SKEEP_I64 27
#define SKEEP_F64 28
#define SKEEP_BF16 30

/* Encodings are named by their GGUF type id (encodings.def is the list; dense ones have the id of their
 * element type). Ids from 256 on exist in memory only: */
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
/* A8 holds activations: 128 elements = 4 x f32 scale (one per 32), 8 x i16 sum of codes (one per 16), 128 x i8 code in
 * [-127, 127]; rows are padded with zero codes. */

/* Facts of one encoding. */
typedef struct skeep_encoding_info {
  uint32_t id;
  uint32_t dtype;          /* logical element type */
  uint32_t block_elements; /* 1 = dense; 0 = unknown or retired, cannot be read */
  uint32_t block_bytes;
  uint32_t flags; /* SKEEP_ENC_* flags below */
  uint32_t reserved;
  const char *name; /* as GGUF spells it, e.g. "Q4_K"; static */
} skeep_encoding_info;
#define SKEEP_ENC_FLAG_RETIRED 1u    /* the id is no longer in use; its size is unknown */
#define SKEEP_ENC_FLAG_ACTIVATION 2u /* made for activations; not a weight format */
#define SKEEP_ENC_FLAG_INTEGER 4u    /* elements are integers: read with skeep_get_i64 */

/* Number of rows in the encoding table, and one row. ERR_ARGUMENT past the end. */
SKEEP_API size_t skeep_encoding_count(void);
SKEEP_API skeep_status skeep_encoding_at(size_t row, skeep_encoding_info *info);

/* ---- layout and view ------------------------------------------------------------------------ */

/* The order of the blocks of a matrix plane; part of selection and of every cache key. */
typedef struct skeep_order {
  uint8_t family;     /* SKEEP_ORDER_* */
  uint8_t panel;      /* rows per panel P for ROW_PANEL, else 0 */
  uint8_t interleave; /* bytes interleaved among the P blocks of a cell column; 0 = blocks whole */
  uint8_t version;    /* of the interleave; 0 for whole blocks */
} skeep_order;
#define SKEEP_ORDER_ROW_MAJOR 0         /* cell (o, b) at o*bpr + b: what a GGUF file holds */
#define SKEEP_ORDER_INPUT_BLOCK_MAJOR 1 /* cell (o, b) at b*out + o */
#define SKEEP_ORDER_ROW_PANEL 2         /* cell (o, b) at (o/P)*P*bpr + b*P + o%P; the last out%P rows RowMajor */

/* How a logical index reaches a physical position. Strides and offset count elements when block is
 * 1, else blocks. Extents count elements always. Unused axes have extent 1 and stride 0.
 *
 * With block > 1, block_axis is the axis along which blocks run; its extent is a multiple of block
 * (A8 excepted: rounded up). For ROW_MAJOR and INPUT_BLOCK_MAJOR the position of (i0..i3) is
 * offset + sum(stride[a] * (a == block_axis ? i/block : i)). For ROW_PANEL, row_axis names the axis
 * of rows o, stride[row_axis] is bpr (blocks per row of the plane as a whole) and
 * stride[block_axis] is P: rows below out - out%P lie in panels, the rest behind them RowMajor. */
typedef struct skeep_layout {
  int64_t shape[4];
  int64_t stride[4];
  int64_t offset;
  uint32_t block;    /* elements per block, as the encoding says; 1 = dense */
  uint8_t rank;      /* 0..4 */
  int8_t block_axis; /* -1 when dense */
  int8_t row_axis;   /* -1 unless ROW_PANEL or INPUT_BLOCK_MAJOR */
  uint8_t reserved;
  skeep_order order;
  uint32_t reserved2;
} skeep_layout;

/* A tensor as a kernel sees it. A plain value: copy it freely, it owns nothing.
 * cell and generation are written by skeep_view_of (and by nobody else): a view is live while its
 * cell holds its generation; after a close every operation refuses it with SKEEP_ERR_CLOSED before
 * a byte is touched. data may have any alignment; bytes bounds everything reachable from it. */
typedef struct skeep_view {
  uint64_t data;       /* address of the tensor's first byte; layout.offset counts from here */
  uint64_t bytes;      /* how many bytes from data belong to the tensor's alias */
  uint64_t cell;       /* address of the liveness slot */
  uint64_t generation; /* of that slot when the view was made */
  uint64_t storage;    /* id of the root storage, for messages */
  uint32_t value;      /* value number given by the caller (tapes, traces); not interpreted */
  uint16_t dtype;      /* SKEEP_F32 ... */
  uint16_t encoding;   /* GGUF type id or SKEEP_ENC_* */
  skeep_layout layout;
  uint64_t reserved[3];
} skeep_view;

/* ---- storage: whose bytes, until when -------------------------------------------------------- */

/* Names one slot of the type-stable slab: a storage (root), an open mark of one, or a pin. A plain value;
 * using it after the close is always SKEEP_ERR_CLOSED, also when the slot serves somebody else.
 *
 * The rule of lifetimes:
 *  - Pins keep bytes. Every operation pins what its views read, a step does so once for all of its operations (until
 *    it ends), and skeep_pin is one pin more. What is pinned through a mark counts on the mark and on its root.
 *  - A close invalidates at once and returns, wherever it is called, inside of a step that uses the storage too. The
 *    last unpin (the closer's own, when there is no pin) frees. Who must know when asks skeep_storage_left.
 *  - Release, renewal and reset of marks invalidate at once too, and then wait, since their bytes serve somebody else
 *    next: for the pins that were taken through the marks that end, and for no other. Pins on the root and on other
 *    marks do not concern them.
 *  - What a step holds itself is not waited for when the step is handed in: it gives its pins on marks back right
 *    there, and its next operation takes anew those that it needs. So two threads that end their own marks inside of
 *    their own steps never wait for each other. A step that is not handed in is waited for like anybody else's: a
 *    release inside of it, of what it uses, never returns. The same holds for pins of skeep_pin.
 *
 * After fork, the child has memory of its own and the one thread that forked. It may use, close and make storages,
 * marks, pins and steps, while other threads of the parent did whatever they did: no lock stays locked. Pins that those
 * threads held at that moment are never given back in the child: a storage closed there keeps its bytes until the
 * child's end, and a mark with such pins must not be released, renewed or reset. Pools have no workers there: the
 * child makes its own. Mapped and borrowed bytes are those of the parent as far as their memory is shared. */
typedef struct skeep_storage {
  uint64_t cell;
  uint64_t generation;
} skeep_storage;

#define SKEEP_DOMAIN_HEAP 0    /* the host's managed memory, pinned by the host until close */
#define SKEEP_DOMAIN_OFFHEAP 1 /* allocated here: 64-byte aligned, huge pages advised when large */
#define SKEEP_DOMAIN_MAPPED 2  /* pages of a file, read-only */
#define SKEEP_DOMAIN_DEVICE 3  /* named only: every call answers SKEEP_ERR_NO_KERNEL */

typedef struct skeep_storage_info {
  uint64_t address;
  uint64_t bytes;
  uint64_t id;       /* never reused in a process */
  uint64_t pins;     /* at the time of the call: all of a root, those through it of a mark */
  uint32_t domain;   /* SKEEP_DOMAIN_* */
  uint32_t readonly; /* 1 when kernels may not write */
  uint32_t is_mark;
  uint32_t reserved;
} skeep_storage_info;

/* Allocates bytes (> 0) of zeroed off-heap memory, aligned to alignment (a power of two, at most 2 MiB;
 * 0 = 64). The storage owns it; it is freed once, by close. ERR_MEMORY when there is none. */
SKEEP_API skeep_status skeep_storage_allocate(uint64_t bytes, uint64_t alignment, skeep_storage *out);
/* Borrows bytes the caller owns and keeps in place until the storage is closed and the last pin is gone (until release
 * runs); they are never freed here. domain is HEAP or OFFHEAP; readonly != 0 forbids it as an output.
 * release (or NULL) runs once, with arg, when the storage is closed and the last pin is gone, on whichever
 * thread did that; it must not call back into the same storage. */
SKEEP_API skeep_status skeep_storage_borrow(void *address, uint64_t bytes, uint32_t domain, uint32_t readonly,
                                            void (*release)(void *arg), void *arg, skeep_storage *out);
/* Maps length bytes of fd from offset (any value) read-only and shared. Keeps a duplicate of fd for
 * later size checks; the caller may close its own. A range past the end of the file is ERR_BOUNDS.
 * If the file is truncated later, operations return ERR_FAULT or ERR_CHANGED; the process survives
 * when skeep_fault_guard_install has been called. */
SKEEP_API skeep_status skeep_storage_map(int fd, uint64_t offset, uint64_t length, skeep_storage *out);
/* Facts of an open storage or mark. */
SKEEP_API skeep_status skeep_storage_info_of(skeep_storage s, skeep_storage_info *info);
/* Gives an open root a name for messages, such as its file's path: the bytes of name up to its end, copied; of one
 * with more than 255 bytes the last ones, behind "...". NULL takes the name away. */
SKEEP_API skeep_status skeep_storage_set_name(skeep_storage s, const char *name);
/* Writes the name of the storage with this id (of a view, or the detail of a status) into text: at most size bytes,
 * always terminated when size > 0. Returns the length of the whole name; 0 without one. A closed storage's name stays
 * known until its slot serves another. Looks through all storages: for messages. */
SKEEP_API size_t skeep_storage_name(uint64_t id, char *text, size_t size);
/* ERR_CHANGED when the mapped file's size or modification time is no longer what it was at the map. */
SKEEP_API skeep_status skeep_storage_verify(skeep_storage s);
/* Advises the kernel about a byte range of a mapped storage. */
SKEEP_API skeep_status skeep_storage_advise(skeep_storage s, uint64_t byte, uint64_t length, uint32_t advice);
#define SKEEP_ADVICE_NORMAL 0
#define SKEEP_ADVICE_SEQUENTIAL 1
#define SKEEP_ADVICE_WILLNEED 2
#define SKEEP_ADVICE_DONTNEED 3
/* Bytes of a mapped storage that are in memory now (mincore). */
SKEEP_API skeep_status skeep_storage_resident(skeep_storage s, uint64_t *bytes);

/* Closes a root: invalidates every view of it and of its marks and returns. What it owns is freed by the last unpin,
 * or right here when there is none. step (or NULL) gives its own pins on the root and its marks back here instead of
 * at its end. ERR_CLOSED on a second close. */
typedef struct skeep_step skeep_step;
SKEEP_API skeep_status skeep_storage_close(skeep_storage s, skeep_step *step);
/* As close, but answers ERR_BUSY (and changes nothing) when somebody other than step holds pins. */
SKEEP_API skeep_status skeep_storage_try_close(skeep_storage s, skeep_step *step);
/* For who waits after a close: OK and the pins that keep the bytes of a closed root, ERR_CLOSED once they are given
 * back (release has run). ERR_ARGUMENT for an open one. */
SKEEP_API skeep_status skeep_storage_left(skeep_storage s, uint64_t *pins);

/* Opens a mark on a root: views made with it die when it is released. Marks nest. */
SKEEP_API skeep_status skeep_mark_open(skeep_storage root, skeep_storage *mark);
/* Releases a mark and those opened after it on the same root; waits for pins taken through them by others than step. */
SKEEP_API skeep_status skeep_mark_release(skeep_storage mark, skeep_step *step);
/* Invalidates the views of a mark and releases the marks inside it, but keeps it open: *mark gets the new
 * generation, the slot stays. Waits as release does. What a scope does once per step. ERR_CLOSED when somebody else
 * closed the mark meanwhile. */
SKEEP_API skeep_status skeep_mark_renew(skeep_storage *mark, skeep_step *step);
/* Releases all open marks of a root. Views made with the root itself stay valid, and are not waited for. */
SKEEP_API skeep_status skeep_storage_reset(skeep_storage root, skeep_step *step);

/* Takes one pin on a storage or mark: while it is held, the bytes stay. *pin goes to skeep_unpin exactly once, also
 * after the close, and is good for nothing else. Each pin takes a slot; ERR_MEMORY when there is none. */
SKEEP_API skeep_status skeep_pin(skeep_storage s, skeep_storage *pin);
/* Ends a pin. A second time is ERR_CLOSED; what skeep_pin did not make (a storage, a mark) is ERR_ARGUMENT. Both change
 * nothing: no other pin, and none of an operation or a step, can be taken away. */
SKEEP_API skeep_status skeep_unpin(skeep_storage pin);

/* Makes a dense, gap-free ROW_MAJOR view of shape[rank] elements that starts at byte `byte` of s. The
 * last axis is the block axis of a packed encoding. Arrange another layout by editing view->layout. */
SKEEP_API skeep_status skeep_view_of(skeep_storage s, uint64_t byte, uint32_t encoding, uint32_t rank,
                                     const int64_t *shape, skeep_view *view);
/* Everything an operation checks of one operand: liveness, fields, format, layout, bounds. */
SKEEP_API skeep_status skeep_view_check(const skeep_view *view);
/* Bytes that a gap-free tensor of this encoding and shape takes; ERR_BOUNDS when it overflows. */
SKEEP_API skeep_status skeep_bytes_of(uint32_t encoding, uint32_t rank, const int64_t *shape, uint64_t *bytes);

/* Installs a SIGBUS handler (SA_ONSTACK, chained to the previous one) that turns a fault of an operation on mapped
 * bytes into SKEEP_ERR_FAULT. Called again, it changes nothing while this handler is the installed one; when the host
 * has installed another since, this one goes on top again and the host's becomes the previous one. ERR_MEMORY after 16
 * such changes. The Go package calls it at every mapped storage; other hosts opt in.
 * A handler of the host above this one calls what it found when it was installed, with the signal, info and context it
 * got. Its flags and what it blocks are its own affair: this one may leave it by a jump, and gives the thread the mask
 * it had at the fault. What is not a fault of an operation goes on to the previous handler, which may itself call what
 * it found, or jump. One that has this one below and above itself is served by an older one when it calls it.
 * A thread may block SIGBUS: operations open it while they run. The mask is read at a thread's first operation of a
 * step and at each call without one, so a thread that began a step with SIGBUS open must not block it before the
 * end. */
SKEEP_API skeep_status skeep_fault_guard_install(void);

/* Process-wide counters of live storages. NULL is fine. */
typedef struct skeep_counters {
  uint64_t storages;
  uint64_t heap_bytes, offheap_bytes, mapped_bytes;
  uint64_t slots; /* ever made */
} skeep_counters;
SKEEP_API void skeep_counters_read(skeep_counters *out);

/* ---- pool and step ---------------------------------------------------------------------------- */

/* Persistent workers and the scratch of their operations. One region runs at a time; a second caller
 * runs its own inline on the spare scratch set, further callers wait. */
typedef struct skeep_pool skeep_pool;
/* threads counts the caller; 0 = the processors this thread may run on. scratch is bytes per thread (0 = 1 MiB).
 * Of more threads than processors only as many work at one region as there are processors, and they sleep between
 * regions instead of watching for the next: such a pool is about as fast as one of the right size, never faster. */
SKEEP_API skeep_status skeep_pool_create(uint32_t threads, uint64_t scratch, skeep_pool **out);
SKEEP_API uint32_t skeep_pool_threads(const skeep_pool *pool);
/* Waits for the operations that have begun, ends the workers and frees. No operation may begin on the pool any more.
 * NULL is fine. */
SKEEP_API void skeep_pool_destroy(skeep_pool *pool);

/* A step groups operations: it pins each root and mark once, keeps the first error (later operations return
 * it and do nothing), and holds a frame of descriptors in C memory for hosts with a managed heap. */
/* frame_views: descriptors in the frame; roots: how many storages and marks one step can pin (0 = 64); one more is
 * ERR_MEMORY. Operations with this step outside of begin and end are ERR_ARGUMENT. */
SKEEP_API skeep_status skeep_step_create(uint32_t frame_views, uint32_t roots, skeep_step **out);
SKEEP_API skeep_view *skeep_step_frame(skeep_step *step);
SKEEP_API skeep_status skeep_step_begin(skeep_step *step);
/* Unpins, checks every mapped root for change, returns the first error of the step; a change also in place of an error
 * of data (SKEEP_ERR_VALUE, SKEEP_ERR_INDEX). A change names the operation (see skeep_step_status) and operand that
 * first read the file in this step. */
SKEEP_API skeep_status skeep_step_end(skeep_step *step);
/* The first error so far; *op (or NULL) gets the ordinal of the operation that caused it, from 0. */
SKEEP_API skeep_status skeep_step_status(const skeep_step *step, uint64_t *op);
SKEEP_API void skeep_step_destroy(skeep_step *step);

/* ---- selection -------------------------------------------------------------------------------- */

/* Operations; the numbers are stable. Operand positions are those of the function of the same name. */
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

/* One row of the kernel table (kernels.def). All rows are listed, also those this machine cannot run. */
typedef struct skeep_kernel_info {
  uint32_t op;
  uint32_t isa;
  uint16_t encoding;   /* of the weight, table or source; 0xffff = any that decodes */
  uint16_t activation; /* of the other input: SKEEP_F32, SKEEP_ENC_A8, ...; 0xffff = not applicable */
  skeep_order order;
  uint32_t runnable; /* 1 when this machine (and SKEEP_ISA) can run it */
  uint32_t reserved;
  const char *name; /* e.g. "skeep_matmul_t_q4_0_avx2"; static */
} skeep_kernel_info;
SKEEP_API size_t skeep_kernel_count(void);
SKEEP_API skeep_status skeep_kernel_at(size_t row, skeep_kernel_info *info);
/* The row that op would run on these operands (in the operation's order; absent ones NULL; those behind the ones
 * that a row is chosen by may be left out), or
 * ERR_NO_KERNEL / ERR_LAYOUT / ERR_FORMAT naming the operand that lacks something. CONVERT and EMBED answer with
 * the DECODE row that does their work; each weight of PROJECT selects as that of MATMUL_T, and the answer is the row of
 * the first. Operations without rows (PREPACK) are ERR_ARGUMENT. Touches no payload. */
SKEEP_API skeep_status skeep_select(uint32_t op, const skeep_view *const *operands, uint32_t count, uint32_t *row);
/* The instruction set in force. SKEEP_ISA=portable|avx2|avx512|neon (read once, at the first call) limits it; what
 * the machine lacks falls back to the best below it, and any other word is as if unset: compare the answer. */
SKEEP_API uint32_t skeep_isa(void);
SKEEP_API const char *skeep_isa_name(uint32_t isa);
SKEEP_API const char *skeep_op_name(uint32_t op);

/* ---- reference --------------------------------------------------------------------------------- */

/* The decoded logical value at index[rank], in any format and layout; integers and floats alike. An index outside of
 * its extent is ERR_INDEX, detail: the axis. */
SKEEP_API skeep_status skeep_get(const skeep_view *view, const int64_t *index, double *value);
/* As skeep_get for integer formats, exact for all of int64; ERR_FORMAT for others. */
SKEEP_API skeep_status skeep_get_i64(const skeep_view *view, const int64_t *index, int64_t *value);
/* y = x * transpose(w) through skeep_get in float64: right for every format and layout, slow.
 * magnitude (or NULL) gets the sum of |terms| of each element, for error bounds. All of y is F32. */
SKEEP_API skeep_status skeep_reference_matmul_t(const skeep_view *x, const skeep_view *w, const skeep_view *y,
                                                const skeep_view *magnitude);

/* ---- operations --------------------------------------------------------------------------------
 * pool: required. step: pins and first error, or NULL (then each call pins its operands itself).
 * T = tokens (rows of the step). Floating outputs are F32 unless said otherwise. */

/* generated: operations */
/* y[...] = x[...] decoded / converted between dense types, any layout of x; y of the same shape is F32, F16 or
 * BF16, or has x's own dense format (then bits are copied). The only copy: what Materialize runs. Rounds once, to
 * nearest even; overflow becomes infinity. */
SKEEP_API skeep_status skeep_convert(skeep_pool *pool, skeep_step *step, const skeep_view *x, const skeep_view *y);
/* y = x in y's format, which has an encode row: F32, F16, BF16 or packed. x is floating, in any format and layout,
 * and is decoded on the way; the blocks of both run along the same axis. Dense formats round to nearest even; the
 * plain packed ones (Q4_0 Q4_1 Q5_0 Q5_1 Q8_0) are those of their reference, and the others take the blocks of least
 * squared error that their search finds. The bits do not depend on threads or instruction set. An element that is
 * not finite, or whose block would not be, is ERR_VALUE on x, the first in logical order; y is unspecified then. */
SKEEP_API skeep_status skeep_encode(skeep_pool *pool, skeep_step *step, const skeep_view *x, const skeep_view *y);
/* y = the same blocks as x in y's order (same encoding and shape; a bijection of bytes). */
SKEEP_API skeep_status skeep_prepack(skeep_pool *pool, skeep_step *step, const skeep_view *x, const skeep_view *y);
/* y[T, n] in A8 = x[T, n] F32, each group of 32 scaled by its largest magnitude / 127, codes rounded to
 * nearest even; NaN or infinity makes the group's scale NaN, a largest magnitude below 2^-119 counts as 0. */
SKEEP_API skeep_status skeep_quantize_rows(skeep_pool *pool, skeep_step *step, const skeep_view *x,
                                           const skeep_view *y);
/* y[T, out] = x[T, in] * transpose(w[out, in]). x in A8 takes the integer row of the table, x in F32 the
 * exact one. Sums of one output element are taken in a fixed order: no result depends on threads. Subnormal floats
 * (below 2^-126), given or arising, count as zero; no thread's floating-point control is changed by that. */
SKEEP_API skeep_status skeep_matmul_t(skeep_pool *pool, skeep_step *step, const skeep_view *x, const skeep_view *w,
                                      const skeep_view *y);
/* 1 to 3 products that share one input, in one parallel region: y[i] = x * transpose(w[i]) + bias[i] for
 * i < count; bias (or its entries) may be NULL, each is F32 [out_i]. When one weight has no row for x's
 * encoding, nothing runs. Operand positions: x = 0, w = 1..count, bias = count+1.., y = 2*count+1.. */
SKEEP_API skeep_status skeep_project(skeep_pool *pool, skeep_step *step, const skeep_view *x, uint32_t count,
                                     const skeep_view *const *w, const skeep_view *const *bias,
                                     const skeep_view *const *y);
/* y[T, n] = scale * table[ids[T], n] decoded. ids I32 in [0, table rows). The scale is finite. */
SKEEP_API skeep_status skeep_embed(skeep_pool *pool, skeep_step *step, const skeep_view *table, const skeep_view *ids,
                                   float scale, const skeep_view *y);
/* s = x + before; y = s / sqrt(mean(s^2) + eps) * w + after, along the last axis of x (any rank; w is
 * [n], F32). before, after and sum may be NULL (absent). In place: sum may be x or before; y may be x, before
 * or after. eps >= 0. s is rounded to F32, the rest once more at its end: rows of any magnitude, subnormal ones too, and
 * any eps are as exact as others. 0 / 0 is NaN. */
SKEEP_API skeep_status skeep_norm(skeep_pool *pool, skeep_step *step, const skeep_view *x, const skeep_view *before,
                                  const skeep_view *w, const skeep_view *after, float eps, const skeep_view *sum,
                                  const skeep_view *y);

/* Which elements of a head form a rotated pair. */
#define SKEEP_ROPE_NORMAL 0 /* pairs (2i, 2i+1) */
#define SKEEP_ROPE_NEOX 1   /* pairs (i, i + dims/2) */

/* The constants of a rotary position embedding (Su et al. 2021) with linear and YaRN scaling (Peng et al. 2023). */
typedef struct skeep_rope_params {
  uint32_t form;             /* SKEEP_ROPE_*: which elements form a pair */
  uint32_t dims;             /* leading elements of each head that rotate; even, <= head_dim */
  float base;                /* theta_i = base^(-2i/dims) */
  float scale;               /* angle factor: 1 / context scaling */
  float ext_factor;          /* 0 = linear only, 1 = full YaRN mix */
  float attn_factor;         /* magnitude factor of cos and sin, 1 without YaRN */
  float beta_fast;           /* YaRN: turns within the original context from which on a pair keeps its angles */
  float beta_slow;           /* YaRN: turns up to which a pair is scaled in full */
  uint32_t original_context; /* YaRN: positions before scaling */
  uint32_t reserved;         /* zero */
} skeep_rope_params;
/* y = x rotated; x, y [T, heads, head_dim] F32 (y may be x); positions [T] I32 >= 0; factors F32 [dims/2] or NULL.
 * Pair i turns by position * ((1 - r_i)*scale + r_i) * base^(-2i/dims) / factors[i], formed in double; r_i =
 * ext_factor * ramp(i; beta_fast, beta_slow, original_context). cos and sin are multiplied by attn_factor and by
 * nothing else; a result within F32 is right also where its two products are not. Elements from dims on are copied.
 * From one position to the next no pair may turn by more than 2048 radians: a base, scale or ext_factor that makes it
 * is ERR_ARGUMENT, a factor ERR_VALUE on factors. A position that takes an angle to 2^31 is ERR_INDEX. */
SKEEP_API skeep_status skeep_rope(skeep_pool *pool, skeep_step *step, const skeep_view *x, const skeep_view *positions,
                                  const skeep_view *factors, skeep_rope_params params, const skeep_view *y);
/* Stores k, v [T, kv_heads, head_dim] F32 into the caches [sequences, kv_heads, capacity, head_dim] (F32, F16 or
 * BF16) at slot position mod capacity of each row's sequence (NULL: all 0). A negative position, a sequence
 * out of range, or two rows with the same sequence and slot are ERR_INDEX before anything is written. A finite
 * element that the caches' encoding rounds to infinity (in F16 from 65520 on) is ERR_VALUE on k or v, the first in
 * logical order; the slots of these rows are unspecified then. Infinite and undefined elements are stored as they are.
 * The two caches have one encoding; the head_dim of values may be another than that of keys. */
SKEEP_API skeep_status skeep_kv_store(skeep_pool *pool, skeep_step *step, const skeep_view *k, const skeep_view *v,
                                      const skeep_view *positions, const skeep_view *sequences,
                                      const skeep_view *k_cache, const skeep_view *v_cache);

/* The constants of an attention. */
typedef struct skeep_attend_params {
  float scale;       /* of q.k, e.g. 1/sqrt(head_dim) */
  float softcap;     /* c > 0: scores become c * tanh(score / c); 0 = none */
  uint32_t window;   /* position p sees max(0, p - window + 1) .. p; 0 = all */
  uint32_t reserved; /* zero */
} skeep_attend_params;
/* y[T, heads, head_dim] = softmax(q.K) V for q [T, heads, head_dim] over the caches; heads is a multiple of
 * kv_heads and head h reads KV head h / (heads / kv_heads). What each row sees follows from its position
 * alone; positions of the step are stored already. In slot s, row p finds position q = p - ((p - s) mod
 * capacity) and sees it when q >= max(0, p - window + 1). One streaming pass (Milakov & Gimelshein 2018).
 * Let m be the largest position of a row's sequence in this call: a row that would need a position
 * <= m - capacity, which is overwritten, is ERR_SHAPE on k_cache before any output. A row whose scores are all -inf is
 * NaN, and so is one with a score (or q.k under a scale of 2^-40 or more) above the range of F32; below it they weigh 0.
 * The mean of finite values is finite, also where their sum is beyond F32. A row's bits depend neither on the other rows
 * of the call nor on the number of threads; y's head_dim is that of the values. */
SKEEP_API skeep_status skeep_attend(skeep_pool *pool, skeep_step *step, const skeep_view *q, const skeep_view *k_cache,
                                    const skeep_view *v_cache, const skeep_view *positions, const skeep_view *sequences,
                                    skeep_attend_params params, const skeep_view *y);

/* Which function gates. */
#define SKEEP_GLU_SILU 0      /* SwiGLU */
#define SKEEP_GLU_GELU_TANH 1 /* GeGLU, tanh form */
#define SKEEP_GLU_GELU_ERF 2  /* GeGLU, exact form */
#define SKEEP_GLU_RELU 3      /* ReGLU */
/* y = act(gate) * up, elementwise; y may be gate or up. act(-inf) is its limit 0, not the NaN of -inf * 0. */
SKEEP_API skeep_status skeep_glu(skeep_pool *pool, skeep_step *step, const skeep_view *gate, const skeep_view *up,
                                 uint32_t form, const skeep_view *y);
/* y = a + b; b has a's shape or is one row [n] broadcast over the rows of a; y may be a. */
SKEEP_API skeep_status skeep_add(skeep_pool *pool, skeep_step *step, const skeep_view *a, const skeep_view *b,
                                 const skeep_view *y);
/* y = a * b; b has a's shape or is one row [n] broadcast over the rows of a; y may be a. */
SKEEP_API skeep_status skeep_mul(skeep_pool *pool, skeep_step *step, const skeep_view *a, const skeep_view *b,
                                 const skeep_view *y);
/* y = softmax(scale * x) along the last axis; y may be x. A row of nothing but -inf (after the scale) has no
 * distribution: NaN. */
SKEEP_API skeep_status skeep_softmax(skeep_pool *pool, skeep_step *step, const skeep_view *x, float scale,
                                     const skeep_view *y);
/* y = cap * tanh(x / cap); y may be x. */
SKEEP_API skeep_status skeep_softcap(skeep_pool *pool, skeep_step *step, const skeep_view *x, float cap,
                                     const skeep_view *y);
/* end: operations */

#ifdef __cplusplus
}
#endif
#endif
