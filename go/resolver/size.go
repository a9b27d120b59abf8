package resolver

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Size formats a byte count in binary units: "1.50 GiB", "640 B".
func Size(n int64) string {
	if n < 1<<10 {
		return fmt.Sprintf("%d B", n)
	}
	v, unit := float64(n)/(1<<10), 0
	for v >= 1024 && unit < 3 {
		v, unit = v/1024, unit+1
	}
	digits := 2
	if v >= 100 {
		digits = 0
	} else if v >= 10 {
		digits = 1
	}
	return fmt.Sprintf("%.*f %ciB", digits, v, "KMGT"[unit])
}

// ParseSize reads a number of bytes, which may have a fraction and a binary unit: "2147483648", "2G", "1.3 GiB", "512KB".
func ParseSize(text string) (int64, error) {
	s := strings.ToUpper(strings.TrimSpace(text))
	s = strings.TrimSuffix(strings.TrimSuffix(s, "B"), "I")
	shift := 0
	if i := strings.IndexByte("KMGT", last(s)); i >= 0 && s != "" {
		s, shift = s[:len(s)-1], 10*(i+1)
	}
	s = strings.TrimSpace(s)
	if n, err := strconv.ParseInt(s, 10, 64); err == nil && n >= 0 && n <= math.MaxInt64>>shift {
		return n << shift, nil
	}
	x, err := strconv.ParseFloat(s, 64)
	if x = math.Ceil(math.Ldexp(x, shift)); err != nil || !(x >= 0 && x < math.MaxInt64) || strings.ContainsAny(s, "XP_") {
		return 0, fmt.Errorf("resolver: size %q, want a number of bytes such as 2147483648, 2G or 1.3GiB", text)
	}
	return int64(x), nil
}

func last(s string) byte {
	if s == "" {
		return 0
	}
	return s[len(s)-1]
}
