package vfs

import (
	"math"
	"slices"
	"sort"
	"syscall"
)

// ClaimMode is the kind of a claim, a byte-range lock that belongs to this process (see Claimer).
type ClaimMode uint8

// Modes of claims. Several processes may hold ClaimRead on the same range. ClaimWrite excludes
// every other process. ClaimNone removes a claim.
const (
	ClaimNone ClaimMode = iota
	ClaimRead
	ClaimWrite
)

// ToEnd is the length of a range up to the end of the file, even if it grows (RFC 8881 §18.10.3).
const ToEnd = math.MaxUint64

// Claimed is a range and the mode of the claim on it. Length may be ToEnd.
type Claimed struct {
	Start, Length uint64
	Mode          ClaimMode
}

// Claimer is an optional interface of a FileSystem for claims: byte-range locks that this process
// holds against other processes of the machine. A server claims the union of the locks of its
// clients. Claims are advisory locks if the machine's own locks are advisory. They belong to the
// process, not to a caller; therefore no method takes an Op.
//
// Its methods may be called from any number of goroutines at once. For one file, the caller makes
// one call after the other and limits the number of ranges that it claims. Each method may wait as long as
// the file system takes, DropClaims too: in a network file system a lock is a request to a server. So a
// caller that must not wait calls it on another goroutine. No method waits for another process. A file
// with claims stays alive as if it were open (see File).
type Claimer interface {
	// Claim sets the mode of a whole range of a regular file, whatever the former claims inside the
	// range, or fails and changes nothing.
	//
	// EAGAIN: another process holds a conflicting lock. EINVAL: length is 0, or the range ends beyond
	// 2^64-1. ENOLCK, ErrDelay: there is no room for more claims. EROFS: the file cannot be written, and
	// so not claimed with ClaimWrite. ErrNotSupported: the file system has no locks.
	Claim(h Handle, start, length uint64, mode ClaimMode) error
	// TestClaim finds a lock of another process that conflicts with a claim of this range and
	// mode. It returns false if there is no such lock now.
	TestClaim(h Handle, start, length uint64, mode ClaimMode) (Claimed, bool, error)
	// DropClaims removes all claims on a file. It cannot fail.
	DropClaims(h Handle)
}

// A PromptClaimer is a Claimer that can tell in advance that its calls about a file will not wait, for a caller
// that must not.
type PromptClaimer interface {
	Claimer
	// Prompt returns a Claimer for calls about the file h alone, none of which waits for a disk, a server or another
	// program, as long as the caller claims nothing in a stronger mode than most. It returns false if a call might wait:
	// the caller then calls the Claimer itself, on another goroutine. The caller has just found the file, or has claims
	// on it, and calls no other method about the file before Release.
	//
	// Besides the errors of a Claimer, the returned one has ErrWouldBlock: a call that would have to wait has changed
	// nothing. No call has it that only weakens claims.
	Prompt(h Handle, most ClaimMode) (PromptClaims, bool)
}

// PromptClaims is the result of PromptClaimer.Prompt.
type PromptClaims interface {
	Claimer
	// Release ends the use of the PromptClaims. It does not wait.
	Release()
}

// Claims holds the claims on one file, for implementations of Claimer. The zero value is empty.
// Only one goroutine at a time may call its methods.
type Claims struct {
	held []span // sorted by start, without overlaps
}

// A span is a claimed range; last is its last byte.
type span struct {
	start, last uint64
	mode        ClaimMode
}

// spanOf returns the span of a range. EINVAL: length is 0, or the range ends beyond 2^64-1.
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

// CheckRange returns EINVAL if start and length are not a valid range (see Claimer.Claim).
func CheckRange(start, length uint64) error {
	_, err := spanOf(start, length, ClaimNone)
	return err
}

// None reports whether nothing is claimed.
func (c *Claims) None() bool { return len(c.held) == 0 }

// Set sets the mode of a range, as Claimer.Claim does.
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
	// Replace held[from:to] and the two neighbours, which may merge, by at most 5 spans.
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

// from returns the index of the first span that ends at or after offset.
func (c *Claims) from(offset uint64) int {
	return sort.Search(len(c.held), func(i int) bool { return c.held[i].last >= offset })
}

// joined merges adjacent spans with the same mode, in place.
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

// Against returns the first claim in c with which another process's claim of this range and mode
// would conflict. It returns false if there is none.
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
