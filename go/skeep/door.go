package skeep

import (
	"github.com/skeep-project/skeep/go/internal/core"
	"github.com/skeep-project/skeep/go/internal/door"
)

func init() {
	door.Open(&door.Inside[View, Pool, Step]{
		Pool:  (*Pool).inside,
		Step:  (*Step).inside,
		Error: coreError,
		ValueError: func(op string, st core.Status, from, into View) error {
			return into.fail(op, from.valueError(int64(st.Detail), into.desc.Format), "")
		},
	})
}
