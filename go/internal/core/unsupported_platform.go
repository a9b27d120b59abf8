//go:build !(linux && (amd64 || arm64))

package core

// The build ends here on other platforms, with a name that says which there are.
var _ = skeep_supports_linux_on_amd64_and_arm64
