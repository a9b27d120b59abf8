package gguf

import (
	"context"
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/skeep-project/skeep/go/tensor"
)

// A scale that is no number, in the middle of a tensor or of one expert, is named by tensor, row and block.
// Case B07.
func TestCheckNamesTheBlock(t *testing.T) {
	for e, at := range map[tensor.Encoding]int{tensor.Q4_0: 0, tensor.Q8_0: 0, tensor.Q4_K: 2, tensor.Q6_K: 208} {
		info, _ := e.Info()
		for _, scale := range []uint16{0x7c00, 0x7e00, 0xfc00} {
			data := make([]byte, 4*3*5*info.BlockBytes) // 4 experts of 3 rows of 5 blocks
			for i := range data {
				data[i] = 1
			}
			binary.LittleEndian.PutUint16(data[((2*3+1)*5+3)*info.BlockBytes+at:], scale)
			n := uint64(info.BlockElements)
			f := mustRead(t, spec{ti: []ti{{name: "sound", typ: uint32(e), dims: []uint64{5 * n, 3}, data: data[:15*info.BlockBytes]},
				{name: "experts", typ: uint32(e), dims: []uint64{5 * n, 3, 4}, data: data, offset: uint64(15*info.BlockBytes+31) / 32 * 32}}}.build())
			found, err := f.Check(context.Background(), "sound")
			require.NoError(t, err)
			require.Empty(t, found)
			found, err = f.Check(context.Background(), "experts")
			require.NoError(t, err)
			require.Equal(t, []Finding{{Tensor: "experts", Kind: NotFinite, Row: 7, Block: 3, Count: 1}}, found, fmt.Sprintf("%s %04x", info.Name, scale))
			require.Contains(t, found[0].String(), "block 3 of row 7")
		}
	}
}
