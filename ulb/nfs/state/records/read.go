package records

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
)

// What a file of bbolt consists of, in the byte order of the machine (bbolt's package
// internal/common): pages, of which the first two are heads, the one of the later
// transaction counting. A page has a header of 16 bytes: its number in 8, flags in 2, how
// many elements in 2, how many pages follow that belong to it in 4.
const (
	pageHeader = 16
	branchPage = 0x01
	leafPage   = 0x02
	headPage   = 0x04

	headMagic   = 0xED0CDAED
	headVersion = 2
	// headSum is where a head, behind its page's header, has its checksum.
	headSum = 56

	elementSize  = 16
	bucketFlag   = 0x01
	bucketHeader = 16
	// maxDepth is how deep pages may lead to each other: more than records come to.
	maxDepth = 64
)

var order = binary.NativeEndian

// A reader takes a file apart that may be damaged in any way: bbolt trusts what it reads,
// and the process does not survive what is wrong there.
type reader struct {
	b        []byte
	pageSize uint64
	pages    uint64 // that the file has by its head
	seen     map[uint64]bool
}

// A visit gets an element of a leaf.
type visit func(flags uint32, key, value []byte) error

var errPage = errors.New("a page of it is not what leads to it says")

// read returns what the file b has: its server's values, and its clients. earlier: they are as
// earlier versions had them.
func read(b []byte) (values map[string]string, all map[string]entry, earlier bool, err error) {
	r := reader{b: b, seen: make(map[uint64]bool)}
	root, err := r.head()
	if err != nil {
		return nil, nil, false, err
	}
	buckets := map[string]map[string]string{string(server): {}, string(clients): {}, string(names): {}}
	err = r.walk(root, 0, func(flags uint32, name, value []byte) error {
		into := buckets[string(name)]
		earlier = earlier || string(name) == string(names)
		if into == nil || flags != bucketFlag || len(value) < bucketHeader {
			return errPage
		}
		take := func(flags uint32, key, value []byte) error {
			if _, twice := into[string(key)]; twice || flags != 0 {
				return errPage
			}
			into[string(key)] = string(value)
			return nil
		}
		if page := order.Uint64(value); page != 0 {
			return r.walk(page, 0, take)
		}
		return r.elements(value[bucketHeader:], 0, take) // which is within the value
	})
	if err != nil {
		return nil, nil, false, err
	}
	all = make(map[string]entry)
	for key, principal := range buckets[string(names)] {
		if key == "" {
			return nil, nil, false, errors.New("a client has no name")
		}
		all[key] = entry{principal: principal}
	}
	for at, value := range buckets[string(clients)] {
		key, e, ok := decode(value)
		if _, twice := all[key]; !ok || twice || at != string(digest(key)) {
			return nil, nil, false, errors.New("a client in it is none")
		}
		all[key] = e
	}
	return buckets[string(server)], all, earlier, nil
}

// head reads both heads, and returns the page that all begins at. A head is less than a
// sector of any disk, so that no crash leaves half of one: where one of them is not whole, the
// other one may be older than what was promised.
func (r *reader) head() (root uint64, err error) {
	if len(r.b) < pageHeader+headSum+8 {
		return 0, errors.New("it is cut short")
	}
	r.pageSize = uint64(order.Uint32(r.b[pageHeader+8:]))
	if r.pageSize < 1<<9 || r.pageSize > 1<<16 || r.pageSize&(r.pageSize-1) != 0 {
		return 0, errors.New("it does not begin as a database does")
	}
	var last uint64
	for i := range uint64(2) {
		at := i * r.pageSize
		if at+r.pageSize > uint64(len(r.b)) {
			return 0, errors.New("it is cut short")
		}
		page, h := r.b[at:], r.b[at+pageHeader:]
		sum := fnv.New64a()
		sum.Write(h[:headSum])
		if order.Uint64(page) != i || order.Uint16(page[8:]) != headPage || order.Uint32(h) != headMagic || order.Uint32(h[4:]) != headVersion ||
			uint64(order.Uint32(h[8:])) != r.pageSize || order.Uint64(h[headSum:]) != sum.Sum64() {
			return 0, fmt.Errorf("head %d of it is not whole", i+1)
		}
		if n := order.Uint64(h[48:]); i == 0 || n > last {
			last, root, r.pages = n, order.Uint64(h[16:]), order.Uint64(h[40:])
		}
	}
	if r.pages > uint64(len(r.b))/r.pageSize {
		return 0, errors.New("it is cut short")
	}
	return root, nil
}

// walk visits the elements of all leaves that a page leads to.
func (r *reader) walk(number uint64, depth int, f visit) error {
	if number < 2 || number >= r.pages || depth > maxDepth || r.seen[number] {
		return errPage
	}
	r.seen[number] = true
	page := r.b[number*r.pageSize:]
	more := uint64(order.Uint32(page[12:]))
	if order.Uint64(page) != number || more >= r.pages-number {
		return errPage
	}
	page = page[:(more+1)*r.pageSize]
	if order.Uint16(page[8:]) != branchPage {
		return r.elements(page, number, f)
	}
	return r.each(page, func(at []byte, position, size uint64) error {
		if _, ok := part(at, position, size); !ok {
			return errPage
		}
		return r.walk(order.Uint64(at[8:]), depth+1, f)
	}, branch)
}

// elements visits those of a leaf.
func (r *reader) elements(page []byte, number uint64, f visit) error {
	if len(page) < pageHeader || order.Uint64(page) != number || order.Uint16(page[8:]) != leafPage {
		return errPage
	}
	return r.each(page, func(at []byte, position, size uint64) error {
		key, ok := part(at, position, size)
		value, also := part(at, position+size, uint64(order.Uint32(at[12:])))
		if !ok || !also {
			return errPage
		}
		return f(order.Uint32(at), key, value)
	}, leaf)
}

// Where an element has the position of its key; its length follows.
const (
	branch = 0
	leaf   = 4
)

// each calls f for each element of a page, with what is in the page from the element on, and
// where from there its key is.
func (r *reader) each(page []byte, f func(at []byte, position, size uint64) error, field int) error {
	for i := range int(order.Uint16(page[10:])) {
		start := pageHeader + i*elementSize
		if start+elementSize > len(page) {
			return errPage
		}
		at := page[start:]
		if err := f(at, uint64(order.Uint32(at[field:])), uint64(order.Uint32(at[field+4:]))); err != nil {
			return err
		}
	}
	return nil
}

// part is a part of b.
func part(b []byte, start, size uint64) ([]byte, bool) {
	if start > uint64(len(b)) || size > uint64(len(b))-start {
		return nil, false
	}
	return b[start : start+size], true
}
