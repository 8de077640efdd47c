package xdrtest

import (
	"math"
	"reflect"
	"strings"
)

// Leaves returns the items of v on the wire, in the order of the definition: numbers, booleans and
// enums as int64, opaque items and strings as string. Before the elements of an array comes their
// count. Before optional data comes 1, or 0 if it is absent. A union gives its discriminant and the
// selected arm.
func Leaves(v Value) []any {
	var l leaves
	l.own(reflect.ValueOf(v).Elem())
	return l
}

type leaves []any

func (l *leaves) add(leaf any) { *l = append(*l, leaf) }

// own adds the items of a value of a generated type.
func (l *leaves) own(v reflect.Value) {
	if e, ok := external(v); ok {
		*l = append(*l, e.ExternalLeaves()...)
		return
	}
	if _, ok := iterator(v); ok {
		l.iterator(v)
		return
	}
	switch {
	case l.scalar(v):
	case v.Kind() == reflect.Struct && v.Type() == eligibleType:
		l.add(string(v.FieldByName("Data").Bytes()))
	case isUnion(v.Type()):
		l.own(v.Field(0))
		if i := activeArm(v); i > 0 {
			l.own(v.Field(i))
		}
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			l.own(v.Field(i))
		}
	default:
		l.elements(v, l.own)
	}
}

// iterator adds the elements of the iterator v. It reads a copy, so that v does not advance.
func (l *leaves) iterator(v reflect.Value) {
	rest := reflect.New(v.Type())
	rest.Elem().Set(v)
	next := rest.MethodByName("Next")
	length := rest.MethodByName("Len")
	if length.IsValid() {
		l.add(length.Call(nil)[0].Int())
	}
	elem := reflect.New(next.Type().In(0).Elem())
	for next.Call([]reflect.Value{elem})[0].Bool() {
		if !length.IsValid() {
			l.add(int64(1))
		}
		l.own(elem.Elem())
	}
	if !length.IsValid() {
		l.add(int64(0))
	}
}

// scalar adds v if v is a single item, and reports whether it is.
func (l *leaves) scalar(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Bool, reflect.Int32, reflect.Int64, reflect.Uint32, reflect.Uint64:
		l.add(number(v))
	case reflect.Float32:
		l.add(int64(math.Float32bits(float32(v.Float()))))
	case reflect.Float64:
		l.add(int64(math.Float64bits(v.Float())))
	case reflect.String:
		l.add(v.String())
	case reflect.Slice:
		if v.Type().Elem().Kind() != reflect.Uint8 {
			return false
		}
		l.add(string(v.Bytes()))
	case reflect.Array:
		if v.Type().Elem().Kind() != reflect.Uint8 {
			return false
		}
		var b strings.Builder
		for i := range v.Len() {
			b.WriteByte(byte(v.Index(i).Uint()))
		}
		l.add(b.String())
	default:
		return false
	}
	return true
}

// elements adds the items of an array. It calls walk for each element, to add the element's items.
// Before them it adds the number of elements, if the array has that number on the wire.
func (l *leaves) elements(v reflect.Value, walk func(reflect.Value)) {
	if v.Kind() == reflect.Slice {
		l.add(int64(v.Len()))
	}
	for i := range v.Len() {
		walk(v.Index(i))
	}
}
