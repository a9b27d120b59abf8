package main

import (
	"fmt"
	"os"
	"regexp"
	"strings"
)

// row is one MACRO(argument, ...) of a list. Strings are arguments without their quotes, those side by side are one.
type row struct {
	macro     string
	arguments []string
	doc       string // the lines of the comment right above
}

// readList reads the rows of a list that has one kind of them.
func readList(path, macro string, arguments int) ([][]string, error) {
	rows, err := readRows(path, macro)
	if err != nil {
		return nil, err
	}
	var all [][]string
	for _, r := range rows {
		if len(r.arguments) != arguments {
			return nil, fmt.Errorf("%s: %d arguments instead of %d: %q", path, len(r.arguments), arguments, r.arguments)
		}
		all = append(all, r.arguments)
	}
	return all, nil
}

// readRows reads the rows of a list; all else must be comments. A row may stand on several lines.
func readRows(path string, macros ...string) ([]row, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	rows, err := parseRows(string(text), macros)
	if err == nil && len(rows) == 0 {
		err = fmt.Errorf("no rows of %s", strings.Join(macros, ", "))
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return rows, nil
}

var (
	commentText = regexp.MustCompile(`^(?s)/\*\s?(.*?)\s*\*/\n?`)
	macroText   = regexp.MustCompile(`^(\w+)\(`)
	sideBySide  = regexp.MustCompile(`"\s+"`)
)

func parseRows(text string, macros []string) (rows []row, err error) {
	doc := ""
	for text != "" {
		if m := commentText.FindStringSubmatch(text); m != nil {
			doc, text = strings.ReplaceAll(m[1], "\n * ", "\n"), text[len(m[0]):]
			continue
		}
		if strings.IndexByte(" \t\n", text[0]) >= 0 {
			doc, text = "", text[1:]
			continue
		}
		line, _, _ := strings.Cut(text, "\n")
		m, r := macroText.FindStringSubmatch(text), row{doc: doc}
		end := endOfRow(text)
		if m == nil || end < 0 {
			return nil, fmt.Errorf("not a row of %s: %q", strings.Join(macros, ", "), line)
		}
		for _, macro := range macros {
			if m[1] == macro {
				r.macro = macro
			}
		}
		if r.macro == "" {
			return nil, fmt.Errorf("not a row of %s: %q", strings.Join(macros, ", "), line)
		}
		r.arguments = splitArguments(text[len(m[0]):end])
		rows = append(rows, r)
		doc, text = "", strings.TrimPrefix(text[end+1:], "\n")
	}
	return rows, nil
}

// endOfRow is where the first parenthesis outside of strings closes, -1 when it does not.
func endOfRow(text string) int {
	quoted := false
	for i := range len(text) {
		switch {
		case text[i] == '"':
			quoted = !quoted
		case text[i] == ')' && !quoted:
			return i
		}
	}
	return -1
}

// splitArguments cuts at the commas outside of strings.
func splitArguments(s string) []string {
	var row []string
	quoted, start := false, 0
	for i := range len(s) + 1 {
		switch {
		case i == len(s) || s[i] == ',' && !quoted:
			row = append(row, sideBySide.ReplaceAllString(strings.Trim(strings.TrimSpace(s[start:i]), `"`), ""))
			start = i + 1
		case s[i] == '"':
			quoted = !quoted
		}
	}
	return row
}
