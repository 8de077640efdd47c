package nfs4

import (
	"time"

	"github.com/nfsrdmad/nfsrdmad/internal/histogram"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// timeStripes is the number of histograms of each operation. Connections use different ones, by the connection's ID.
const timeStripes = 8

// durations counts how long operations took, from their first attempt to their end, with all waits.
type durations [timeStripes][lastOperation + 1]histogram.Histogram

// brief holds the operations that never wait, and take less time than two looks at the clock. They are not timed.
var brief = [lastOperation + 1]bool{
	wire.OpPutFH: true, wire.OpPutPubFH: true, wire.OpPutRootFH: true, wire.OpGetFH: true,
	wire.OpSaveFH: true, wire.OpRestoreFH: true, wire.OpSequence: true,
}

// epoch is the zero of the clock of begins and account. To read it costs less than time.Now.
var epoch = time.Now()

// begins notes when an operation is attempted for the first time.
func (k *Compound) begins(op *Operation) {
	if k.Program.durations.Load() != nil && k.began == 0 && !brief[op.Number] {
		k.began = time.Since(epoch)
	}
}

// account counts an operation that has ended in the account of its export, and how long it took. op is nil if it did
// not begin.
func (k *Compound) account(op *Operation, s Status) {
	if k.began != 0 {
		k.Program.durations.Load()[k.Call.Conn.ID%timeStripes][k.Number].Add(time.Since(epoch) - k.began)
		k.began = 0
	}
	if e := k.Current.Export; op != nil && op.Handle && e != nil {
		e.Did(k.Call.Conn, kindOf(op.Number), s != wire.NFS4OK)
	}
}

func kindOf(n wire.OpNum) export.Kind {
	switch n {
	case wire.OpRead, wire.OpReadPlus:
		return export.Reading
	case wire.OpWrite:
		return export.Writing
	}
	return export.Other
}

// MeasureDurations makes the program count how long the operations take that begin from now on. It may be called from any
// goroutine, once.
func (p *Program) MeasureDurations() { p.durations.Store(new(durations)) }

// OperationDurations has how long one operation took, each time.
type OperationDurations struct {
	Operation wire.OpNum
	histogram.Snapshot
}

// Durations returns how long the operations took that were executed since the start, without those that only set file
// handles, and without SEQUENCE. It returns nil before MeasureDurations.
func (p *Program) Durations() (all []OperationDurations) {
	measured := p.durations.Load()
	if measured == nil {
		return nil
	}
	for op := range measured[0] {
		d := OperationDurations{Operation: wire.OpNum(op)}
		for i := range measured {
			d.Add(&measured[i][op])
		}
		if d.Count() > 0 {
			all = append(all, d)
		}
	}
	return all
}
