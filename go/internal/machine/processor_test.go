package machine

import (
	"fmt"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

func TestProcessor(t *testing.T) {
	for _, c := range []struct {
		vendor        string
		family, model int
		want          string
	}{
		{"AuthenticAMD", 25, 0x01, "zen3"}, {"AuthenticAMD", 25, 0x21, "zen3"}, {"AuthenticAMD", 25, 0x50, "zen3"},
		{"AuthenticAMD", 25, 0x11, "zen4"}, {"AuthenticAMD", 25, 0x61, "zen4"}, {"AuthenticAMD", 25, 0xa0, "zen4"},
		{"AuthenticAMD", 25, 0x80, Unknown}, {"AuthenticAMD", 26, 0x11, Unknown}, {"AuthenticAMD", 6, 143, Unknown},
		{"GenuineIntel", 6, 143, "sapphire-rapids"}, {"GenuineIntel", 6, 207, "sapphire-rapids"}, {"GenuineIntel", 6, 106, Unknown},
	} {
		// The second processor does not count; "model name" is not "model".
		info := fmt.Sprintf("processor\t: 0\nvendor_id\t: %s\ncpu family\t: %d\nmodel\t\t: %d\nmodel name\t: Xeon 143\n\nprocessor\t: 1\nmodel\t: 0\n",
			c.vendor, c.family, c.model)
		m := Read(fstest.MapFS{"proc/cpuinfo": {Data: []byte(info)}}, nil)
		require.Equal(t, c.want, m.Processor, "%+v", c)
	}
	for _, info := range []string{"", "CPU implementer\t: 0x41\nCPU part\t: 0xd0c\n", "vendor_id: AuthenticAMD\n", "vendor_id: GenuineIntel\ncpu family: six\nmodel: 143\n"} {
		require.Equal(t, Unknown, Read(fstest.MapFS{"proc/cpuinfo": {Data: []byte(info)}}, nil).Processor)
	}
}
