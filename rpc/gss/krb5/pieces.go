package krb5

// A cursor walks over the bytes of pieces that stand for their concatenation.
type cursor struct {
	pieces [][]byte
	at     int // in pieces[0]
}

// run is what lies in one piece from the cursor on; it is empty at the end only.
func (c *cursor) run() []byte {
	for len(c.pieces) > 0 && c.at == len(c.pieces[0]) {
		c.pieces, c.at = c.pieces[1:], 0
	}
	if len(c.pieces) == 0 {
		return nil
	}
	return c.pieces[0][c.at:]
}

// skip moves the cursor on within a run.
func (c *cursor) skip(n int) { c.at += n }

// gather copies the next len(to) bytes.
func (c *cursor) gather(to []byte) {
	for len(to) > 0 {
		n := copy(to, c.run())
		c.skip(n)
		to = to[n:]
	}
}

// scatter replaces the next len(from) bytes.
func (c *cursor) scatter(from []byte) {
	for len(from) > 0 {
		n := copy(c.run(), from)
		c.skip(n)
		from = from[n:]
	}
}

// length is the number of bytes of pieces.
func length(pieces [][]byte) (n int) {
	for _, p := range pieces {
		n += len(p)
	}
	return n
}
