package main

import (
	"fmt"
	"os"
	"regexp"
	"strings"
)

// readList reads the rows MACRO(argument, ...) of a list, each on a line of its own; all else must be comments. Strings
// are arguments without their quotes.
func readList(path, macro string, arguments int) ([][]string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	rows, err := parseList(string(text), macro, arguments)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return rows, nil
}

var comment = regexp.MustCompile(`(?s)/\*.*?\*/`)

func parseList(text, macro string, arguments int) ([][]string, error) {
	var rows [][]string
	for line := range strings.SplitSeq(comment.ReplaceAllString(text, ""), "\n") {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		inner, ok := strings.CutPrefix(line, macro+"(")
		inner, closed := strings.CutSuffix(inner, ")")
		if !ok || !closed {
			return nil, fmt.Errorf("not a row of %s: %q", macro, line)
		}
		row := splitArguments(inner)
		if len(row) != arguments {
			return nil, fmt.Errorf("%d arguments instead of %d: %q", len(row), arguments, line)
		}
		rows = append(rows, row)
	}
	if len(rows) == 0 {
		return nil, fmt.Errorf("no rows of %s", macro)
	}
	return rows, nil
}

// splitArguments cuts at the commas outside of strings.
func splitArguments(s string) []string {
	var row []string
	quoted, start := false, 0
	for i := range len(s) + 1 {
		switch {
		case i == len(s) || s[i] == ',' && !quoted:
			row = append(row, strings.Trim(strings.TrimSpace(s[start:i]), `"`))
			start = i + 1
		case s[i] == '"':
			quoted = !quoted
		}
	}
	return row
}
