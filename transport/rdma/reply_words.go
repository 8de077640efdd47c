package rdma

import "sync"

// A call gets room for the words of its reply when it is served. A call that waits for
// memory, for RDMA Reads or for a file system has none. Most replies are short.
const (
	// wordsSize is the largest such room, in bytes. Longer replies use the memory reserved
	// for the call.
	wordsSize  = 4096
	shortWords = 512
)

var (
	shortPool = sync.Pool{New: func() any { return new([shortWords]byte) }}
	longPool  = sync.Pool{New: func() any { return new([wordsSize]byte) }}
)

// replyWords returns room for n bytes of words, but for wordsSize at most.
func (c *call) replyWords(n int) []byte {
	if n <= shortWords && c.long == nil {
		if c.short == nil {
			c.short = shortPool.Get().(*[shortWords]byte)
			if !c.inRun {
				c.charge(shortWords)
			}
		}
		return c.short[:]
	}
	if c.long == nil {
		c.dropWords()
		c.long = longPool.Get().(*[wordsSize]byte)
		if !c.inRun {
			c.charge(wordsSize)
		}
	}
	return c.long[:]
}

// dropWords releases the room.
func (c *call) dropWords() {
	if c.short != nil {
		shortPool.Put(c.short)
		c.short = nil
	}
	if c.long != nil {
		longPool.Put(c.long)
		c.long = nil
	}
}
