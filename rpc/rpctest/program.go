package rpctest

import (
	"hash/crc32"
	"sync"
	"sync/atomic"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
)

// Number is the test program's number, from the range for local administrators (RFC 5531 §8.3).
const Number = 0x2000_0f5d

// Procedures of the test program, in XDR language. An eligible item is one that is eligible for
// direct data placement (DDP). A lane is a number that a test chooses: a call that waits in a lane
// continues when the test calls Program.Release with this number.
const (
	// NULL: void NULL(void) = 0.
	NULL = iota
	// ECHO: opaque<MaxEcho> ECHO(opaque<MaxEcho>) = 1. Neither argument nor result is eligible.
	ECHO
	// PUT: struct {count; crc} PUT(string name<255>, opaque data<MaxData>) = 2. data is eligible. A
	// PUT must not be executed twice.
	PUT
	// GET: opaque<MaxData> GET(unsigned count) = 3; its result is eligible, and has the bytes of
	// Pattern.
	GET
	// BUMP: unsigned hyper BUMP(opaque tag<64>) = 4 returns the number of BUMPs executed so far. A
	// BUMP must not be executed twice.
	BUMP
	// STALL: unsigned STALL(unsigned lane) = 5 waits until the test releases the lane
	// (Program.Release), and returns the lane's number.
	STALL
	// PAIR: two unions PAIR(bool first, bool second, unsigned count) = 6. Each union is switch
	// (bool) {case TRUE: opaque<MaxData>; default: void}. The contents of both are eligible.
	PAIR
	// LATER: unsigned LATER(unsigned n) = 7 returns n. Another goroutine ends the call with
	// Call.Complete.
	LATER
	// WIDE: opaque<MaxWide> WIDE(unsigned count) = 8. Its result is not eligible. A WIDE must not
	// be executed twice.
	WIDE
	// FAIL: void FAIL(unsigned accept_stat, unsigned auth_stat) = 9 returns an Outcome with these
	// statuses.
	FAIL
	// SPILL: void SPILL(unsigned count) = 10 writes count words, which may be more than its Binding
	// allows.
	SPILL
	// HOLD: unsigned hyper HOLD(unsigned lane) = 11 waits like STALL, and then counts like BUMP. The
	// server must not execute a HOLD twice.
	HOLD
	// FETCH: struct {opaque<MaxData> data; unsigned count} FETCH(unsigned count) = 12. data is
	// eligible. The server must not execute a FETCH twice.
	FETCH

	// SAME: opaque<MaxData> SAME(unsigned count) = 13 is like GET, for benchmarks: its result is in
	// memory before the call.
	SAME
	// STORE: struct {length; nth} STORE(unsigned key, opaque data<MaxData>) = 14. data is eligible.
	// nth is the number of STOREs executed so far. A STORE must not be executed twice. If key is
	// not 0, the STORE waits until the test releases the lane whose number is key.
	STORE
	// COMPOUND = 15 executes several operations. Its arguments are an array of Ops: see
	// PutCompound.
	COMPOUND

	// CRASH: void CRASH(unsigned how) = 16 panics. The argument how is one of the constants with
	// the prefix Crash.
	CRASH

	procedures
)

// Values of CRASH's argument.
const (
	// CrashAtOnce panics at once.
	CrashAtOnce = iota
	// CrashWithPayload writes a payload in the call's memory, and then panics.
	CrashWithPayload
	// CrashBlocking returns WouldBlock if Call.Try is set, and panics when it is called again
	// without Try.
	CrashBlocking
	// CrashCompleting panics in the function that it passes to Complete.
	CrashCompleting
	// CrashPending panics after it has started a goroutine that ends the call with Complete.
	CrashPending
)

// Early is the result of all calls for which Judging sets Judgement.Early.
const Early = 0xea51

// Limits, in bytes.
const (
	MaxEcho = 16 << 10
	MaxData = 1 << 20
	MaxWide = 64 << 10
)

// LowVersion and HighVersion are the versions of the test program. Version 2 does not exist.
const (
	LowVersion  = 1
	HighVersion = 3
)

