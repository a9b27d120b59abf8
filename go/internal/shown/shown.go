// Package shown makes foreign bytes fit to be read: nothing of them acts on a terminal, or ends a line.
package shown

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Name is a name as it is when every rune of it can be printed, and else quoted as Go quotes.
func Name(s string) string {
	if utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !strconv.IsPrint(r) }) {
		return s
	}
	return strconv.Quote(s)
}

// Distinct is a name as it is when it is valid UTF-8 and does not begin with a quotation mark, and else quoted as Go
// quotes: a valid text that no other name has.
func Distinct(s string) string {
	if utf8.ValidString(s) && !strings.HasPrefix(s, `"`) {
		return s
	}
	return strconv.Quote(s)
}

// Error is an error as it is, except that paths in what the system says are shown as Name shows them.
func Error(err error) error {
	var p *fs.PathError
	if !errors.As(err, &p) || Name(p.Path) == p.Path {
		return err
	}
	return pathShown{err, strings.ReplaceAll(err.Error(), p.Path, Name(p.Path))}
}

type pathShown struct {
	error
	text string
}

func (e pathShown) Error() string { return e.text }

func (e pathShown) Unwrap() error { return e.error }

// Quoted is a name quoted as Go quotes, cut after so many bytes: a hostile file's names may be megabytes long.
func Quoted(s string, limit int) string {
	if len(s) > limit {
		return strconv.Quote(s[:limit]) + "…"
	}
	return strconv.Quote(s)
}

// JSON is a JSON text in which runes that cannot be printed, which stand in its strings alone, are escaped. Its own line ends
// stay.
func JSON(s string) string {
	var b strings.Builder
	for _, r := range s {
		if r == '\n' || strconv.IsPrint(r) {
			b.WriteRune(r)
			continue
		}
		for _, u := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&b, `\u%04x`, u)
		}
	}
	return b.String()
}

// Line is Text in one line.
func Line(s string) string { return strings.NewReplacer("\n", `\n`, "\t", `\t`).Replace(Text(s)) }

// Text is a text of lines, in which what cannot be printed stands as Go escapes it. Tabs stay.
func Text(s string) string {
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		if r == '\n' || r == '\t' || strconv.IsPrint(r) && (r != utf8.RuneError || n > 1) {
			b.WriteString(s[:n])
		} else {
			quoted := strconv.Quote(s[:n])
			b.WriteString(quoted[1 : len(quoted)-1])
		}
		s = s[n:]
	}
	return b.String()
}
