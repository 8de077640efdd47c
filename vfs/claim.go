package vfs

import (
	"math"
	"slices"
	"sort"
	"syscall"
)

// ClaimMode is how strongly a range of bytes is claimed.
type ClaimMode uint8

// Modes of claims. Two processes may read; one that writes is alone.
const (
	ClaimNone ClaimMode = iota
	ClaimRead
	ClaimWrite
)

// ToEnd is the length of a range that reaches to the end of the file, however
// far that will be (RFC 8881 §18.10.3).
const ToEnd = math.MaxUint64

// Claimed is a range that is claimed. Length may be ToEnd.
type Claimed struct {
	Start, Length uint64
	Mode          ClaimMode
}

// Claimer is the further interface of a FileSystem on which this process can
// hold byte ranges of files against other processes of the machine: what its
// clients have locked among themselves, taken together. Claims are advisory
// where the machine's locks are. They are the process's and no caller's, so that
// no Op is passed.
//
// Its methods may be called from any number of goroutines at once; the caller
// orders those of one file, and bounds how many ranges it claims of it. They may have to open the file, and then block for
// as long as that takes, but wait for no other process. A file of which something
// is claimed lives as if it were open (see File).
type Claimer interface {
	// Claim makes mode that of all of a range of a regular file: what was
	// claimed there before is replaced, the rest stays. It does so for all of
	// the range, or fails and changes nothing.
	//
	// EAGAIN: another process holds a lock that stands against it. EINVAL:
	// length is 0, or the range ends behind 2^64-1. ENOLCK, ErrDelay: there is
	// no room for more. EROFS: what cannot be written to cannot be claimed to
	// write. ErrNotSupported: the file system has no locks.
	Claim(h Handle, start, length uint64, mode ClaimMode) error
	// TestClaim finds a lock of another process that stands against a claim
	// with mode; false: there is none now.
	TestClaim(h Handle, start, length uint64, mode ClaimMode) (Claimed, bool, error)
	// DropClaims ends all claims on a file. It cannot fail.
	DropClaims(h Handle)
}

// Claims are the claims on one file, for implementations of Claimer. The zero
// value holds none. Its methods are not for several goroutines at once.
type Claims struct {
	held []span // by rising start; none overlaps another
}

// A span ends with last, inclusive.
type span struct {
	start, last uint64
	mode        ClaimMode
}

// spanOf is the range of length bytes at start.
func spanOf(start, length uint64, mode ClaimMode) (span, error) {
	s := span{start, math.MaxUint64, mode}
	if length == 0 || length != ToEnd && length-1 > math.MaxUint64-start {
		return s, syscall.EINVAL
	}
	if length != ToEnd {
		s.last = start + length - 1
	}
	return s, nil
}

// CheckRange says whether start and length are those of a range: EINVAL if not.
func CheckRange(start, length uint64) error {
	_, err := spanOf(start, length, ClaimNone)
	return err
}

// None says that nothing is claimed.
func (c *Claims) None() bool { return len(c.held) == 0 }

// Set makes mode that of a range.
func (c *Claims) Set(start, length uint64, mode ClaimMode) error {
	s, err := spanOf(start, length, mode)
	if err != nil {
		return err
	}
	from := c.from(s.start)
	to := from
	for to < len(c.held) && c.held[to].start <= s.last {
		to++
	}
	// What takes the place of held[from:to], with the neighbours, which may become one with
	// it: at most 5 spans.
	var place [5]span
	with := place[:0]
	if from > 0 {
		with = append(with, c.held[from-1])
	}
	if from < to && c.held[from].start < s.start {
		with = append(with, span{c.held[from].start, s.start - 1, c.held[from].mode})
	}
	if mode != ClaimNone {
		with = append(with, s)
	}
	if from < to && c.held[to-1].last > s.last {
		with = append(with, span{s.last + 1, c.held[to-1].last, c.held[to-1].mode})
	}
	if to < len(c.held) {
		with = append(with, c.held[to])
	}
	c.held = slices.Replace(c.held, max(from-1, 0), min(to+1, len(c.held)), joined(with)...)
	if len(c.held) == 0 {
		c.held = nil
	}
	return nil
}

// from is the index of the first span that ends at or behind offset.
func (c *Claims) from(offset uint64) int {
	return sort.Search(len(c.held), func(i int) bool { return c.held[i].last >= offset })
}

// joined makes one of neighbours with the same mode.
func joined(held []span) []span {
	n := 0
	for _, s := range held {
		if n > 0 && held[n-1].mode == s.mode && held[n-1].last == s.start-1 {
			held[n-1].last = s.last
			continue
		}
		held[n] = s
		n++
	}
	return held[:n]
}

// Against finds the first claim that stands against one of another process with
// mode.
func (c *Claims) Against(start, length uint64, mode ClaimMode) (Claimed, bool, error) {
	s, err := spanOf(start, length, mode)
	if err != nil {
		return Claimed{}, false, err
	}
	for _, h := range c.held[c.from(s.start):] {
		if h.start > s.last {
			break
		}
		if mode == ClaimWrite || mode == ClaimRead && h.mode == ClaimWrite {
			return h.claimed(), true, nil
		}
	}
	return Claimed{}, false, nil
}

func (s span) claimed() Claimed {
	if s.last == math.MaxUint64 {
		return Claimed{s.start, ToEnd, s.mode}
	}
	return Claimed{s.start, s.last - s.start + 1, s.mode}
}
