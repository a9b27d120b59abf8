package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/skeep-project/skeep/go/model"
)

func TestDescribeForms(t *testing.T) {
	require.Equal(t, "3 in feed order (2.00 MiB, re-ordered in 0.25 s), 2 as stored (1.00 KiB), 1 decoded at load (4 B)", describeForms(model.Forms{
		Feed: model.FormCount{Weights: 3, Bytes: 2 << 20}, Stored: model.FormCount{Weights: 2, Bytes: 1 << 10}, Dequantized: model.FormCount{Weights: 1, Bytes: 4}, Reordering: 0.25}))
	require.Equal(t, "1 as stored (9 B)", describeForms(model.Forms{Stored: model.FormCount{Weights: 1, Bytes: 9}}))
}

// Nothing is shown of work that is soon done; of other work a line at a time, and none at the end.
func TestProgress(t *testing.T) {
	var b strings.Builder
	show, wipe := progressOn(&b, time.Hour)
	show(1, 2, "x")
	wipe()
	require.Empty(t, b.String())
	show, wipe = progressOn(&b, 0)
	show(1, 2, "x")
	show(2, 2, "soon after")
	wipe()
	require.Equal(t, "\r\x1b[K 50 % x\r\x1b[K", b.String())
}