// A Program is the test program.
type Program struct {
	// Judging, if not nil, replaces Judge.
	Judging func(a *rpc.Arrived, j *rpc.Judgement) rpc.Outcome
	// Served counts executions, by procedure. It does not count a Serve that returned WouldBlock or
	// Pending. A call of the procedure LATER, whose Serve returns Pending, counts when it completes.
	Served [procedures]atomic.Int64
	// Tried counts the calls of Serve that returned WouldBlock. If the reason was an operation
	// whose Op.How is Blocking, the call counts twice.
	Tried atomic.Int64
	// Steps counts the executed operations of COMPOUNDs.
	Steps atomic.Int64
	// Conn is the connection on which the last call came.
	Conn atomic.Pointer[rpc.Conn]
	// Caller is the credential of the last NULL call with AUTH_SYS.
	Caller atomic.Pointer[Caller]

	bumps  atomic.Uint64
	stores atomic.Uint32
	fresh  atomic.Uint32
	mu     sync.Mutex
	lanes  map[uint32]*gate
	later  sync.WaitGroup
}

// A Caller is a copy of an AUTH_SYS credential.
type Caller struct {
	UID, GID uint32
	Groups   []uint32
	Machine  string
}

type gate struct {
	open    chan struct{}
	arrived chan struct{}
}

// NewProgram returns a test program. Calls in a lane wait until the test releases that lane
// (Release).
func NewProgram() *Program { return &Program{lanes: make(map[uint32]*gate)} }

func (p *Program) gate(lane uint32) *gate {
	p.mu.Lock()
	defer p.mu.Unlock()
	g := p.lanes[lane]
	if g == nil {
		g = &gate{open: make(chan struct{}), arrived: make(chan struct{}, 1<<16)}
		p.lanes[lane] = g
	}
	return g
}

// Release ends the wait of all calls in a lane. Later calls in the lane do not wait.
func (p *Program) Release(lane uint32) { close(p.gate(lane).open) }

// Arrived returns a channel that receives a value whenever a call begins to wait in a lane.
func (p *Program) Arrived(lane uint32) <-chan struct{} { return p.gate(lane).arrived }

// Wait returns when all goroutines that end calls with Complete or Resume have ended.
func (p *Program) Wait() { p.later.Wait() }

// Pattern fills b with the bytes of GET's result, and returns b.
func Pattern(b []byte) []byte {
	for i := range b {
		b[i] = byte(i*7 + i>>8 + 1)
	}
	return b
}

// Number implements rpc.Program.
func (p *Program) Number() uint32 { return Number }

// Versions implements rpc.Program.
func (p *Program) Versions() (low, high uint32) { return LowVersion, HighVersion }

// Judge implements rpc.Program.
func (p *Program) Judge(a *rpc.Arrived, j *rpc.Judgement) rpc.Outcome {
	if p.Conn.Load() != a.Conn {
		p.Conn.Store(a.Conn)
	}
	if p.Judging != nil {
		return p.Judging(a, j)
	}
	return rpc.Done
}

// Binding implements rpc.Program.
func (p *Program) Binding(version uint32) *rpc.Binding {
	if version == LowVersion || version == HighVersion {
		return &Binding
	}
	return nil
}

// Serve implements rpc.Program.
func (p *Program) Serve(c *rpc.Call, w *xdr.Writer) rpc.Outcome {
	procedure := c.Header.Procedure
	if c.Early {
		w.Uint32(Early)
		return rpc.Done
	}
	out := p.serve(c, &c.Args, w)
	switch {
	case out.Pending: // do not use c: its record may be reused already
	case out.Block:
		p.Tried.Add(1)
	default:
		p.Served[procedure].Add(1)
	}
	return out
}

