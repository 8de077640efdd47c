package server

import (
	"errors"
	"sync"
	"testing"

	"go.uber.org/zap"

	"github.com/nfsrdmad/nfsrdmad/server/config"
)

// However many reloads are ordered at once, each order is answered once, by a reload that read the configuration after the
// order.
func TestEachOrderOfAReloadIsAnswered(t *testing.T) {
	s := &Server{log: zap.NewNop()}
	var mu sync.Mutex
	reads := 0
	wrong := errors.New("wrong")
	read := func() (*config.Config, error) {
		mu.Lock()
		defer mu.Unlock()
		reads++
		return nil, wrong
	}
	var orders sync.WaitGroup
	for range 64 {
		orders.Go(func() {
			mu.Lock()
			before := reads
			mu.Unlock()
			told := make(chan reloaded, 1)
			s.reloadTelling(read, told)
			r := <-told
			mu.Lock()
			defer mu.Unlock()
			if !errors.Is(r.err, wrong) || reads == before {
				t.Errorf("%v, after %d reads of %d", r.err, reads-before, reads)
			}
			if len(told) != 0 {
				t.Error("a second answer")
			}
		})
	}
	orders.Wait()
}
