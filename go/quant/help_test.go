package quant

import (
	"fmt"
	"strings"

	"github.com/skeep-project/skeep/go/arch"
)

// valueText is a metadata value with its kind, and all of its elements, for comparison.
func valueText(v arch.Value) string {
	if a, ok := v.Array(); ok {
		var b strings.Builder
		fmt.Fprintf(&b, "array %v %d:", a.Elem(), a.Len())
		for i := range a.Len() {
			b.WriteString(" " + valueText(a.At(i)))
		}
		return b.String()
	}
	if s, ok := v.Text(); ok {
		return fmt.Sprintf("%q", s)
	}
	if x, ok := v.Bool(); ok {
		return fmt.Sprint(x)
	}
	if n, ok := v.Int(); ok {
		return fmt.Sprintf("%v %d", v.Kind(), n)
	}
	if n, ok := v.Uint(); ok {
		return fmt.Sprintf("%v %d", v.Kind(), n)
	}
	x, _ := v.Float()
	return fmt.Sprintf("%v %x", v.Kind(), x)
}
