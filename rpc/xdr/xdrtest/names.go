package xdrtest

import "fmt"

// SameNames compares the names of the values of two enums. It returns a difference, or "" if there
// is none.
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
