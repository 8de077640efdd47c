package nfs4

import (
	"fmt"
	"slices"
	"testing"
)

// Names with the same cookie are on one page of a listing, and a listing goes on behind all of them, so none is lost
// (conformance row XA-16). A page without room for all of them ends before the first.
func TestXattrsWithOneCookie(t *testing.T) {
	l := &xattrList{}
	for i, cookie := range []uint64{3, 5, 5, 5, 9} {
		l.names = append(l.names, listedXattr{cookie, []byte(fmt.Sprint(i))})
	}
	for _, c := range []struct {
		behind uint64
		room   int // for so many names, of 8 bytes each
		want   string
		rest   bool
	}{
		{0, 5, "01234", false}, {0, 4, "0123", true}, {0, 3, "0", true}, {0, 2, "0", true}, {0, 1, "0", true}, {0, 0, "", true},
		{3, 4, "1234", false}, {3, 3, "123", true}, {3, 2, "", true}, {4, 3, "123", true},
		{5, 1, "4", false}, {5, 0, "", true}, {9, 0, "", false}, {1<<64 - 1, 5, "", false},
	} {
		names, rest := l.page(c.behind, 8*c.room+7)
		var got string
		for _, n := range names {
			got += string(n.name)
		}
		if got != c.want || rest != c.rest {
			t.Errorf("behind %d, with room for %d: %q, %v; want %q, %v", c.behind, c.room, got, rest, c.want, c.rest)
		}
	}
}

// The cookies of names never change, because a client may go on with one after a restart, and none is 0, where a
// listing begins.
func TestXattrCookies(t *testing.T) {
	if got := xattrCookie([]byte("name")); got != 0x8df25fb539b7130 {
		t.Errorf("the cookie of %q is %#x", "name", got)
	}
	l := &xattrList{}
	l.sort([]byte("a\x00name\x00b\x00"))
	if len(l.names) != 3 || !slices.IsSortedFunc(l.names, func(a, b listedXattr) int {
		if a.cookie < b.cookie {
			return -1
		}
		return 1
	}) || l.names[0].cookie == 0 {
		t.Errorf("%+v", l.names)
	}
}
