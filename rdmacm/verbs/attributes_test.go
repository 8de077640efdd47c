package verbs_test

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/rdmatest"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/verbs/device"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/verbs/fakedevice"
)

// A driver may leave any attribute at 0. The device is then refused by name, or it carries Writes, Reads
// and Sends with as many requests as they need.
func TestAttributeOfZero(t *testing.T) {
	refused := map[string]string{"SGEs": "max_sge", "QPWorks": "max_qp_wr", "CQEntries": "max_cqe"}
	for f := range reflect.TypeFor[device.Attributes]().Fields() {
		if f.Name == "Active" || f.Name == "Device" { // no attributes of a driver
			continue
		}
		t.Run(f.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := fakedevice.New(false)
				reflect.ValueOf(&d.Attributes).Elem().FieldByIndex(f.Index).SetZero()
				works := 0
				d.Take = func(n int) int {
					if works += n; works > 1000 {
						panic("a few works become endless requests")
					}
					return n
				}
				if name := refused[f.Name]; name != "" {
					p := open(t, d, nil)
					l := listen(t, p)
					param := peerParam().ConnParam
					param.Handler = handler{}
					if _, err := p.Dial(t.Context(), l.Addr(), param); err == nil || !strings.Contains(err.Error(), name) {
						t.Errorf("Dial returns %v, want an error that names %s", err, name)
					}
					return
				}
				carriesAll(t, d)
			})
		})
	}
}

// carriesAll checks that a connection over d carries a Write, a Send and, if d has Reads, a Read.
func carriesAll(t *testing.T, d *fakedevice.Device) {
	t.Helper()
	a, b := pair(t, d)
	data := bytes.Repeat([]byte("data"), 512)
	to, memory := exposed(b, len(data))
	if err := a.Write(to, data); err != nil || !bytes.Equal(memory, data) {
		t.Error("Write:", err)
	}
	if a.Conn().ReadDepth() > 0 {
		from := rdmatest.At(b.Expose(data, rdmacm.RemoteRead), 0)
		if got, err := a.Read(from, len(data)); err != nil || !bytes.Equal(got, data) {
			t.Error("Read:", err)
		}
	}
	if err := a.Send(data); err != nil || !bytes.Equal(b.Receive().Bytes, data) {
		t.Error("Send:", err)
	}
	a.Conn().Disconnect()
	a.End()
	b.End()
}

// A message is never divided, so a device that takes only shorter ones is refused.
func TestDeviceOfShortMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := fakedevice.New(false)
		d.Attributes.MaxMessage = 1024
		p := open(t, d, nil)
		l := listen(t, p)
		param := peerParam().ConnParam
		param.Handler = handler{}
		if _, err := p.Dial(t.Context(), l.Addr(), param); err == nil || !strings.Contains(err.Error(), "fake0 takes 1024 bytes in a message") {
			t.Errorf("Dial returns %v", err)
		}
	})
}
