// Package reused compares an object that is used again with a new one. A field that a reset forgets
// shows as a difference.
package reused

import (
	"fmt"
	"reflect"
	"slices"
)

// Difference compares two structs of the same type, to which used and fresh point, with their unexported
// fields. It returns a description of the first difference, or an empty string. Slices are equal if their
// elements are, whatever their capacity; but a slice must not keep references behind its end. Pointers,
// functions, channels and interfaces are equal if both or none are nil. Difference ignores the fields of
// the structs themselves whose names are in ignored.
func Difference(used, fresh any, ignored ...string) string {
	a, b := reflect.ValueOf(used).Elem(), reflect.ValueOf(fresh).Elem()
	for i := range a.NumField() {
		name := a.Type().Field(i).Name
		if slices.Contains(ignored, name) {
			continue
		}
		if d := differ(a.Field(i), b.Field(i)); d != "" {
			return name + d
		}
	}
	return ""
}

func differ(a, b reflect.Value) string {
	switch a.Kind() {
	case reflect.Struct:
		for i := range a.NumField() {
			if d := differ(a.Field(i), b.Field(i)); d != "" {
				return "." + a.Type().Field(i).Name + d
			}
		}
	case reflect.Slice:
		if a.Len() != b.Len() {
			return fmt.Sprintf(" has %d elements, %d in a new object", a.Len(), b.Len())
		}
		all := a.Slice(0, a.Cap())
		for i := a.Len(); i < all.Len() && refers(a.Type().Elem()); i++ {
			if !all.Index(i).IsZero() {
				return fmt.Sprintf("[%d], behind the end, keeps a reference", i)
			}
		}
		return elements(a, b)
	case reflect.Array:
		return elements(a, b)
	case reflect.Map:
		if a.Len() != b.Len() {
			return fmt.Sprintf(" has %d entries, %d in a new object", a.Len(), b.Len())
		}
	case reflect.Pointer, reflect.Func, reflect.Chan, reflect.Interface, reflect.UnsafePointer:
		if a.IsNil() != b.IsNil() {
			return fmt.Sprintf(" is nil: %v, in a new object: %v", a.IsNil(), b.IsNil())
		}
	default:
		if !a.Equal(b) {
			return fmt.Sprintf(" is %v, %v in a new object", a, b)
		}
	}
	return ""
}

// elements compares two arrays or slices of the same length.
func elements(a, b reflect.Value) string {
	for i := range a.Len() {
		if d := differ(a.Index(i), b.Index(i)); d != "" {
			return fmt.Sprintf("[%d]%s", i, d)
		}
	}
	return ""
}

// refers reports whether values of the type t may refer to memory.
func refers(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Struct:
		for i := range t.NumField() {
			if refers(t.Field(i).Type) {
				return true
			}
		}
		return false
	case reflect.Array:
		return refers(t.Elem())
	case reflect.Pointer, reflect.Func, reflect.Chan, reflect.Interface, reflect.UnsafePointer,
		reflect.Slice, reflect.Map, reflect.String:
		return true
	}
	return false
}
