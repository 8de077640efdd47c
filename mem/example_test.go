package mem_test

import (
	"fmt"

	"github.com/nfsrdmad/nfsrdmad/mem"
)

// Two connections share four megabytes, a part of which is kept for small requests. The second
// connection's request waits until the first gives memory back; no goroutine waits.
func Example() {
	pool, err := mem.NewPool(mem.Config{Ceiling: 4 << 20, Share: 4 << 20})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()
	first, second := pool.OpenShare("a client", nil), pool.OpenShare("another", nil)
	defer first.Close()
	defer second.Close()

	held, _ := first.TryGet(3 << 20)
	second.Get(&mem.Request{Size: 1 << 20, Granted: func(_ *mem.Request, b *mem.Buffer, err error) {
		fmt.Println("granted", len(b.Bytes()), err)
		b.Release()
	}})
	fmt.Println("waiting")
	held.Release()
	// Output:
	// waiting
	// granted 1048576 <nil>
}
