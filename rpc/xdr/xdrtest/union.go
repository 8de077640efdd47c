package xdrtest

import (
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
)

// Value is implemented by pointers to generated types.
type Value interface {
	Decode(d *xdr.Decoder)
	Encode(w *xdr.Writer)
}

// tag is the content of a struct tag that xdrgen has generated.
type tag struct {
	isSwitch  bool
	cases     []int64
	isDefault bool
	max       int // -1: no largest length
}

func parseTag(f reflect.StructField) tag {
	t := tag{max: -1}
	for word := range strings.FieldsSeq(f.Tag.Get("xdr")) {
		name, value, _ := strings.Cut(word, "=")
		switch name {
		case "switch":
			t.isSwitch = true
		case "default":
			t.isDefault = true
		case "case":
			for c := range strings.SplitSeq(value, ",") {
				n, err := strconv.ParseInt(c, 10, 64)
				if err != nil {
					panic("xdrtest: bad tag on " + f.Name)
				}
				t.cases = append(t.cases, n)
			}
		case "max":
			n, err := strconv.ParseUint(value, 10, 32)
			if err != nil {
				panic("xdrtest: bad tag on " + f.Name)
			}
			t.max = int(min(n, 1<<30))
		}
	}
	return t
}

// isUnion reports whether t is a union or optional data. The first field of such a type is the
// discriminant.
func isUnion(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && t.NumField() > 0 && parseTag(t.Field(0)).isSwitch
}

// activeArm returns the index of the field that the discriminant of union v selects, or 0
// for a void arm.
func activeArm(v reflect.Value) int {
	disc := number(v.Field(0))
	byDefault := 0
	for i := range v.NumField() {
		t := parseTag(v.Type().Field(i))
		if slices.Contains(t.cases, disc) {
			return i
		}
		if t.isDefault {
			byDefault = i
		}
	}
	return byDefault
}

// number returns the value of a boolean, integer or enum.
func number(v reflect.Value) int64 {
	switch {
	case v.Kind() == reflect.Bool:
		if v.Bool() {
			return 1
		}
		return 0
	case v.CanInt():
		return v.Int()
	}
	return int64(v.Uint())
}

func setNumber(v reflect.Value, n int64) {
	switch {
	case v.Kind() == reflect.Bool:
		v.SetBool(n != 0)
	case v.CanInt():
		v.SetInt(n)
	default:
		v.SetUint(uint64(n))
	}
}

var eligibleType = reflect.TypeFor[xdr.Eligible]()

// iterator returns the method Next of v's address. ok is true if there is one: if v is addressable,
// and is a list or an array that is decoded as an iterator.
func iterator(v reflect.Value) (next reflect.Value, ok bool) {
	if !v.CanAddr() {
		return next, false
	}
	next = v.Addr().MethodByName("Next")
	return next, next.IsValid()
}
