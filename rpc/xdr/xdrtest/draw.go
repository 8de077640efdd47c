package xdrtest

import (
	"math"
	"reflect"
	"slices"
	"sync"

	"pgregory.net/rapid"

	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
)

// Draw fills v with random data. v points to the zero value of a generated type. Unions get any of
// their arms, enums one of their named values, opaque items and strings up to 16 bytes of ASCII,
// arrays and lists up to 3 elements.
func Draw(t *rapid.T, v Value) { draw(t, reflect.ValueOf(v).Elem(), -1) }

// Example returns a value that Draw has filled. The function fresh returns a new zero value of the
// type. The same seed always gives the same value.
func Example(fresh func() Value, seed int) Value {
	return rapid.Custom(func(t *rapid.T) Value {
		v := fresh()
		Draw(t, v)
		return v
	}).Example(seed)
}

const (
	longestItem  = 16
	mostElements = 3
)

func draw(t *rapid.T, v reflect.Value, limit int) {
	if limit < 0 {
		limit = math.MaxInt32
	}
	if e, ok := external(v); ok {
		e.DrawExternal(t)
		return
	}
	if next, ok := iterator(v); ok {
		drawIterator(t, v, next.Type().In(0).Elem())
		return
	}
	if known := knownValues(v.Type()); known != nil {
		setNumber(v, rapid.SampledFrom(known).Draw(t, "enum"))
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, "bool"))
	case reflect.Int32:
		v.SetInt(int64(rapid.Int32().Draw(t, "int")))
	case reflect.Int64:
		v.SetInt(rapid.Int64().Draw(t, "hyper"))
	case reflect.Uint8:
		v.SetUint(uint64(rapid.Byte().Draw(t, "byte")))
	case reflect.Uint32:
		v.SetUint(uint64(rapid.Uint32().Draw(t, "unsigned int")))
	case reflect.Uint64:
		v.SetUint(rapid.Uint64().Draw(t, "unsigned hyper"))
	case reflect.Float32:
		v.SetFloat(float64(rapid.Float32().Draw(t, "float")))
	case reflect.Float64:
		v.SetFloat(rapid.Float64().Draw(t, "double"))
	case reflect.Array:
		for i := range v.Len() {
			draw(t, v.Index(i), -1)
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes(drawBytes(t, limit))
			return
		}
		n := rapid.IntRange(0, min(limit, mostElements)).Draw(t, "elements")
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			draw(t, v.Index(i), -1)
		}
	case reflect.Struct:
		drawStruct(t, v, limit)
	default:
		panic("xdrtest: cannot draw a " + v.Type().String())
	}
}

func drawBytes(t *rapid.T, limit int) []byte {
	return rapid.SliceOfN(rapid.ByteRange(0, 127), 0, min(limit, longestItem)).Draw(t, "bytes")
}

func drawStruct(t *rapid.T, v reflect.Value, limit int) {
	switch {
	case v.Type() == eligibleType:
		v.Set(reflect.ValueOf(xdr.Eligible{Data: drawBytes(t, limit)}))
	case isUnion(v.Type()):
		drawDiscriminant(t, v)
		if i := activeArm(v); i > 0 {
			draw(t, v.Field(i), parseTag(v.Type().Field(i)).max)
		}
	default:
		for i := range v.NumField() {
			draw(t, v.Field(i), parseTag(v.Type().Field(i)).max)
		}
	}
}

// drawDiscriminant sets the discriminant of a union to a random value of its cases. If the union
// has a default arm, one other value is also possible. All these values have the same probability.
func drawDiscriminant(t *rapid.T, v reflect.Value) {
	var arms, named []int64
	hasDefault := false
	for i := range v.NumField() {
		tag := parseTag(v.Type().Field(i))
		named = append(named, tag.cases...)
		hasDefault = hasDefault || tag.isDefault
	}
	arms = slices.Clone(named)
	if hasDefault {
		other := otherValue(t, v.Field(0).Type(), named)
		if !slices.Contains(named, other) {
			arms = append(arms, other)
		}
	}
	setNumber(v.Field(0), rapid.SampledFrom(arms).Draw(t, "arm"))
}

// otherValue returns a value of the discriminant's type that the slice named does not contain. If
// there is none, it returns one that the slice contains.
func otherValue(t *rapid.T, disc reflect.Type, named []int64) int64 {
	rest := slices.DeleteFunc(slices.Clone(knownValues(disc)), func(n int64) bool {
		return slices.Contains(named, n)
	})
	switch {
	case disc.Kind() == reflect.Bool:
		if slices.Contains(named, 0) {
			return 1
		}
		return 0
	case len(rest) > 0:
		return rapid.SampledFrom(rest).Draw(t, "other value")
	case knownValues(disc) != nil:
		return named[0]
	}
	return int64(rapid.Uint32Range(1<<16, math.MaxInt32).Draw(t, "other value"))
}

func drawIterator(t *rapid.T, v reflect.Value, elem reflect.Type) {
	_, isArray := v.Addr().Type().MethodByName("Len")
	w := xdr.NewWriter(make([]byte, 0, 1<<16))
	n := rapid.IntRange(0, mostElements).Draw(t, "elements")
	if isArray {
		w.Uint32(uint32(n))
	}
	for range n {
		if !isArray {
			w.Bool(true)
		}
		e := reflect.New(elem)
		draw(t, e.Elem(), -1)
		encodeElement(w, e)
	}
	if !isArray {
		w.Bool(false)
	}
	d := xdr.NewDecoder(Stream(w))
	v.Addr().Interface().(Value).Decode(d)
	if err := d.Finish(); err != nil {
		panic("xdrtest: a drawn list does not decode: " + err.Error())
	}
}

func encodeElement(w *xdr.Writer, e reflect.Value) {
	if v, ok := e.Interface().(Value); ok {
		v.Encode(w)
		return
	}
	n := number(e.Elem())
	if e.Elem().Type().Size() == 8 {
		w.Int64(n)
	} else {
		w.Int32(int32(n))
	}
}

var (
	knownMu sync.Mutex
	known   = map[reflect.Type][]int64{}
)

// largestEnum is larger than all enum values of the NFS protocols.
const largestEnum = 20000

// knownValues returns the named values of enum t from 0 to largestEnum, or nil if t is not an enum.
func knownValues(t reflect.Type) []int64 {
	isKnown, ok := t.MethodByName("Known")
	if !ok {
		return nil
	}
	knownMu.Lock()
	defer knownMu.Unlock()
	if values, ok := known[t]; ok {
		return values
	}
	var values []int64
	v := reflect.New(t).Elem()
	for n := int64(0); n <= largestEnum; n++ {
		v.SetInt(n)
		if isKnown.Func.Call([]reflect.Value{v})[0].Bool() {
			values = append(values, n)
		}
	}
	known[t] = values
	return values
}
