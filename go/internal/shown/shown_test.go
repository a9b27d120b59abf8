package shown

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestShown(t *testing.T) {
	for _, x := range []struct{ given, name, text string }{
		{"", "", ""},
		{"blk.0.größe 尺", "blk.0.größe 尺", "blk.0.größe 尺"},
		{`a"b\c`, `a"b\c`, `a"b\c`},
		{"\x1b[31mred", `"\x1b[31mred"`, `\x1b[31mred`},
		{"a\nb\tc\r", `"a\nb\tc\r"`, "a\nb\tc\\r"},
		{"a\xffb\uFFFD", `"a\xffb` + "\uFFFD" + `"`, `a\xffb` + "\uFFFD"},
		{"\u009b31m\u202e\x7f", `"\u009b31m\u202e\x7f"`, `\u009b31m\u202e\x7f`},
	} {
		require.Equal(t, x.name, Name(x.given))
		require.Equal(t, x.text, Text(x.given))
	}
}
