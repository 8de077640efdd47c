package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
)

// The other figures are compared with the transfers in this file. These only move bytes: they
// implement no protocol, and do not look at the data.

const mib = 1 << 20

// stream is a TCP connection to a peer that discards the data. For each MiB that arrives, the
// peer sends a value to got.
type stream struct {
	c   net.Conn
	buf []byte
	got chan int
}

func (s *stage) newStream() (*stream, error) {
	a, b, err := s.tcpPair()
	if err != nil {
		return nil, err
	}
	st := &stream{c: a, buf: make([]byte, mib), got: make(chan int, 1<<16)}
	s.atEnd(func() { a.Close() })
	go func() {
		defer b.Close()
		buf := make([]byte, mib)
		for have := 0; ; {
			n, err := b.Read(buf)
			if err != nil {
				return
			}
			for have += n; have >= mib; have -= mib {
				st.got <- 1
			}
		}
	}()
	return st, nil
}

// run sends n MiB and waits until they have arrived.
func (st *stream) run(n int) error {
	for range n {
		if _, err := st.c.Write(st.buf); err != nil {
			return err
		}
	}
	for range n {
		<-st.got
	}
	return nil
}

// copied is a stream whose data comes from a file in memory, 1 MiB at a time. It has the least
// cost of an NFS READ that copies data out of the page cache.
type copied struct {
	*stream
	file *os.File
	at   int64
}

// fileSize is the size of the file in bytes. The whole file is read again and again. The `depth`
// calls of 1 MiB in the NFS figures read as many bytes.
const fileSize = depth * mib

func (s *stage) newCopied() (*copied, error) {
	st, err := s.newStream()
	if err != nil {
		return nil, err
	}
	f, err := os.CreateTemp("/dev/shm", "figures")
	if err != nil {
		return nil, err
	}
	s.atEnd(func() { f.Close() })
	if err := os.Remove(f.Name()); err != nil {
		return nil, err
	}
	for range fileSize / mib {
		if _, err := f.Write(st.buf); err != nil {
			return nil, err
		}
	}
	return &copied{stream: st, file: f}, nil
}

func (c *copied) run(n int) error {
	for range n {
		if _, err := c.file.ReadAt(c.buf, c.at); err != nil {
			return err
		}
		c.at = (c.at + mib) % fileSize
		if _, err := c.c.Write(c.buf); err != nil {
			return err
		}
	}
	for range n {
		<-c.got
	}
	return nil
}

// echo is a client that sends calls of one size without waiting for each reply. The peer that
// newEcho starts answers records of 120 bytes (the size of a GETATTR call) with records of 116
// bytes. Both ends do the least that a Go program can do: they buffer input and output, and flush
// the output when no input is left.
type echo struct {
	c     net.Conn
	r     *bufio.Reader
	w     *bufio.Writer
	depth int
	// call is one call with its record mark. replySize is the size of one reply with its record
	// mark, in bytes.
	call      []byte
	replySize int
	xid       uint32
}

const (
	echoCall  = 120
	echoReply = 116
)

func (s *stage) newEcho(depth int) (*echo, error) {
	a, b, err := s.tcpPair()
	if err != nil {
		return nil, err
	}
	s.atEnd(func() { a.Close() })
	go func() {
		defer b.Close()
		_ = serveEcho(b)
	}()
	call := make([]byte, 4+echoCall)
	binary.BigEndian.PutUint32(call, 1<<31|echoCall)
	return newPipeline(a, depth, call, 4+echoReply), nil
}

func newPipeline(c net.Conn, depth int, call []byte, replySize int) *echo {
	return &echo{
		c: c, r: bufio.NewReaderSize(c, 64<<10), w: bufio.NewWriterSize(c, 64<<10), depth: depth,
		call: call, replySize: replySize,
	}
}

func serveEcho(c net.Conn) error {
	r, w := bufio.NewReaderSize(c, 64<<10), bufio.NewWriterSize(c, 64<<10)
	reply := make([]byte, 4+echoReply)
	binary.BigEndian.PutUint32(reply, 1<<31|echoReply)
	var mark [4]byte
	body := make([]byte, 4096)
	for {
		if _, err := io.ReadFull(r, mark[:]); err != nil {
			return err
		}
		n := int(binary.BigEndian.Uint32(mark[:]) &^ (1 << 31))
		if _, err := io.ReadFull(r, body[:n]); err != nil {
			return err
		}
		copy(reply[4:8], body[:4])
		if _, err := w.Write(reply); err != nil {
			return err
		}
		if r.Buffered() == 0 {
			if err := w.Flush(); err != nil {
				return err
			}
		}
	}
}

// run makes n exchanges, up to depth at a time.
func (e *echo) run(n int) error {
	reply := make([]byte, e.replySize)
	for sent, got := 0, 0; got < n; {
		for sent < n && sent-got < e.depth {
			e.xid++
			binary.BigEndian.PutUint32(e.call[4:], e.xid)
			if _, err := e.w.Write(e.call); err != nil {
				return err
			}
			sent++
		}
		if err := e.w.Flush(); err != nil {
			return err
		}
		// Before this client sends more calls, it reads all replies that have arrived.
		for first := true; got < sent && (first || e.r.Buffered() >= len(reply)); first = false {
			if _, err := io.ReadFull(e.r, reply); err != nil {
				return err
			}
			if n := binary.BigEndian.Uint32(reply) &^ (1 << 31); int(n) != len(reply)-4 {
				return fmt.Errorf("a reply of %d bytes instead of %d", n, len(reply)-4)
			}
			got++
		}
	}
	return nil
}
