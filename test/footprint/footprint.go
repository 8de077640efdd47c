// Package footprint measures, in tests, the memory that an object uses: its own, and that of all
// objects that it refers to. Unlike a comparison of the heap before and after, the result does
// not depend on garbage collection, on other programs, or on the race detector.
package footprint

import (
	"reflect"
	"slices"
	"strings"
	"unsafe"
)

// Of returns the number of bytes of the object that root points to and of all objects that it
// refers to, directly or indirectly. It counts each byte once. stops are nil pointers; Of does not
// follow pointers of their types, because many objects share the targets. Of does not count the
// variables of closures, the objects to which values in channels refer, and the stacks of
// goroutines; it estimates maps by their entries. The objects must not change while Of runs.
func Of(root any, stops ...any) int {
	w := walk{stops: make(map[reflect.Type]bool), seen: make(map[visit]bool)}
	for _, s := range stops {
		w.stops[reflect.TypeOf(s)] = true
	}
	w.follow(reflect.ValueOf(root))
	return w.sum()
}

// A span is a range of memory: its first address, and the address after its last byte.
type span struct{ from, to uintptr }

// A visit identifies a value by its type and address. The address alone is not enough, because a
// struct and its first field have the same address.
type visit struct {
	at unsafe.Pointer
	of reflect.Type
}

type walk struct {
	stops map[reflect.Type]bool
	seen  map[visit]bool
	spans []span
	loose int // bytes whose address is not known
}

// add records n bytes at an address.
func (w *walk) add(at unsafe.Pointer, n uintptr) {
	if n > 0 {
		w.spans = append(w.spans, span{uintptr(at), uintptr(at) + n})
	}
}

// sum returns the number of bytes in all spans, with overlaps counted once, plus the bytes whose
// addresses are not known (w.loose).
func (w *walk) sum() int {
	slices.SortFunc(w.spans, func(a, b span) int {
		switch {
		case a.from < b.from:
			return -1
		case a.from > b.from:
			return 1
		}
		return 0
	})
	total, end := 0, uintptr(0)
	for _, s := range w.spans {
		if from := max(s.from, end); s.to > from {
			total += int(s.to - from)
			end = s.to
		}
	}
	return total + w.loose
}

// follow visits the values that v refers to. The caller has counted the bytes of v itself.
func (w *walk) follow(v reflect.Value) {
	t := v.Type()
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() || w.stops[t] || t.Elem().PkgPath() == "internal/abi" {
			return
		}
		w.enter(v.UnsafePointer(), v.Elem())
	case reflect.Struct:
		if pointed, ok := atomicPointer(v); ok {
			w.follow(pointed)
			return
		}
		for i := range v.NumField() {
			w.follow(v.Field(i))
		}
	case reflect.Array:
		if leads(t.Elem()) {
			for i := range v.Len() {
				w.follow(v.Index(i))
			}
		}
	case reflect.Slice:
		if v.Cap() == 0 || w.again(v.UnsafePointer(), t) {
			return
		}
		w.add(v.UnsafePointer(), uintptr(v.Cap())*t.Elem().Size())
		if leads(t.Elem()) {
			for i := range v.Len() {
				w.follow(v.Index(i))
			}
		}
	case reflect.String:
		s := v.String()
		w.add(unsafe.Pointer(unsafe.StringData(s)), uintptr(len(s)))
	case reflect.Interface:
		if v.IsNil() {
			return
		}
		if e := v.Elem(); e.Kind() == reflect.Pointer {
			w.follow(e)
		} else {
			w.loose += int(e.Type().Size())
			w.follow(e)
		}
	case reflect.Map:
		if v.IsNil() || w.again(v.UnsafePointer(), t) {
			return
		}
		w.loose += 48 + v.Len()*int(t.Key().Size()+t.Elem().Size()+8)
		for i := v.MapRange(); i.Next(); {
			w.follow(i.Key())
			w.follow(i.Value())
		}
	case reflect.Chan:
		if !v.IsNil() && !w.again(v.UnsafePointer(), t) {
			w.loose += 96 + v.Cap()*int(t.Elem().Size())
		}
	}
}

// enter counts the target of a pointer, and visits the values that it refers to, unless the walk
// has visited the target before.
func (w *walk) enter(at unsafe.Pointer, v reflect.Value) {
	if w.again(at, v.Type()) {
		return
	}
	w.add(at, v.Type().Size())
	w.follow(v)
}

// again reports whether the walk has already visited the value of type t at this address, and
// records this visit.
func (w *walk) again(at unsafe.Pointer, t reflect.Type) bool {
	k := visit{at, t}
	before := w.seen[k]
	w.seen[k] = true
	return before
}

// If v is an atomic.Pointer, atomicPointer returns the pointer that v contains, and true.
func atomicPointer(v reflect.Value) (reflect.Value, bool) {
	t := v.Type()
	if t.PkgPath() != "sync/atomic" || !strings.HasPrefix(t.Name(), "Pointer[") {
		return reflect.Value{}, false
	}
	for i := range t.NumField() {
		if f := t.Field(i).Type; f.Kind() == reflect.Array && f.Len() == 0 && f.Elem().Kind() == reflect.Pointer {
			at := v.FieldByName("v").UnsafePointer()
			return reflect.NewAt(f.Elem(), unsafe.Pointer(&at)).Elem(), true
		}
	}
	return reflect.Value{}, false
}

// leads reports whether values of a type can refer to other values.
func leads(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Struct:
		for i := range t.NumField() {
			if leads(t.Field(i).Type) {
				return true
			}
		}
		return false
	case reflect.Array:
		return t.Len() > 0 && leads(t.Elem())
	}
	return t.Kind() >= reflect.Array && t.Kind() != reflect.UnsafePointer
}
