package resolver

// Touched is what of a plan is in memory after a run.
type Touched struct {
	Slab int64 // bytes of one slab, of two, that the largest step needs at most
	// Least and Most bound the resident memory of the process. They differ by what depends on pages: unused room in caches
	// and slabs (which is resident where pages are huge), scratch of threads, rows that are only looked up, and what lies in
	// the file beside weights that are used there (which is resident where pages of files are huge, and can be evicted).
	Least, Most int64
}

// Touched is for a session that has computed a prompt of so many tokens in one step, and has so many positions in all.
func (p *Plan) Touched(tokens, positions int) (t Touched) {
	t.Slab = p.Sizes.LayerBytes(tokens, 1, p.integers)
	for _, x := range p.Terms {
		least := x.Bytes
		switch {
		case x.Group == GroupKV:
			least = 0
		case x.Group == GroupSlab:
			least = min(x.Bytes, times(int64(0.9*float64(t.Slab)), 2))
		case x.Name == costPool:
			least = 0
		case x.Group == GroupWeights && !x.Private:
			least = x.Touched
		}
		t.Least, t.Most = add(t.Least, least), add(t.Most, x.Bytes)
	}
	t.Most = add(t.Most, p.neighbours())
	for i := range p.Sizes.Layers {
		l := &p.Sizes.Layers[i]
		if n, err := cache(l, p.KV, p.KVFormat); err == nil && n > 0 {
			slots := int64(max(1, l.Capacity(p.KV)))
			t.Least = add(t.Least, n/slots*min(int64(positions), slots))
		}
	}
	return t
}

// Group sums the terms of a group, private ones or file pages.
func (p *Plan) Group(g Group, private bool) (sum int64) {
	for _, t := range p.Terms {
		if t.Group == g && t.Private == private {
			sum = add(sum, t.Bytes)
		}
	}
	return sum
}

// hugePage is the largest page that a system uses by itself.
const hugePage = 2 << 20

// neighbours is how many bytes of a mapped file may be resident beside the weights that are used there: those of weights
// that have copies, as far as they share huge pages with the others.
func (p *Plan) neighbours() int64 {
	if !p.options.Profile.Map || !p.options.Platform.CanMap {
		return 0
	}
	used, copied := int64(0), int64(0)
	stored := map[string]int64{}
	for _, t := range p.header.Tensors() {
		stored[t.Name] = max(0, t.Bytes)
	}
	for _, d := range p.Resolution.Decisions {
		switch {
		case !d.IsWeight || d.Form.Action == Skip:
		case d.Form.Residency == FilePages && !d.Private():
			used++
		default:
			copied = add(copied, stored[d.Name])
		}
	}
	return min(copied, times(used, hugePage))
}
