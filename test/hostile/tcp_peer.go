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

// lastFragment marks the only fragment of a record (RFC 5531 §11).
const lastFragment = 1 << 31

// record returns a message as a record of one fragment.
func record(message []byte) []byte { return append(mark(len(message)), message...) }

// mark returns the mark before a record of n bytes.
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

// hold waits until the daemon ends a connection on which the peer sends nothing more, or until
// this side closes it.
func hold(c net.Conn) error {
	_, err := io.Copy(io.Discard, c)
	if err == nil {
		err = io.EOF
	}
	return err
}

// stuck is the time after which a peer that does not read and cannot send counts as standing.
const stuck = 200 * time.Millisecond

// pour sends n chunks of bytes to a connection, and reads nothing from it. It calls stands once
// the daemon takes no more, or has taken all.
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
