package krb5

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/subtle"
	"sync"
)

const blockSize = aes.BlockSize

// A ctsKey encrypts with AES in CBC mode with ciphertext stealing (RFC 3962 §5, CBC-CS3 of NIST SP
// 800-38A). The initialization vector is zero. The ciphertext replaces the plaintext in place, and
// has the same length.
type ctsKey struct {
	block cipher.Block
	// These fields store chains for reuse, because a new chain would have to copy the key schedule.
	encrypters, decrypters chains
}

func newCTSKey(key []byte) *ctsKey {
	block, err := aes.NewCipher(key)
	if err != nil {
		panic(err) // newKey checks the lengths of keys
	}
	return &ctsKey{block: block}
}

// A chain is a cipher in CBC mode of the standard library, with memory for a block that spans two
// pieces, and for the last two blocks.
type chain struct {
	mode    cipher.BlockMode
	scratch [2 * blockSize]byte
	cursor  cursor
}

// maxChains is the largest number of unused chains that are stored for one key and direction.
const maxChains = 2

// chains has the unused chains of one key and direction.
type chains struct {
	mu   sync.Mutex
	idle [maxChains]*chain
}

// resettable is a method of the standard library's CBC mode that is not in cipher.BlockMode.
type resettable interface{ SetIV(iv []byte) }

var zeros [blockSize]byte

func (c *chains) get(block cipher.Block, create func(cipher.Block, []byte) cipher.BlockMode) *chain {
	c.mu.Lock()
	for i, idle := range c.idle {
		if idle != nil {
			c.idle[i] = nil
			c.mu.Unlock()
			return idle
		}
	}
	c.mu.Unlock()
	return &chain{mode: create(block, zeros[:])}
}

// put stores a chain for reuse, if its initialization vector can be reset.
func (c *chains) put(ch *chain) {
	mode, ok := ch.mode.(resettable)
	if !ok {
		return
	}
	mode.SetIV(zeros[:])
	ch.cursor = cursor{}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, idle := range c.idle {
		if idle == nil {
			c.idle[i] = ch
			return
		}
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
	ch := k.encrypters.get(k.block, cipher.NewCBCEncrypter)
	n := length(pieces)
	last := tail(n)
	ch.cursor = cursor{pieces: pieces}
	ch.crypt(n - last)
	end := ch.cursor
	final := ch.gatherTail(last)
	ch.mode.CryptBlocks(final, final)
	if last > blockSize {
		swap(final)
	}
	end.scatter(final[:last])
	k.encrypters.put(ch)
}

// decrypt is the inverse of encrypt.
func (k *ctsKey) decrypt(pieces [][]byte) {
	ch := k.decrypters.get(k.block, cipher.NewCBCDecrypter)
	n := length(pieces)
	last := tail(n)
	ch.cursor = cursor{pieces: pieces}
	ch.crypt(n - last)
	end := ch.cursor
	final := ch.gatherTail(last)
	if last > blockSize {
		k.unsteal(final, last-blockSize)
	}
	ch.mode.CryptBlocks(final, final)
	end.scatter(final[:last])
	k.decrypters.put(ch)
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

// crypt encrypts or decrypts the next n bytes at the cursor, which must be whole blocks.
func (c *chain) crypt(n int) {
	for n > 0 {
		run := c.cursor.run()
		whole := min(len(run), n) &^ (blockSize - 1)
		if whole == 0 {
			whole = c.cryptAcross()
		} else {
			c.mode.CryptBlocks(run[:whole], run[:whole])
			c.cursor.skip(whole)
		}
		n -= whole
	}
}

// cryptAcross encrypts or decrypts one block that spans several pieces.
func (c *chain) cryptAcross() int {
	block, start := c.scratch[:blockSize], c.cursor
	c.cursor.gather(block)
	c.mode.CryptBlocks(block, block)
	start.scatter(block)
	c.cursor = start
	return blockSize
}

// gatherTail returns a copy of the last n bytes, padded with zeros to whole blocks.
func (c *chain) gatherTail(n int) []byte {
	final := c.scratch[:(n+blockSize-1)&^(blockSize-1)]
	clear(final)
	c.cursor.gather(final[:n])
	return final
}

func swap(two []byte) {
	a, b := two[:blockSize], two[blockSize:]
	subtle.XORBytes(a, a, b)
	subtle.XORBytes(b, a, b)
	subtle.XORBytes(a, a, b)
}
