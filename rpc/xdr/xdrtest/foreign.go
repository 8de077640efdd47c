package xdrtest

import (
	"fmt"
	"io"
	"reflect"
	"strings"
)

// A Foreign reads and writes one type with another implementation of XDR. The values that Read
// returns and Write takes have the types of that implementation.
type Foreign struct {
	// Read reads one value from r.
	Read func(r io.Reader) (any, error)
	// Write is the inverse of Read.
	Write func(w io.Writer, v any) error
}

// ForeignStruct returns the Foreign for a struct with the methods ReadFrom and WriteTo.
func ForeignStruct[T any, P interface {
	*T
	io.ReaderFrom
	io.WriterTo
}]() Foreign {
	return Foreign{
		Read: func(r io.Reader) (any, error) {
			v := P(new(T))
			_, err := v.ReadFrom(r)
			return reflect.ValueOf(v).Elem().Interface(), err
		},
		Write: func(w io.Writer, v any) error {
			value := v.(T)
			_, err := P(&value).WriteTo(w)
			return err
		},
	}
}

// ForeignUnion returns the Foreign for a union. The argument read is the other implementation's
// function that reads the union.
func ForeignUnion[U io.WriterTo](read func(io.Reader) (U, int64, error)) Foreign {
	return Foreign{
		Read: func(r io.Reader) (any, error) {
			v, _, err := read(r)
			return inField[U]{v}, err
		},
		Write: func(w io.Writer, v any) error {
			_, err := v.(inField[U]).V.WriteTo(w)
			return err
		},
	}
}

// ForeignFunc returns the Foreign for a type without methods. The arguments are the other
// implementation's functions for values of that type: the first reads one, and the second writes
// one.
func ForeignFunc[T any](read func(io.Reader) (T, int64, error), write func(io.Writer, T) (int64, error)) Foreign {
	return Foreign{
		Read: func(r io.Reader) (any, error) {
			v, _, err := read(r)
			return inField[T]{v}, err
		},
		Write: func(w io.Writer, v any) error {
			_, err := write(w, v.(inField[T]).V)
			return err
		},
	}
}

// inField wraps a value in a struct, so that reflection sees the static type of V even if it is an
// interface.
type inField[T any] struct{ V T }

// ForeignLeaves returns the items of a value that Foreign.Read returned, as Leaves does for a
// generated type.
func ForeignLeaves(v any) []any {
	var l leaves
	l.foreign(reflect.ValueOf(v))
	return l
}

func (l *leaves) foreign(v reflect.Value) {
	switch {
	case l.scalar(v):
	case v.Kind() == reflect.Pointer:
		if v.IsNil() {
			l.add(int64(0))
			return
		}
		l.add(int64(1))
		l.foreign(v.Elem())
	case v.Kind() == reflect.Interface:
		l.foreignUnion(v.Elem())
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			l.foreign(v.Field(i))
		}
	default:
		l.elements(v, l.foreign)
	}
}

// foreignUnion adds the items of a union. In the other implementation, a union is an interface, and
// each arm is a struct that implements it. First comes the discriminant: the arm has one method
// GetX, which returns it. Then come the arm's fields, without a field X, which is the discriminant
// again.
func (l *leaves) foreignUnion(arm reflect.Value) {
	name := ""
	for i := range arm.NumMethod() {
		method := arm.Type().Method(i).Name
		if after, ok := strings.CutPrefix(method, "Get"); ok && after != "EncodedSizeBytes" {
			name = after
		}
	}
	if name == "" {
		panic(fmt.Sprintf("xdrtest: %v has no discriminant", arm.Type()))
	}
	l.foreign(arm.MethodByName("Get" + name).Call(nil)[0])
	fields := arm.Elem()
	for i := range fields.NumField() {
		if fields.Type().Field(i).Name != name {
			l.foreign(fields.Field(i))
		}
	}
}
