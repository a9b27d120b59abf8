package machine

import (
	"bufio"
	"bytes"
	"slices"
	"strings"
)

// Unknown is the name of every processor family that is not listed here.
const Unknown = "unknown"

// processors lists the families for which something has been measured, as /proc/cpuinfo describes their members.
// Models of one core design share a name.
var processors = []struct {
	name   string
	vendor string
	family int
	models [][2]int // ranges, both ends included
}{
	{"zen3", "AuthenticAMD", 25, [][2]int{{0x00, 0x0f}, {0x20, 0x5f}}},
	{"zen4", "AuthenticAMD", 25, [][2]int{{0x10, 0x1f}, {0x60, 0x7f}, {0xa0, 0xaf}}},
	{"sapphire-rapids", "GenuineIntel", 6, [][2]int{{143, 143}, {207, 207}}}, // 207 is Emerald Rapids: the same core
}

// processor finds the family of the first processor in the text of /proc/cpuinfo.
func processor(cpuinfo []byte) string {
	vendor, family, model := "", -1, -1
	for lines := bufio.NewScanner(bytes.NewReader(cpuinfo)); lines.Scan() && lines.Text() != ""; {
		key, value, _ := strings.Cut(lines.Text(), ":")
		switch value = strings.TrimSpace(value); strings.TrimSpace(key) {
		case "vendor_id":
			vendor = value
		case "cpu family":
			family = number([]byte(value), -1)
		case "model":
			model = number([]byte(value), -1)
		}
	}
	for _, p := range processors {
		if p.vendor == vendor && p.family == family &&
			slices.ContainsFunc(p.models, func(r [2]int) bool { return r[0] <= model && model <= r[1] }) {
			return p.name
		}
	}
	return Unknown
}

// processorName is what /proc/cpuinfo calls the first processor.
func processorName(info []byte) string {
	for line := range strings.Lines(string(info)) {
		if key, name, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.Join(strings.Fields(name), " ")
		}
	}
	return ""
}
