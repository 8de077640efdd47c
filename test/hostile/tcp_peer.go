package hostile

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"
)

// lastFragment is the bit in a record mark that marks the last fragment of a record (RFC 5531
// §11).
const lastFragment = 1 << 31

// record returns a message as a record of one fragment.
func record(message []byte) []byte { return append(mark(len(message)), message...) }

// mark returns the record mark for a record of one fragment of n bytes.
func mark(n int) []byte { return be.AppendUint32(nil, lastFragment|uint32(n)) }

// readRecord reads one reply, of one fragment.
func readRecord(in *bufio.Reader) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return nil, err
	}
	n := be.Uint32(head[:]) &^ lastFragment
	if n > 4<<20 {
		return nil, fmt.Errorf("a reply of %d bytes", n)
	}
	b := make([]byte, n)
	_, err := io.ReadFull(in, b)
	return b, err
}

// hold reads from a connection until the daemon or the peer closes it, and discards the bytes. It
// always returns an error.
func hold(c net.Conn) error {
	_, err := io.Copy(io.Discard, c)
	if err == nil {
		err = io.EOF
	}
	return err
}

// A peer that reads nothing counts as standing when its send has been blocked for the time stuck.
const stuck = 200 * time.Millisecond

// pour sends the results of chunk(0) to chunk(n-1) over a connection, and reads nothing from it. It
// calls the function stands once: when a send has been blocked for the time stuck, or when
// everything has been sent.
func pour(c net.Conn, n int, chunk func(i int) []byte, stands func()) error {
	stood := false
	stand := func() {
		if !stood {
			stood = true
			stands()
		}
	}
	for i := range n {
		for b := chunk(i); len(b) > 0; {
			if !stood {
				if err := c.SetWriteDeadline(time.Now().Add(stuck)); err != nil {
					return err
				}
			}
			k, err := c.Write(b)
			b = b[k:]
			if errors.Is(err, os.ErrDeadlineExceeded) {
				stand()
				err = c.SetWriteDeadline(time.Time{})
			}
			if err != nil {
				return err
			}
		}
	}
	stand()
	return nil
}
