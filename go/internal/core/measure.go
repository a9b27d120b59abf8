package core

/*
#include "skeep.h"
#include "measure.h"

typedef struct { skeep_status status; double amount, seconds; } measured;
static measured measure_read(skeep_pool *pool, skeep_storage buffer) {
  measured m = {0};
  m.status = skeep_measure_read(pool, buffer, &m.seconds);
  return m;
}
static measured measure_multiply(skeep_pool *pool) {
  measured m = {0};
  m.status = skeep_measure_multiply(pool, &m.amount, &m.seconds);
  return m;
}
*/
import "C"

// MeasureBytes is how large a buffer must be so that reading it again and again reads memory and not caches, bounded by
// half of what is available.
func MeasureBytes(available uint64) uint64 {
	return uint64(C.skeep_measure_bytes(C.uint64_t(available)))
}

// CacheBytes is the size of the largest cache, 0 when unknown.
func CacheBytes() uint64 { return uint64(C.skeep_cache_bytes()) }

// MeasureTouch makes the pages of an allocated storage exist.
func MeasureTouch(p *Pool, buffer Storage) Status {
	pool, st := p.Hold(nil)
	if st.Code != OK {
		return st
	}
	defer p.Release()
	return statusOf(C.skeep_measure_touch((*C.skeep_pool)(pool), buffer.c()))
}

// MeasureRead reads a storage once, each thread of the pool in a sequential stream, and returns the seconds that took.
func MeasureRead(p *Pool, buffer Storage) (seconds float64, st Status) {
	pool, st := p.Hold(nil)
	if st.Code != OK {
		return 0, st
	}
	defer p.Release()
	m := C.measure_read((*C.skeep_pool)(pool), buffer.c())
	return float64(m.seconds), statusOf(m.status)
}

// MeasureMultiply multiplies and adds 8-bit integers in registers for some milliseconds, with the instruction set in
// force, and returns how many operations that were; 0 where products of integers have no instructions of their own.
func MeasureMultiply(p *Pool) (operations, seconds float64, st Status) {
	pool, st := p.Hold(nil)
	if st.Code != OK {
		return 0, 0, st
	}
	defer p.Release()
	m := C.measure_multiply((*C.skeep_pool)(pool))
	return float64(m.amount), float64(m.seconds), statusOf(m.status)
}

// HugeBytes is how many bytes of a storage are in huge pages now, 0 when the system does not say.
func HugeBytes(s Storage) (uint64, Status) {
	i, st := InfoOf(s)
	if st.Code != OK {
		return 0, st
	}
	return uint64(C.skeep_measure_huge(C.uint64_t(i.Address), C.uint64_t(i.Bytes))), st
}

// PoolBytes is the memory that a pool of so many threads takes for scratch.
func PoolBytes(threads int) int64 { return int64(C.skeep_pool_bytes(C.uint32_t(threads), 0)) }
