package server

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
)

// clinging is a transport with peers that do not part.
type clinging struct{ carrier }

func (clinging) shutdown(ctx context.Context) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

// Peers that do not part are cut when their time is over, those of all transports at once.
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
