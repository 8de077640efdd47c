package krb5

// A cursor is a position in the concatenation of pieces.
type cursor struct {
	pieces [][]byte
	at     int // offset in pieces[0]
}

// run returns the bytes from the cursor to the end of the current piece. The result is empty only
// at the end of all pieces.
func (c *cursor) run() []byte {
	for len(c.pieces) > 0 && c.at == len(c.pieces[0]) {
		c.pieces, c.at = c.pieces[1:], 0
	}
	if len(c.pieces) == 0 {
		return nil
	}
	return c.pieces[0][c.at:]
}

// skip moves the cursor n bytes within the current piece.
func (c *cursor) skip(n int) { c.at += n }

// gather fills the slice to with the bytes that follow the cursor, and moves the cursor behind
// these bytes.
func (c *cursor) gather(to []byte) {
	for len(to) > 0 {
		n := copy(to, c.run())
		c.skip(n)
		to = to[n:]
	}
}

// scatter overwrites the bytes that follow the cursor with those of the slice from, and moves the
// cursor behind the overwritten bytes.
func (c *cursor) scatter(from []byte) {
	for len(from) > 0 {
		n := copy(c.run(), from)
		c.skip(n)
		from = from[n:]
	}
}

// length returns the number of bytes in pieces.
func length(pieces [][]byte) (n int) {
	for _, p := range pieces {
		n += len(p)
	}
	return n
}
