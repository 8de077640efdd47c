package server

import (
	"errors"
	"sync/atomic"
	"testing"

	"go.uber.org/zap"

	"github.com/nfsrdmad/nfsrdmad/server/config"
)

// A reload that is requested while another one runs follows it and reads the configuration
// again, because the running one may have read the file before the change. Several such
// requests cause one reload.
func TestReloadsThatOverlap(t *testing.T) {
	s := &Server{log: zap.NewNop()}
	reading, written := make(chan struct{}), make(chan struct{})
	var reads atomic.Int32
	ended := make(chan struct{})
	read := func() (*config.Config, error) {
		if reads.Add(1) == 1 {
			close(reading)
			<-written
		}
		return nil, errors.New("the file says nothing")
	}
	go func() {
		defer close(ended)
		s.Reload(read)
	}()
	<-reading
	s.Reload(read)
	s.Reload(read)
	if n := reads.Load(); n != 1 {
		t.Errorf("the file was read %d times while the first reload ran, want once", n)
	}
	close(written)
	<-ended
	if n := reads.Load(); n != 2 {
		t.Errorf("the file was read %d times, want twice", n)
	}
	s.Reload(read)
	if n := reads.Load(); n != 3 {
		t.Errorf("the file was read %d times, want once for each reload that overlaps with none", n)
	}
}
