package core

/*
#include "skeep.h"
#include "memory_slot.h"
#include <stdlib.h>

static skeep_storage handle(uintptr_t cell, uint64_t generation) { return (skeep_storage){cell, generation}; }
static void *pointer(uintptr_t address) { return (void *)address; }
static int live(uintptr_t cell, uint64_t generation) {
  const struct skeep_slot *s = skeep_slot_at(cell);
  return s && skeep_slot_live(s, generation);
}

// Results by value: nothing of Go's memory crosses.
typedef struct { skeep_status status; skeep_storage storage; } made;
static made allocate(uint64_t bytes, uint64_t alignment) {
  made m = {0};
  m.status = skeep_storage_allocate(bytes, alignment, &m.storage);
  return m;
}
static made borrow(void *address, uint64_t bytes, uint32_t domain, uint32_t readonly) {
  made m = {0};
  m.status = skeep_storage_borrow(address, bytes, domain, readonly, NULL, NULL, &m.storage);
  return m;
}
static made map_(int fd, uint64_t offset, uint64_t length) {
  made m = {0};
  m.status = skeep_storage_map(fd, offset, length, &m.storage);
  return m;
}
static made mark_open(skeep_storage root) {
  made m = {0};
  m.status = skeep_mark_open(root, &m.storage);
  return m;
}
static made mark_renew(skeep_storage mark, skeep_step *step) {
  made m = {.storage = mark};
  m.status = skeep_mark_renew(&m.storage, step);
  return m;
}
static made pin(skeep_storage s) {
  made m = {0};
  m.status = skeep_pin(s, &m.storage);
  return m;
}
typedef struct { skeep_status status; uint64_t value; } counted;
static counted left(skeep_storage s) {
  counted c = {0};
  c.status = skeep_storage_left(s, &c.value);
  return c;
}
static counted resident(skeep_storage s) {
  counted c = {0};
  c.status = skeep_storage_resident(s, &c.value);
  return c;
}
typedef struct { skeep_status status; skeep_storage_info info; } informed;
static informed info_of(skeep_storage s) {
  informed i = {0};
  i.status = skeep_storage_info_of(s, &i.info);
  return i;
}
typedef struct { skeep_status status; skeep_view view; } viewed;
static viewed view_of(skeep_storage s, uint64_t byte, uint32_t encoding, uint32_t rank, int64_t a, int64_t b,
                      int64_t c, int64_t d) {
  viewed v = {0};
  v.status = skeep_view_of(s, byte, encoding, rank, (const int64_t[]){a, b, c, d}, &v.view);
  return v;
}
static counted bytes_of(uint32_t encoding, uint32_t rank, int64_t a, int64_t b, int64_t c, int64_t d) {
  counted n = {0};
  n.status = skeep_bytes_of(encoding, rank, (const int64_t[]){a, b, c, d}, &n.value);
  return n;
}
static skeep_counters counters(void) {
  skeep_counters c;
  skeep_counters_read(&c);
  return c;
}
*/
import "C"

import (
	"unsafe"

	"github.com/skeep-project/skeep/go/tensor"
)

// Storage is a handle of the C core: the liveness slot of a storage or of an open mark, and the generation
// it was opened in. A plain value; using it after the close is always ErrClosed.
type Storage struct {
	Cell       uintptr
	Generation uint64
}

func (s Storage) c() C.skeep_storage { return C.handle(C.uintptr_t(s.Cell), C.uint64_t(s.Generation)) }

func madeOf(m C.made) (Storage, Status) {
	return Storage{uintptr(m.storage.cell), uint64(m.storage.generation)}, statusOf(m.status)
}

// The domains that Borrow takes.
const (
	DomainHeap    uint32 = C.SKEEP_DOMAIN_HEAP
	DomainOffHeap uint32 = C.SKEEP_DOMAIN_OFFHEAP
)

// Info is the facts of an open storage or mark.
type Info struct {
	Address  uintptr
	Bytes    uint64
	ID       uint64 // never reused in a process
	Pins     uint64 // at the time of the call: all of a root, those through it of a mark
	Domain   tensor.Domain
	ReadOnly bool
	IsMark   bool
}

// Allocate makes a storage of zeroed memory outside of the Go heap, which Close frees. bytes > 0; alignment
// is a power of two up to 2 MiB, 0 = 64.
func Allocate(bytes, alignment uint64) (Storage, Status) {
	return madeOf(C.allocate(C.uint64_t(bytes), C.uint64_t(alignment)))
}

// Borrow makes a storage of the caller's memory, which must stay in place (Go memory: pinned) until it is closed
// and Left answers ErrClosed. domain is DomainHeap or DomainOffHeap.
func Borrow(memory []byte, domain uint32, readonly bool) (Storage, Status) {
	var ro C.uint32_t
	if readonly {
		ro = 1
	}
	return madeOf(C.borrow(unsafe.Pointer(unsafe.SliceData(memory)), C.uint64_t(len(memory)), C.uint32_t(domain), ro))
}

// Map maps length bytes of an open file from offset on, read-only. The descriptor may be closed afterwards.
func Map(fd int, offset, length uint64) (Storage, Status) {
	return madeOf(C.map_(C.int(fd), C.uint64_t(offset), C.uint64_t(length)))
}

// FaultGuardInstall makes faults of mapped pages inside operations ErrFault, again when somebody else has taken the
// signal over since.
func FaultGuardInstall() Status { return statusOf(C.skeep_fault_guard_install()) }

// InfoOf is the facts of an open storage or mark.
func InfoOf(s Storage) (Info, Status) {
	i := C.info_of(s.c())
	return Info{
		Address: uintptr(i.info.address), Bytes: uint64(i.info.bytes), ID: uint64(i.info.id), Pins: uint64(i.info.pins),
		Domain: tensor.Domain(i.info.domain), ReadOnly: i.info.readonly != 0, IsMark: i.info.is_mark != 0,
	}, statusOf(i.status)
}

