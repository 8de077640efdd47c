package index

import (
	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// A place is a name in a directory.
type place struct {
	dir  vfs.Handle
	name string
}

// places are the names under which a file was seen, the latest first. A places value is never
// modified.
type places []place

// maxPlaces is the largest number of places that the index keeps for one file. If all of them are
// gone, a search finds another hard link.
const maxPlaces = 8

func (ps places) with(p place) places {
	out := append(make(places, 0, min(len(ps)+1, maxPlaces)), p)
	for _, q := range ps {
		if q != p && len(out) < maxPlaces {
			out = append(out, q)
		}
	}
	return out
}

func (ps places) without(p place) places {
	var out places
	for _, q := range ps {
		if q != p {
			out = append(out, q)
		}
	}
	return out
}

// encodePlaces returns the places in the form that they have on disk: for each place the length of
// the directory's handle, the length of the name (one byte each), the handle, and the name.
func encodePlaces(ps places) []byte {
	var b []byte
	for i := range ps {
		b = append(b, byte(ps[i].dir.Len()), byte(len(ps[i].name)))
		b = append(ps[i].dir.Append(b), ps[i].name...)
	}
	return b
}

// decodePlaces is the inverse of encodePlaces. It stops at the first part that is not valid.
func decodePlaces(b []byte) (ps places) {
	for len(b) >= 2 && len(ps) < maxPlaces {
		d, n := int(b[0]), int(b[1])
		if b = b[2:]; len(b) < d+n {
			break
		}
		h, ok := vfs.MakeHandle(b[:d])
		if name := b[d : d+n]; ok && vfs.CheckName(name, unix.NAME_MAX) == nil && !vfs.IsDot(name) {
			ps = append(ps, place{h, string(name)})
		}
		b = b[d+n:]
	}
	return ps
}
