package vfs_test

import (
	"testing"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// A swimmer is an optional interface for the test of As.
type swimmer interface{ Swim() string }

type plain struct{ vfs.FileSystem }

type swimming struct {
	vfs.FileSystem
	says string
}

func (f *swimming) Swim() string { return f.says }

type wrapped struct{ vfs.FileSystem }

func (f wrapped) Unwrap() vfs.FileSystem { return f.FileSystem }

// swimmingWrapper is a Wrapper that implements swimmer itself.
type swimmingWrapper struct{ wrapped }

func (swimmingWrapper) Swim() string { return "outer" }

func TestAsFindsInterfacesBehindWrappers(t *testing.T) {
	inner := &swimming{says: "inner"}
	for _, c := range []struct {
		name string
		fs   vfs.FileSystem
		want string // "" if As finds no swimmer
	}{
		{"none", plain{}, ""},
		{"its own", inner, "inner"},
		{"behind one", wrapped{inner}, "inner"},
		{"behind two", wrapped{wrapped{inner}}, "inner"},
		{"the wrapper's own before what is behind it", swimmingWrapper{wrapped{inner}}, "outer"},
		{"none behind two", wrapped{wrapped{plain{}}}, ""},
		{"hidden by what does not unwrap", plain{inner}, ""},
		{"nothing behind it", wrapped{}, ""},
	} {
		s, ok := vfs.As[swimmer](c.fs)
		if ok != (c.want != "") || ok && s.Swim() != c.want {
			t.Errorf("%s: found %v", c.name, ok)
		}
	}
}