// SetName names a root for the messages of the core; name is copied. Of one with more than 255 bytes the last ones stay.
func SetName(s Storage, name string) Status {
	text := C.CString(name)
	st := statusOf(C.skeep_storage_set_name(s.c(), text))
	C.free(unsafe.Pointer(text))
	return st
}

// Name is the name of the storage with that id, of View.Storage or of a Status' Detail. Empty without one; a closed
// storage's is known until its slot serves another.
func Name(id uint64) string {
	var text [256]byte
	n := C.skeep_storage_name(C.uint64_t(id), (*C.char)(unsafe.Pointer(&text[0])), C.size_t(len(text)))
	return string(text[:min(int(n), len(text)-1)])
}

// Live reports whether the slot at cell is open in that generation. A cell that is no slot is not live.
func Live(cell uintptr, generation uint64) bool {
	return C.live(C.uintptr_t(cell), C.uint64_t(generation)) != 0
}

// Verify is ErrChanged when the file behind a mapped storage is no longer what it was.
func Verify(s Storage) Status { return statusOf(C.skeep_storage_verify(s.c())) }

// Advise gives the system advice (SKEEP_ADVICE_*) about a byte range of a mapped storage.
func Advise(s Storage, byte, length uint64, advice uint32) Status {
	return statusOf(C.skeep_storage_advise(s.c(), C.uint64_t(byte), C.uint64_t(length), C.uint32_t(advice)))
}

// Resident is how many bytes of a mapped storage are in memory now.
func Resident(s Storage) (uint64, Status) {
	c := C.resident(s.c())
	return uint64(c.value), statusOf(c.status)
}

// Close ends a root at once; the last unpin frees what it owns. step (which may be nil) gives its own pins back
// here.
func Close(s Storage, step *Step) Status {
	if step.closed() {
		return StepClosed
	}
	return statusOf(C.skeep_storage_close(s.c(), step.ptr()))
}

// TryClose is Close that changes nothing and answers ErrBusy when anybody holds pins.
func TryClose(s Storage) Status { return statusOf(C.skeep_storage_try_close(s.c(), nil)) }

// Left is the pins that keep the bytes of a closed root; ErrClosed once they are given back.
func Left(s Storage) (pins uint64, st Status) {
	c := C.left(s.c())
	return uint64(c.value), statusOf(c.status)
}

// MarkOpen opens a mark on a root, inside of those that are open.
func MarkOpen(root Storage) (Storage, Status) { return madeOf(C.mark_open(root.c())) }

// MarkRelease ends a mark and those inside it and waits for pins that were taken through them; step (which may be
// nil) gives its own back first.
func MarkRelease(mark Storage, step *Step) Status {
	if step.closed() {
		return StepClosed
	}
	return statusOf(C.skeep_mark_release(mark.c(), step.ptr()))
}

// MarkRenew ends the views of a mark and the marks inside it, waits like MarkRelease, and keeps the mark
// open: *mark gets its new generation.
func MarkRenew(mark *Storage, step *Step) (st Status) {
	if step.closed() {
		return StepClosed
	}
	renewed, st := madeOf(C.mark_renew(mark.c(), step.ptr()))
	*mark = renewed
	return st
}

// Reset ends all open marks of a root and waits like MarkRelease.
func Reset(root Storage, step *Step) Status {
	if step.closed() {
		return StepClosed
	}
	return statusOf(C.skeep_storage_reset(root.c(), step.ptr()))
}

// Pin keeps the bytes of a storage or mark until Unpin of the handle that it returns, also beyond a Close.
func Pin(s Storage) (Storage, Status) { return madeOf(C.pin(s.c())) }

// Unpin ends a pin. A second time is ErrClosed, any other handle ErrArgument.
func Unpin(pin Storage) Status { return statusOf(C.skeep_unpin(pin.c())) }

// Memory is n bytes at an address as a slice. The caller answers for their life: a pin, or ownership.
func Memory(address uintptr, n int) []byte {
	return unsafe.Slice((*byte)(C.pointer(C.uintptr_t(address))), n)
}

// ViewOf is a gap-free row-major view of a tensor that starts at a byte of s.
func ViewOf(s Storage, byte uint64, e tensor.Encoding, shape tensor.Shape) (View, Status) {
	d := &shape.Dims
	v := C.view_of(s.c(), C.uint64_t(byte), C.uint32_t(e), C.uint32_t(shape.Rank),
		C.int64_t(d[0]), C.int64_t(d[1]), C.int64_t(d[2]), C.int64_t(d[3]))
	return *(*View)(unsafe.Pointer(&v.view)), statusOf(v.status)
}

// BytesOf is the bytes of a gap-free tensor.
func BytesOf(e tensor.Encoding, shape tensor.Shape) (uint64, Status) {
	d := &shape.Dims
	c := C.bytes_of(C.uint32_t(e), C.uint32_t(shape.Rank),
		C.int64_t(d[0]), C.int64_t(d[1]), C.int64_t(d[2]), C.int64_t(d[3]))
	return uint64(c.value), statusOf(c.status)
}

// Counters are the process-wide counts of live storages.
type Counters struct {
	Storages                          uint64
	HeapBytes, OffHeapBytes, MapBytes uint64
	Slots                             uint64 // ever made
}

// ReadCounters reads them.
func ReadCounters() Counters {
	c := C.counters()
	return Counters{uint64(c.storages), uint64(c.heap_bytes), uint64(c.offheap_bytes), uint64(c.mapped_bytes), uint64(c.slots)}
}
