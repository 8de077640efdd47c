package verbs_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rdmacm/verbs/fakedevice"
)

// An idle connection goes on. Most short Sends ask for no completion, and the completions of the
// others cause no event, so the last short Sends before the pause are not known to be done.
func TestIdleConnectionGoesOn(t *testing.T) {
	for shorts := range 10 {
		t.Run(fmt.Sprint(shorts), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b := pair(t, fakedevice.New(false))
				for round := range 3 {
					for range shorts {
						if !a.Conn().SendShort([][]byte{{byte(round)}}, 0) {
							t.Fatal("a short Send is not taken")
						}
						b.Receive()
					}
					time.Sleep(10 * time.Minute) // synctest's fake time
				}
				if err := a.Send([]byte("last")); err != nil || string(b.Receive().Bytes) != "last" {
					t.Errorf("a message over an idle connection: %v", err)
				}
				a.Conn().Disconnect()
				if err := a.End(); err != nil {
					t.Errorf("the connection ends with %v", err)
				}
				b.End()
			})
		})
	}
}
