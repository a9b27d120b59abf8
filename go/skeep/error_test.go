package skeep

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/skeep-project/skeep/go/internal/core"
)

// What the core answers is said once and in one line: by its own sentence, which has the numbers, or by the sentinel
// where names say more than they do.
func TestStatusSentences(t *testing.T) {
	for code, sentinel := range sentinels {
		st := core.Status{Code: code, Operand: 1, Detail: 2}
		err := statusError("get", "file", "w", st, nil)
		require.ErrorIs(t, err, sentinel)
		what, found := strings.CutPrefix(err.Error(), `skeep: get: storage "file", tensor "w": `)
		require.True(t, found, "%v", err)
		require.NotContains(t, what, "\n")
		switch what {
		case st.String(), sentinel.Error():
		default:
			require.Equal(t, ErrIO, sentinel, what)
			require.Equal(t, "system call failed: no such file or directory", what)
		}
	}
	require.EqualError(t, statusError("add", "x", "y", core.NoPool, nil), "skeep: add: there is no pool")
	require.EqualError(t, statusError("add", "x", "y", core.PoolClosed, nil), `skeep: add: storage "pool": closed`)

	made := &Error{Op: "get", Storage: "file", Err: ErrClosed, Created: "\tmain.load\n\t\tmain.go:3\n\tmain.main\n\t\tmain.go:9\n"}
	require.EqualError(t, made, `skeep: get: storage "file": closed; created at main.load main.go:3 main.main main.go:9`)
}

// The name of a scope, too, is told in one line.
func TestScopeNamesAreShown(t *testing.T) {
	m := NewModelScope("a\nb\x1b")
	require.NoError(t, m.Close())
	_, err := Allocate("s", 1, In(m))
	require.ErrorIs(t, err, ErrClosed)
	require.EqualError(t, err, `skeep: allocate: storage "s": closed (scope "a\nb\x1b")`)
}
