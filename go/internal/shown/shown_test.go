package shown

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"testing"
	"unicode/utf8"

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

func TestDistinct(t *testing.T) {
	seen := map[string]string{}
	for given, want := range map[string]string{
		"": "", "größe 尺": "größe 尺", "a\nb": "a\nb", `a"b`: `a"b`, "a\xff": `"a\xff"`, "a\xfe": `"a\xfe"`, `"a\xff"`: `"\"a\\xff\""`, `"`: `"\""`,
		"a\uFFFD": "a\uFFFD", "\xff\uFFFD": "\"\\xff\uFFFD\"",
	} {
		got := Distinct(given)
		require.Equal(t, want, got)
		require.True(t, utf8.ValidString(got))
		require.NotContains(t, seen, got)
		seen[got] = given
	}
}

func TestError(t *testing.T) {
	_, err := os.Stat("no\nsuch")
	err = fmt.Errorf("told: %w", err)
	require.EqualError(t, Error(err), `told: stat "no\nsuch": no such file or directory`)
	require.ErrorIs(t, Error(err), fs.ErrNotExist)
	var p *fs.PathError
	require.ErrorAs(t, Error(err), &p)
	require.Equal(t, "no\nsuch", p.Path)
	for _, same := range []error{nil, errors.New("a\nb"), &fs.PathError{Op: "open", Path: "größe", Err: fs.ErrExist}} {
		require.Equal(t, same, Error(same))
	}
}

func TestLine(t *testing.T) {
	require.Equal(t, `a\nb\tc\x1bd`, Line("a\nb\tc\x1bd"))
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
