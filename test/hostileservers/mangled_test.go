package hostileservers_test

import (
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"slices"
)

// A mangling changes the message of a reply: it returns the messages that are sent instead. For TCP, a message is an RPC
// message, for RDMA one of RPC-over-RDMA with its header.
type mangling func(r *rand.Rand, message []byte) [][]byte

func one(message []byte) [][]byte { return [][]byte{message} }

// set returns a mangling that overwrites the 32-bit word at an offset.
func set(at int, word uint32) mangling {
	return func(_ *rand.Rand, m []byte) [][]byte {
		if len(m) >= at+4 {
			binary.BigEndian.PutUint32(m[at:], word)
		}
		return one(m)
	}
}

// wrongLength overwrites a random word beyond the first with a wrong length: very large, that of the message, or 0.
func wrongLength(r *rand.Rand, m []byte) [][]byte {
	if n := len(m) / 4; n > 1 {
		lengths := []uint32{0xffffffff, 0x7fffffff, 1 << 30, uint32(len(m)), 0}
		binary.BigEndian.PutUint32(m[4*(1+r.IntN(n-1)):], lengths[r.IntN(len(lengths))])
	}
	return one(m)
}

// mangled has the manglings for both transports.
var mangled = map[string]mangling{
	"wrong lengths": wrongLength,
	"wrong octets": func(r *rand.Rand, m []byte) [][]byte {
		for range 4 {
			if len(m) > 8 {
				m[8+r.IntN(len(m)-8)] ^= byte(1 << r.IntN(8))
			}
		}
		return one(m)
	},
	"cut":        func(r *rand.Rand, m []byte) [][]byte { return one(m[:r.IntN(len(m)+1)&^3]) },
	"longer":     func(_ *rand.Rand, m []byte) [][]byte { return one(append(m, make([]byte, 512)...)) },
	"twice":      func(_ *rand.Rand, m []byte) [][]byte { return [][]byte{m, slices.Clone(m)} },
	"other XIDs": func(r *rand.Rand, m []byte) [][]byte { binary.BigEndian.PutUint32(m, r.Uint32()); return one(m) },
	"none":       func(*rand.Rand, []byte) [][]byte { return nil },
	"empty":      func(*rand.Rand, []byte) [][]byte { return one([]byte{}) },
	"XID alone":  func(_ *rand.Rand, m []byte) [][]byte { return one(m[:4]) },
	"random": func(r *rand.Rand, m []byte) [][]byte {
		for i := range m[4:] {
			m[4+i] = byte(r.Uint32())
		}
		return one(m)
	},
}

// mangledHeaders has the manglings of RPC-over-RDMA headers (RFC 8166 §4).
var mangledHeaders = map[string]mangling{
	"version 0":            set(4, 0),
	"version 2":            set(4, 2),
	"no credits":           set(8, 0),
	"all credits":          set(8, 0xffffffff),
	"RDMA_NOMSG":           set(12, 1),
	"RDMA_MSGP":            set(12, 2),
	"RDMA_DONE":            set(12, 3),
	"unknown type":         set(12, 99),
	"Read list":            withLists(1, 0, 0),
	"Write list":           withLists(0, 3, 0),
	"long Write list":      withLists(0, 60, 0),
	"Reply chunk":          withLists(0, 0, 1),
	"ERR_VERS without end": func(_ *rand.Rand, m []byte) [][]byte { return one(append(m[:12:12], 0, 0, 0, 4, 0, 0, 0, 1)) },
	"ERR_VERS of 1": func(_ *rand.Rand, m []byte) [][]byte {
		return one(append(m[:12:12], 0, 0, 0, 4, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1))
	},
	"ERR_CHUNK":     func(_ *rand.Rand, m []byte) [][]byte { return one(append(m[:12:12], 0, 0, 0, 4, 0, 0, 0, 2)) },
	"unknown error": func(_ *rand.Rand, m []byte) [][]byte { return one(append(m[:12:12], 0, 0, 0, 4, 0, 0, 0, 77)) },
}

