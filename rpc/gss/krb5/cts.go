package krb5

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/subtle"
	"sync/atomic"
)

const blockSize = aes.BlockSize

var zeros [blockSize]byte

// A ctsKey encrypts with AES in CBC mode with ciphertext stealing (RFC 3962 §5, CBC-CS3 of NIST SP
// 800-38A). The initialization vector is zero. The ciphertext replaces the plaintext in place, and
// has the same length.
type ctsKey struct {
	block cipher.Block
	// These fields store an unused chain, because a new one would have to copy the key schedule.
	encrypter, decrypter atomic.Pointer[chain]
}

func newCTSKey(key []byte) *ctsKey {
	block, err := aes.NewCipher(key)
	if err != nil {
		panic(err) // newKey checks the lengths of keys
	}
	return &ctsKey{block: block}
}

// A chain is a cipher in CBC mode of the standard library, with memory for the last two blocks, or
// for a block that spans several pieces.
type chain struct {
	cipher.BlockMode
	scratch [2 * blockSize]byte
	cursor  cursor
}

// take returns the unused chain, or a new one.
func (k *ctsKey) take(unused *atomic.Pointer[chain], create func(cipher.Block, []byte) cipher.BlockMode) *chain {
	if c := unused.Swap(nil); c != nil {
		return c
	}
	return &chain{BlockMode: create(k.block, zeros[:])}
}

// giveBack stores c as the unused chain, if its initialization vector can be reset. The method
// SetIV of the standard library's CBC mode is not in cipher.BlockMode.
func (c *chain) giveBack(unused *atomic.Pointer[chain]) {
	if mode, ok := c.BlockMode.(interface{ SetIV(iv []byte) }); ok {
		mode.SetIV(zeros[:])
		c.cursor = cursor{}
		unused.Store(c)
	}
}

// tail returns how many of n bytes are in the last two blocks, which ciphertext stealing swaps: 17
// to 32 bytes, or all n if there is only one block.
func tail(n int) int {
	if n <= 2*blockSize {
		return n
	}
	return (n-1)%blockSize + 1 + blockSize
}

// encrypt encrypts pieces in place. Together they must have at least one block.
func (k *ctsKey) encrypt(pieces [][]byte) {
	n := 0
	for _, p := range pieces {
		n += len(p)
	}
	last := tail(n)
	c := k.take(&k.encrypter, cipher.NewCBCEncrypter)
	c.cursor = cursor{pieces: pieces}
	c.encryptBlocks(n - last)
	end, final := c.cursor, c.finalBlocks(last)
	c.cursor.gather(final[:last])
	c.CryptBlocks(final, final)
	if last > blockSize {
		a, b := final[:blockSize], final[blockSize:]
		subtle.XORBytes(a, a, b) // swap both blocks
		subtle.XORBytes(b, a, b)
		subtle.XORBytes(a, a, b)
	}
	end.scatter(final[:last])
	c.giveBack(&k.encrypter)
}

// decrypt is the inverse of encrypt.
func (k *ctsKey) decrypt(b []byte) {
	last := tail(len(b))
	front, rest := b[:len(b)-last], b[len(b)-last:]
	c := k.take(&k.decrypter, cipher.NewCBCDecrypter)
	c.CryptBlocks(front, front)
	final := c.finalBlocks(last)
	copy(final, rest)
	if last > blockSize {
		k.unsteal(final, last-blockSize)
	}
	c.CryptBlocks(final, final)
	copy(rest, final)
	c.giveBack(&k.decrypter)
}

// unsteal restores the last two blocks of plain CBC. final has them swapped: first the last block,
// then the first n bytes of the block before it. The missing bytes of that block are at the end of
// the decrypted last block.
func (k *ctsKey) unsteal(final []byte, n int) {
	whole, short := final[:blockSize], final[blockSize:]
	var last [blockSize]byte
	copy(last[:], whole)
	k.block.Decrypt(whole, whole)
	copy(short[n:], whole[n:])
	copy(whole, short)
	copy(short, last[:])
}

// finalBlocks returns zeroed memory for the last n bytes, in whole blocks.
func (c *chain) finalBlocks(n int) []byte {
	final := c.scratch[:(n+blockSize-1)&^(blockSize-1)]
	clear(final)
	return final
}

// encryptBlocks encrypts the next n bytes at the cursor, which must be whole blocks.
func (c *chain) encryptBlocks(n int) {
	for n > 0 {
		run := c.cursor.run()
		whole := min(len(run), n) &^ (blockSize - 1)
		if whole > 0 {
			c.CryptBlocks(run[:whole], run[:whole])
			c.cursor.at += whole
		} else { // the next block spans several pieces
			whole = blockSize
			block, start := c.scratch[:blockSize], c.cursor
			c.cursor.gather(block)
			c.CryptBlocks(block, block)
			start.scatter(block)
		}
		n -= whole
	}
}

// A cursor is a position in the concatenation of pieces.
type cursor struct {
	pieces [][]byte
	at     int // offset in pieces[0]
}

// run returns the bytes from the cursor to the end of the current piece. It panics at the end of all
// pieces.
func (c *cursor) run() []byte {
	for c.at == len(c.pieces[0]) {
		c.pieces, c.at = c.pieces[1:], 0
	}
	return c.pieces[0][c.at:]
}

// gather fills the slice to with the bytes that follow the cursor, and moves the cursor behind
// these bytes.
func (c *cursor) gather(to []byte) {
	for len(to) > 0 {
		n := copy(to, c.run())
		c.at += n
		to = to[n:]
	}
}

// scatter overwrites the bytes that follow the cursor with those of the slice from, and moves the
// cursor behind the overwritten bytes.
func (c *cursor) scatter(from []byte) {
	for len(from) > 0 {
		n := copy(c.run(), from)
		c.at += n
		from = from[n:]
	}
}
