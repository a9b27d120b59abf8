package tokenizer

import (
	"math/rand/v2"
	"slices"
)

// symbol is a part of a piece: a character or byte at first, a token in the end.
type symbol struct {
	start, n   int32 // bytes of the piece; n = 0 once it is part of the symbol in front of it
	prev, next int32 // neighbors, -1 at the ends
	id         int32 // its token, or None
}

// bigram is a merge of two neighbors that the vocabulary knows.
type bigram struct {
	key uint64 // order of the merge, then the index of the left symbol: the least is merged first
	n   int32  // bytes of both: two neighbors that no longer add up to it have changed
	id  int32  // the token they become
}

// scratch is the memory of one encoding.
type scratch struct {
	symbols []symbol
	queue   []bigram // a heap, the least key at index 0
	escaped []byte   // SentencePiece: the text with ▁ for its spaces
}

// worthKeeping is false after an unusually long text, whose memory nobody may ever need again.
func (sc *scratch) worthKeeping() bool {
	const most = 1 << 16
	return cap(sc.symbols) <= most && cap(sc.queue) <= most && cap(sc.escaped) <= most
}

// maxPiece bounds what is merged at once: positions are 32 bits, and the symbols and the queue take up
// to 40 bytes per byte of a piece.
const maxPiece = 1 << 28

// begin makes room for the symbols of a piece.
func (sc *scratch) begin(piece string) {
	sc.symbols = slices.Grow(sc.symbols[:0], len(piece))
	sc.queue = slices.Grow(sc.queue[:0], len(piece))
}

// add appends a symbol of n bytes behind the last.
func (sc *scratch) add(n int, id int32) {
	i := int32(len(sc.symbols))
	s := symbol{n: int32(n), prev: i - 1, next: i + 1, id: id}
	if i > 0 {
		s.start = sc.symbols[i-1].start + sc.symbols[i-1].n
	}
	sc.symbols = append(sc.symbols, s)
}

// merge joins neighbors, the merge of least order first and of equal ones the leftmost, until none of
// them is known. The symbols of the piece were added; those that remain have n > 0.
func (t *Tokenizer) merge(sc *scratch, piece string) {
	last := len(sc.symbols) - 1
	sc.symbols[last].next = -1
	for i := range last {
		if b, ok := t.bigram(sc, piece, int32(i)); ok {
			sc.queue = append(sc.queue, b)
		}
	}
	for i := len(sc.queue)/2 - 1; i >= 0; i-- {
		sc.sink(i)
	}
	for len(sc.queue) > 0 {
		b := sc.pop()
		i := int32(uint32(b.key))
		left := &sc.symbols[i]
		if left.n == 0 || left.next < 0 || left.n+sc.symbols[left.next].n != b.n {
			continue
		}
		right := &sc.symbols[left.next]
		left.n, left.id, left.next = b.n, b.id, right.next
		right.n = 0
		if left.next >= 0 {
			sc.symbols[left.next].prev = i
			if b, ok := t.bigram(sc, piece, i); ok {
				sc.push(b)
			}
		}
		if left.prev >= 0 {
			if b, ok := t.bigram(sc, piece, left.prev); ok {
				sc.push(b)
			}
		}
	}
}

// bigram is the merge of symbol i with its right neighbor, if the vocabulary has one.
func (t *Tokenizer) bigram(sc *scratch, piece string, i int32) (bigram, bool) {
	left := &sc.symbols[i]
	right := &sc.symbols[left.next]
	var order uint32
	var id int32
	if t.order != nil {
		if id = t.findPlain(piece[left.start : right.start+right.n]); id == None {
			return bigram{}, false
		}
		order = t.order[id]
	} else {
		if left.id == None || right.id == None {
			return bigram{}, false
		}
		p := t.pairs.find(left.id, right.id)
		if p == nil {
			return bigram{}, false
		}
		order, id = p.rank, p.id
	}
	return bigram{key: uint64(order)<<32 | uint64(i), n: left.n + right.n, id: id}, true
}

func (sc *scratch) push(b bigram) {
	sc.queue = append(sc.queue, b)
	i := len(sc.queue) - 1
	for i > 0 {
		up := (i - 1) / 2
		if sc.queue[up].key <= b.key {
			break
		}
		sc.queue[i] = sc.queue[up]
		i = up
	}
	sc.queue[i] = b
}

func (sc *scratch) pop() bigram {
	b := sc.queue[0]
	last := len(sc.queue) - 1
	sc.queue[0] = sc.queue[last]
	sc.queue = sc.queue[:last]
	if last > 0 {
		sc.sink(0)
	}
	return b
}

// sink moves entry i down to its place.
func (sc *scratch) sink(i int) {
	q := sc.queue
	b := q[i]
	for {
		down := 2*i + 1
		if down >= len(q) {
			break
		}
		if down+1 < len(q) && q[down+1].key < q[down].key {
			down++
		}
		if b.key <= q[down].key {
			break
		}
		q[i] = q[down]
		i = down
	}
	q[i] = b
}

// pair is one merge: the two tokens, its rank and the token they become.
type pair struct {
	key  uint64 // left id, right id
	rank uint32 // 0 is no merge: the first has rank 1
	id   int32
}

// pairTable finds merges by their two tokens: open addressing, at most half full. The multiplier is
// drawn at random, so that no file can be made to collide.
type pairTable struct {
	slots      []pair
	multiplier uint64
	shift      uint
}

func newPairTable(n int) pairTable {
	t := pairTable{slots: make([]pair, 2), multiplier: rand.Uint64() | 1, shift: 63}
	for len(t.slots) < 2*n {
		t.slots = make([]pair, 2*len(t.slots))
		t.shift--
	}
	return t
}

// slot is where the merge stands, or the free place where it belongs.
func (t *pairTable) slot(key uint64) *pair {
	i := key * t.multiplier >> t.shift
	for t.slots[i].rank != 0 && t.slots[i].key != key {
		i = (i + 1) & uint64(len(t.slots)-1)
	}
	return &t.slots[i]
}

func pairKey(left, right int32) uint64 { return uint64(uint32(left))<<32 | uint64(uint32(right)) }

// find returns the merge of two tokens, or nil.
func (t *pairTable) find(left, right int32) *pair {
	if p := t.slot(pairKey(left, right)); p.rank != 0 {
		return p
	}
	return nil
}

// add keeps the first of several merges of the same tokens.
func (t *pairTable) add(left, right int32, rank uint32, id int32) {
	if p := t.slot(pairKey(left, right)); p.rank == 0 {
		*p = pair{key: pairKey(left, right), rank: rank, id: id}
	}
}