func (p *Program) serve(c *rpc.Call, d *xdr.Decoder, w *xdr.Writer) rpc.Outcome {
	switch c.Header.Procedure {
	case NULL:
		if c.Cred.Flavor == rpc.AuthSys {
			p.Caller.Store(&Caller{c.Cred.UID, c.Cred.GID,
				append([]uint32(nil), c.Cred.Groups...), string(c.Cred.Machine)})
		}
	case ECHO:
		w.Opaque(d.Opaque(MaxEcho))
	case PUT:
		d.Opaque(255)
		data := d.EligibleOpaque(MaxData)
		w.Uint32(uint32(len(data)))
		w.Uint32(crc32.ChecksumIEEE(data))
	case GET, FETCH:
		n := d.Uint32()
		if n > MaxData {
			return rpc.GarbageArgs
		}
		payload(c, w, int(n))
		if c.Header.Procedure == FETCH {
			w.Uint32(n)
		}
	case SAME:
		n := d.Uint32()
		if n > MaxData {
			return rpc.GarbageArgs
		}
		w.Payload(same[:n:n], true, nil)
	case STORE:
		key := d.Uint32()
		data := d.EligibleOpaque(MaxData)
		if key > 0 {
			if c.Try {
				return rpc.WouldBlock(key)
			}
			g := p.gate(key)
			g.arrived <- struct{}{}
			<-g.open
		}
		w.Uint32(uint32(len(data)))
		w.Uint32(uint32(p.stores.Add(1)))
	case COMPOUND:
		if out := p.compound(c, d, w); out != rpc.Done {
			return out
		}
	case BUMP:
		d.Opaque(64)
		if d.Finish() == nil {
			w.Uint64(p.bumps.Add(1))
		}
	case STALL, HOLD:
		n := d.Uint32()
		g := p.gate(n)
		if c.Try {
			return rpc.WouldBlock(n)
		}
		c.Doing(n, STALL, []byte("stalled"))
		g.arrived <- struct{}{}
		<-g.open
		c.Did(n, 7, STALL, []byte("stalled"))
		if c.Header.Procedure == HOLD {
			w.Uint64(p.bumps.Add(1))
		} else {
			w.Uint32(n)
		}
	case PAIR:
		first, second, n := d.Bool(), d.Bool(), d.Uint32()
		if n > MaxData {
			return rpc.GarbageArgs
		}
		for _, there := range [...]bool{first, second} {
			if w.Bool(there); there {
				payload(c, w, int(n))
			}
		}
	case LATER:
		n := d.Uint32()
		c.Detach()
		p.later.Add(1)
		go func() {
			defer p.later.Done()
			c.Complete(func(w *xdr.Writer) rpc.Outcome {
				p.Served[LATER].Add(1)
				w.Uint32(n)
				return rpc.Done
			})
		}()
		return rpc.Outcome{Pending: true}
	case WIDE:
		n := d.Uint32()
		if n > MaxWide {
			return rpc.GarbageArgs
		}
		w.Opaque(Pattern(make([]byte, n)))
	case FAIL:
		stat, auth := rpc.AcceptStat(d.Uint32()), rpc.AuthStat(d.Uint32())
		w.Uint64(0xdead) // the server must not send it
		return rpc.Outcome{Stat: stat, Auth: auth}
	case SPILL:
		n := d.Uint32()
		if n > MaxWide {
			return rpc.GarbageArgs
		}
		for range n {
			w.Uint32(0)
		}
	case CRASH:
		return p.crash(c, d.Uint32(), w)
	}
	if d.Finish() != nil {
		return rpc.GarbageArgs
	}
	return rpc.Done
}

func (p *Program) crash(c *rpc.Call, how uint32, w *xdr.Writer) rpc.Outcome {
	switch how {
	case CrashWithPayload:
		payload(c, w, crashPayload)
	case CrashBlocking:
		if c.Try {
			return rpc.WouldBlock("crash")
		}
	case CrashCompleting, CrashPending:
		c.Detach()
		p.later.Go(func() {
			c.Complete(func(w *xdr.Writer) rpc.Outcome {
				if how == CrashCompleting {
					panic("rpctest: CRASH, completing")
				}
				return rpc.Done
			})
		})
		if how == CrashCompleting {
			return rpc.Outcome{Pending: true}
		}
	}
	panic("rpctest: CRASH")
}

// Same returns the memory that SAME's results refer to.
func Same() []byte { return same }

var same = Pattern(make([]byte, MaxData))

// payload writes n bytes of Pattern as an eligible payload, in the call's memory if that is large
// enough.
func payload(c *rpc.Call, w *xdr.Writer, n int) {
	var item xdr.Eligible
	if b := c.ResultMemory(n); b != nil {
		item = c.Eligible(b)
	} else {
		item.Data = make([]byte, n)
	}
	w.Payload(Pattern(item.Data), true, item.Ref)
}
