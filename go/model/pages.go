package model

import (
	"context"
	"fmt"
	"time"

	"github.com/skeep-project/skeep/go/internal/ended"
	"github.com/skeep-project/skeep/go/resolver"
	"github.com/skeep-project/skeep/go/skeep"
	"github.com/skeep-project/skeep/go/tensor"
)

// window is how many bytes of file pages are asked for at a time, so that a long prewarm can be ended.
const window = 8 << 20

// keepPages locks or prewarms, as a load mode asks, the weights that are file pages. It comes after the load, so that
// the pages of weights that were copied are not among them. No more is prewarmed than available bytes (0: unknown) and the
// profile's budget leave beside the private memory: pages beyond that would push out those before them.
func (m *Model) keepPages(ctx context.Context, mode LoadMode, available int64) error {
	if mode != LoadLocked && mode != LoadPrewarm {
		return nil
	}
	private := m.resolution.In(tensor.OffHeap) + m.resolution.In(tensor.Heap)
	left := m.resolution.In(tensor.Mapped)
	for _, limit := range []int64{available, m.resolution.Profile.Budget} {
		if limit > 0 {
			left = min(left, max(0, limit-private))
		}
	}
	start, asked, total := time.Now(), int64(0), int64(0)
	for _, d := range m.resolution.Decisions {
		v, ok := m.weights.View(d.Name)
		if !ok || v.Domain() != tensor.Mapped {
			continue
		}
		s := v.Storage()
		if mode == LoadLocked {
			err := s.Lock()
			if err == nil {
				continue
			}
			m.note(fmt.Sprintf("weights are prewarmed instead of locked: %v", err))
			mode = LoadPrewarm
		}
		total += s.Size()
		for at := int64(0); at < s.Size(); {
			n := min(window, s.Size()-at, left-asked)
			if n <= 0 {
				break
			}
			if err := ended.Err(ctx); err != nil {
				return err
			}
			if err := s.Advise(at, n, skeep.WillNeed); err != nil {
				return err
			}
			at, asked = at+n, asked+n
		}
	}
	if mode != LoadPrewarm || total == 0 {
		return nil
	}
	rest := ""
	if asked < total {
		rest = fmt.Sprintf(" of %s; more would not stay in memory", resolver.Size(total))
	}
	m.note(fmt.Sprintf("prewarm: asked for %s of file pages%s, in %.3f s", resolver.Size(asked), rest, time.Since(start).Seconds()))
	return nil
}
