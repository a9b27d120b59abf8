package tokenizer

import (
	"slices"
	"sort"
	"strings"
)

// matcher finds the tokens of a set in a text: at the leftmost place where one begins, the longest.
// The set is sorted by text, so the tokens that share a prefix are neighbors, and a shorter one stands
// in front of those it is a prefix of.
type matcher struct {
	ids   []int32
	first [257]int32 // tokens that begin with byte b are ids[first[b]:first[b+1]]
}

func newMatcher(v *vocab, member func(id int32) bool) matcher {
	var m matcher
	for id := range int32(len(v.types)) {
		if member(id) && v.text(id) != "" {
			m.ids = append(m.ids, id)
		}
	}
	slices.SortStableFunc(m.ids, func(a, b int32) int { return strings.Compare(v.text(a), v.text(b)) })
	for b := range 256 {
		m.first[b+1] = m.first[b]
		for int(m.first[b+1]) < len(m.ids) && v.text(m.ids[m.first[b+1]])[0] == byte(b) {
			m.first[b+1]++
		}
	}
	return m
}

// next returns where the first token of the set begins, which it is, and its length; without one, the
// length of the text, None and 0.
func (m *matcher) next(v *vocab, text string) (at int, id int32, n int) {
	if len(m.ids) == 0 {
		return len(text), None, 0
	}
	for i := range len(text) {
		if b := int(text[i]); m.first[b] == m.first[b+1] {
			continue
		}
		if id := m.longest(v, text[i:]); id != None {
			return i, id, len(v.text(id))
		}
	}
	return len(text), None, 0
}

// longest returns the longest token of the set that the text begins with, or None.
func (m *matcher) longest(v *vocab, text string) int32 {
	found := None
	group := m.ids[m.first[text[0]]:m.first[int(text[0])+1]] // share the first d bytes of the text
	for d := 1; len(group) > 0; d++ {
		if len(v.text(group[0])) == d {
			found = group[0]
			for len(group) > 0 && len(v.text(group[0])) == d {
				group = group[1:]
			}
		}
		if d == len(text) {
			break
		}
		c := text[d]
		lo := sort.Search(len(group), func(i int) bool { return v.text(group[i])[d] >= c })
		hi := lo + sort.Search(len(group)-lo, func(i int) bool { return v.text(group[lo+i])[d] > c })
		group = group[lo:hi]
	}
	return found
}