// manglingsOfRDMA returns the manglings of replies over RDMA: those of the RPC message alone, those of the message with its
// header, and those of the header.
func manglingsOfRDMA() map[string]mangling {
	all := make(map[string]mangling)
	for name, do := range mangled {
		all[name] = func(r *rand.Rand, m []byte) [][]byte {
			messages := do(r, m[28:])
			for i, rpc := range messages {
				messages[i] = append(m[:28:28], rpc...)
			}
			return messages
		}
		all[name+" (header)"] = do
	}
	for name, do := range mangledHeaders {
		all[name] = do
	}
	return all
}

// withLists puts chunk lists into the header that the call did not offer: n segments each, all of 4 GiB - 1.
func withLists(reads, writes, replies int) mangling {
	return func(_ *rand.Rand, m []byte) [][]byte {
		words := func(b []byte, w ...uint32) []byte {
			for _, x := range w {
				b = binary.BigEndian.AppendUint32(b, x)
			}
			return b
		}
		b := slices.Clone(m[:16])
		for range reads {
			b = words(b, 1, 0, 7, 0xffffffff, 0, 0)
		}
		b = words(b, 0)
		for range writes {
			b = words(b, 1, 1, 7, 0xffffffff, 0, 0)
		}
		b = words(b, 0)
		for range replies {
			b = words(b, 1, 1, 7, 0xffffffff, 0, 0)
		}
		if replies == 0 {
			b = words(b, 0)
		}
		return one(append(b, m[min(28, len(m)):]...))
	}
}

// A spoiler mangles the replies of one connection after the first whole ones.
type spoiler struct {
	whole int
	rand  *rand.Rand
	do    mangling
}

func spoil(whole int, do mangling) *spoiler {
	return &spoiler{whole: whole, do: do, rand: rand.New(rand.NewPCG(uint64(whole), 1))}
}

func (s *spoiler) of(message []byte) [][]byte {
	if s.whole--; s.whole >= 0 || len(message) < 16 {
		return one(message)
	}
	return s.do(s.rand, message)
}

// longest bounds a record between a tool and the real server.
const longest = 8 << 20

// readRecord reads an RPC record (RFC 5531 §11).
func readRecord(c io.Reader) ([]byte, error) {
	var m []byte
	for {
		var mark [4]byte
		if _, err := io.ReadFull(c, mark[:]); err != nil {
			return nil, err
		}
		n := binary.BigEndian.Uint32(mark[:])
		if n&^(1<<31) > longest {
			return nil, errors.New("test: a long fragment")
		}
		was := len(m)
		m = append(m, make([]byte, n&^(1<<31))...)
		if _, err := io.ReadFull(c, m[was:]); err != nil {
			return nil, err
		}
		if n>>31 == 1 {
			return m, nil
		}
	}
}

func record(m []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, 1<<31|uint32(len(m))), m...)
}

// relayed passes the calls of a connection to the real server. send returns the octets that go back for a reply.
func relayed(real string, send func(reply []byte) []byte) func(c net.Conn) {
	return func(c net.Conn) {
		to, err := net.Dial("tcp", real)
		if err != nil {
			return
		}
		defer to.Close()
		go func() {
			defer c.Close()
			for {
				reply, err := readRecord(to)
				if err != nil {
					return
				}
				if _, err := c.Write(send(reply)); err != nil {
					return
				}
			}
		}()
		io.Copy(to, c)
	}
}

// records returns the octets of the messages that a spoiler sends for a reply.
func (s *spoiler) records(reply []byte) (b []byte) {
	for _, m := range s.of(reply) {
		b = append(b, record(m)...)
	}
	return b
}

// fragments returns a reply in fragments of one octet.
func fragments(reply []byte) (b []byte) {
	for i, octet := range reply {
		mark := uint32(1)
		if i == len(reply)-1 {
			mark |= 1 << 31
		}
		b = append(binary.BigEndian.AppendUint32(b, mark), octet)
	}
	return b
}
