package shown

import (
	"encoding/json"
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

func TestJSON(t *testing.T) {
	for given, want := range map[string]string{
		"{\n  \"größe 尺\": 1\n}\n":      "{\n  \"größe 尺\": 1\n}\n",
		"\"\x7f\u009b31m\u202e\u2066\"": `"\u007f\u009b31m\u202e\u2066"`,
		"\"\U000e0001\"":                `"\udb40\udc01"`,
	} {
		got := JSON(given)
		require.Equal(t, want, got)
		var before, after any
		require.NoError(t, json.Unmarshal([]byte(given), &before))
		require.NoError(t, json.Unmarshal([]byte(got), &after))
		require.Equal(t, before, after)
	}
}
