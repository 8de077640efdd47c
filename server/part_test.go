package server

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
)

// clinging is a transport whose peers do not end their connections.
type clinging struct{ carrier }

func (clinging) Shutdown(ctx context.Context) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

// After the time limit the server cuts peers that do not end their connections, over all
// transports at the same time.
func TestPartingIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Server{log: zap.NewNop(), transports: []*running{{carrier: clinging{}}, {carrier: clinging{}}}}
		began := time.Now()
		s.part(t.Context(), 3*time.Second)
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("parting within 3 s took %v", took)
		}
	})
}
