package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/skeep-project/skeep/go/model"
)

func TestDescribeForms(t *testing.T) {
	require.Equal(t, "3 in feed order (2.00 MiB, re-ordered in 0.25 s), 2 as stored (1.00 KiB), 1 decoded at load (4 B)", describeForms(model.Forms{
		Feed: model.FormCount{Weights: 3, Bytes: 2 << 20}, Stored: model.FormCount{Weights: 2, Bytes: 1 << 10}, Dequantized: model.FormCount{Weights: 1, Bytes: 4}, Reordering: 0.25}))
	require.Equal(t, "1 as stored (9 B)", describeForms(model.Forms{Stored: model.FormCount{Weights: 1, Bytes: 9}}))
}
