package xdrtest

import (
	"reflect"

	"pgregory.net/rapid"
)

// External is a type that is written by hand (@external). Reflection cannot derive its
// items on the wire from its Go form, so the type has its own methods. They may be in a
// test file of its package.
type External interface {
	// DrawExternal fills the zero value with a random value.
	DrawExternal(t *rapid.T)
	// ExternalLeaves returns the value's items for Leaves.
	ExternalLeaves() []any
}

// external returns v as an External, if its type is one.
func external(v reflect.Value) (External, bool) {
	if !v.CanAddr() {
		return nil, false
	}
	e, ok := v.Addr().Interface().(External)
	return e, ok
}
