package xdrtest

import "fmt"

// SameNames says in what two enums differ whose values have the names in ours
// and theirs: "" in nothing.
func SameNames[O, T ~int32](ours map[O]string, theirs map[T]string) string {
	for v, name := range ours {
		if theirs[T(v)] != name {
			return fmt.Sprintf("%d is %s, not %q", v, name, theirs[T(v)])
		}
	}
	if len(ours) != len(theirs) {
		return fmt.Sprintf("%d values, not %d", len(ours), len(theirs))
	}
	return ""
}
