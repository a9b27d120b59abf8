//go:build cgo

package main

import _ "github.com/ianlancetaylor/cgosymbolizer" // C frames in crashes and profiles
