package xdrtest

import (
	"reflect"

	"pgregory.net/rapid"
)

// External is a type that is written by hand where the definition says @external:
// what it looks like in Go tells nothing of what it is on the wire, so it answers for
// itself. Its methods may stand in a test file of its package.
type External interface {
	// DrawExternal fills the zero value at random.
	DrawExternal(t *rapid.T)
	// ExternalLeaves is what Leaves says of the value.
	ExternalLeaves() []any
}

// external is the External that v is, if it is one.
func external(v reflect.Value) (External, bool) {
	if !v.CanAddr() {
		return nil, false
	}
	e, ok := v.Addr().Interface().(External)
	return e, ok
}
