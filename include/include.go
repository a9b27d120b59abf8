// Package include carries the public C headers, so that the build cache of a Go program sees every
// edit of them and `go mod vendor` copies them. It has no Go API.
package include

import "embed"

//go:embed *.h
var headers embed.FS

var _ = headers
