package xdrtest

import (
	"reflect"

	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
)

// EligibleItems adds the DDP-eligible items of a type to the map found. The function fresh returns
// a value of that type. The key of an item is its path: the type's name and the names of fields,
// separated by dots. "Next" in a path stands for the elements of a list.
func EligibleItems(fresh func() Value, found map[string]bool) {
	t := reflect.TypeOf(fresh()).Elem()
	findEligible(t, t.Name(), found)
}

func findEligible(t reflect.Type, path string, found map[string]bool) {
	if t == reflect.TypeFor[xdr.Eligible]() {
		found[path] = true
		return
	}
	if next, ok := reflect.PointerTo(t).MethodByName("Next"); ok { // a list
		findEligible(next.Type.In(1).Elem(), path+".Next", found)
		return
	}
	if t.Kind() == reflect.Struct {
		for i := range t.NumField() {
			findEligible(t.Field(i).Type, path+"."+t.Field(i).Name, found)
		}
	}
}
