package xdrtest

import (
	"reflect"

	"pgregory.net/rapid"
)

// External is implemented by Go types that are written by hand because their definition has
// xdrgen's annotation @external. Reflection cannot find their items on the wire, so they have these
// methods, which may be in a test file.
type External interface {
	// DrawExternal fills the zero value with a random value.
	DrawExternal(t *rapid.T)
	// ExternalLeaves returns the items of the value, as Leaves does for a generated type.
	ExternalLeaves() []any
}

// external returns v as an External. ok is false if v's type does not implement External.
func external(v reflect.Value) (External, bool) {
	if !v.CanAddr() {
		return nil, false
	}
	e, ok := v.Addr().Interface().(External)
	return e, ok
}
