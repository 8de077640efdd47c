//go:build interop

package krb5

import (
	"context"
	"encoding/binary"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/mem"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/gss"
	"github.com/nfsrdmad/nfsrdmad/rpc/gss/krb5"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpcbind"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/test/await"
	"github.com/nfsrdmad/nfsrdmad/test/krb5realm"
	"github.com/nfsrdmad/nfsrdmad/transport/tcp"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

const callbackProgram = 0x40000000

// A callbackProgram4 is the callback program of a client. It reports the credential of each
// CB_NULL.
type callbackProgram4 struct{ called chan rpc.Cred }

var callbackBinding = rpc.Binding{Procedures: []rpc.Procedure{wire.ProcCBNull: {Name: "CB_NULL"}}}

func (p *callbackProgram4) Number() uint32 { return callbackProgram }
func (p *callbackProgram4) Versions() (low, high uint32) {
	return wire.CallbackVersion, wire.CallbackVersion
}
func (p *callbackProgram4) Binding(uint32) *rpc.Binding                    { return &callbackBinding }
func (p *callbackProgram4) Judge(*rpc.Arrived, *rpc.Judgement) rpc.Outcome { return rpc.Done }
func (p *callbackProgram4) Serve(c *rpc.Call, _ *xdr.Writer) rpc.Outcome {
	p.called <- rpc.Cred{Flavor: c.Cred.Flavor, Principal: c.Cred.Principal, Target: c.Cred.Target, GSS: c.Cred.GSS}
	return rpc.Done
}

// callbackServer returns an RPC server of the callback program that uses a Protection.
func callbackServer(t *testing.T, p rpc.Protection) (*rpc.Server, *mem.Pool, chan rpc.Cred) {
	t.Helper()
	pool, err := mem.NewPool(mem.Config{Ceiling: 16 << 20})
	if err != nil {
		t.Fatal(err)
	}
	program := &callbackProgram4{make(chan rpc.Cred, 8)}
	calls := rpc.NewServer(rpc.Config{})
	calls.Register(program)
	calls.Protect(rpc.AuthGSS, p)
	t.Cleanup(func() {
		calls.Close()
		pool.Close()
	})
	return calls, pool, program.called
}

// compound runs one operation and decodes its result.
func compound(t *testing.T, k rpc.Caller, minor uint32, op wire.OpNum, args interface{ Encode(*xdr.Writer) }, res interface{ Decode(*xdr.Decoder) }) {
	t.Helper()
	x := &rpc.Exchange{Program: wire.Program, Version: wire.Version, Procedure: wire.ProcCompound, MaxArgs: 4096, Args: func(w *xdr.Writer) {
		w.Opaque(nil)
		w.Uint32(minor)
		w.Uint32(1)
		w.Uint32(uint32(op))
		args.Encode(w)
	}}
	var status wire.NFSStat4
	err := rpc.Do(t.Context(), k, x, func(d *xdr.Decoder) error {
		status = wire.NFSStat4(d.Int32())
		d.Opaque(64)
		d.Uint32()
		d.Int32()
		if res != nil && status == wire.NFS4OK {
			res.Decode(d)
		}
		return d.Err()
	})
	if err != nil || status != wire.NFS4OK {
		t.Fatalf("%v: %v, %v", op, status, err)
	}
}

// services are the RPCSEC_GSS services, by the name of the flavor.
var services = map[string]rpc.GSSService{"krb5": rpc.GSSNone, "krb5i": rpc.GSSIntegrity, "krb5p": rpc.GSSPrivacy}

// machineCaller connects to the server as the principal of the client's machine.
func machineCaller(t *testing.T, s *site, addr string, m gss.Mechanism, service rpc.GSSService, cfg tcp.DialConfig, spy func(rpc.Caller) rpc.Caller) rpc.Caller {
	t.Helper()
	conn, err := tcp.Dial(t.Context(), addr, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	var k rpc.Caller = conn
	if spy != nil {
		k = spy(k)
	}
	g, err := gss.NewClient(t.Context(), k, gss.ClientConfig{Mechanism: m, Target: target, Service: service, Program: wire.Program, Version: wire.Version})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	return g
}

// If an NFSv4.0 client has identified itself by Kerberos, the server calls it back as the server
// principal that the client called, with the same RPCSEC_GSS service (RFC 7530 §3.3.3).
func TestCallbacksOfMinorVersion0(t *testing.T) {
	s := newSite(t, krb5realm.ETypes[0])
	t.Setenv("KRB5_CONFIG", s.conf)
	addr := serveFiles(t, s, "rw,insecure,sec=krb5")
	for name, service := range services {
		t.Run(name, func(t *testing.T) {
			g := gss.New(gss.Config{Mechanisms: []gss.Mechanism{krb5.New(krb5.Config{Keytab: s.machineKeytab})}})
			t.Cleanup(g.Close)
			calls, pool, called := callbackServer(t, g)
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			transport := tcp.NewServer(tcp.Config{RPC: calls, Pool: pool})
			served := make(chan error, 1)
			go func() { served <- transport.Serve(l) }()
			t.Cleanup(func() {
				transport.Close()
				<-served
			})

			k := machineCaller(t, s, addr, s.machine(krb5.Config{}), service, tcp.DialConfig{}, nil)
			port := l.Addr().(*net.TCPAddr).AddrPort()
			args := wire.SetClientID4Args{
				Client:        wire.NFSClientID4{ID: []byte(name)},
				Callback:      wire.CBClient4{CBProgram: callbackProgram, CBLocation: wire.NetAddr4{RNetid: []byte("tcp"), RAddr: []byte(rpcbind.UniversalAddress(port))}},
				CallbackIdent: 7,
			}
			var res wire.SetClientID4Res
			compound(t, k, 0, wire.OpSetClientID, &args, &res)
			compound(t, k, 0, wire.OpSetClientIDConfirm, &wire.SetClientIDConfirm4Args{Clientid: res.ResOK.Clientid, SetclientidConfirm: res.ResOK.SetclientidConfirm}, nil)
			by := await.Receive(t, "CB_NULL", called)
			if by.Flavor != rpc.AuthGSS || by.Principal != acceptorName || by.Target != machine+"@KRB5.TEST" || by.GSS != service {
				t.Errorf("called by %+v", &by)
			}
		})
	}
}

const acceptorName = service + "@KRB5.TEST"

// A spy records a GSS context and the server's handle for it.
type spy struct {
	gss.Mechanism
	mu     sync.Mutex
	ctx    gss.Context
	handle []byte
}

func (p *spy) Initiate(ctx context.Context, target string) (gss.Initiator, error) {
	i, err := p.Mechanism.Initiate(ctx, target)
	return &spiedInitiator{i, p}, err
}

type spiedInitiator struct {
	gss.Initiator
	spy *spy
}

func (i *spiedInitiator) Step(token []byte, now time.Time) ([]byte, gss.Context, error) {
	reply, c, err := i.Initiator.Step(token, now)
	i.spy.mu.Lock()
	i.spy.ctx = c
	i.spy.mu.Unlock()
	return reply, c, err
}

type spiedCaller struct {
	rpc.Caller
	spy *spy
}

func (k *spiedCaller) Start(x *rpc.Exchange) {
	done := x.Done
	x.Done = func(x *rpc.Exchange) {
		d := x.Results
		k.spy.mu.Lock()
		if k.spy.handle == nil {
			k.spy.handle = append(k.spy.handle, d.Opaque(400)...)
		}
		k.spy.mu.Unlock()
		done(x)
	}
	k.Caller.Start(x)
}

// A backVerifier is the client's side of a backchannel in the recorded context, without
// protection of arguments: it verifies calls and signs replies.
type backVerifier struct {
	spy    *spy
	handle string
}

func (v *backVerifier) Verify(a *rpc.Arrived) (rpc.Guard, rpc.Outcome) {
	d := xdr.NewDecoder(a.Header.Cred.Body)
	version, proc, seq, service, handle := d.Uint32(), d.Uint32(), d.Uint32(), d.Uint32(), d.Opaque(400)
	n := len(a.Header.Verf.Body)
	signed := a.Message[:a.Header.Size-8-n-xdr.Pad(n)]
	if d.Finish() != nil || version != 1 || proc != 0 || string(handle) != v.handle || v.spy.ctx.VerifyMIC(a.Header.Verf.Body, signed) != nil {
		return nil, rpc.Denied(rpc.GSSCredProblem)
	}
	a.Cred.Principal, a.Cred.GSS = v.spy.ctx.Principal(), rpc.GSSService(service)
	return &backGuard{ctx: v.spy.ctx, seq: seq}, rpc.Done
}

type backGuard struct {
	ctx gss.Context
	seq uint32
}

func (g *backGuard) Overhead() rpc.Overhead                { return rpc.Overhead{Verifier: g.ctx.MICSize()} }
func (g *backGuard) Unwrap([]byte) (from, to int, ok bool) { return 0, 0, false }
func (g *backGuard) Wrap(*xdr.Writer, int) bool            { return false }
func (g *backGuard) Release()                              {}
func (g *backGuard) PutVerifier(w *xdr.Writer) bool {
	w.Uint32(uint32(rpc.AuthGSS))
	w.Opaque(g.ctx.MIC(nil, binary.BigEndian.AppendUint32(nil, g.seq)))
	return true
}

// The server uses the context that a client offers for the backchannel of its session, with the
// handle that the client chose (RFC 8881 §18.36.3).
func TestCallbacksOfSessions(t *testing.T) {
	s := newSite(t, krb5realm.ETypes[0])
	addr := serveFiles(t, s, "rw,insecure,sec=krb5")
	p := &spy{Mechanism: s.machine(krb5.Config{})}
	verifier := &backVerifier{spy: p, handle: "the client's own"}
	calls, pool, called := callbackServer(t, verifier)
	k := machineCaller(t, s, addr, p, rpc.GSSIntegrity, tcp.DialConfig{RPC: calls, Pool: pool},
		func(k rpc.Caller) rpc.Caller { return &spiedCaller{k, p} })

	var id wire.ExchangeID4Res
	compound(t, k, 1, wire.OpExchangeID, &wire.ExchangeID4Args{Clientowner: wire.ClientOwner4{Ownerid: []byte("x")}}, &id)
	channel := wire.ChannelAttrs4{Maxrequestsize: 4096, Maxresponsesize: 4096, MaxresponsesizeCached: 1024, Maxoperations: 8, Maxrequests: 1}
	args := wire.CreateSession4Args{
		Clientid: id.ResOK.Clientid, Sequence: id.ResOK.Sequenceid, Flags: wire.CreateSession4FlagConnBackChan,
		ForeChanAttrs: channel, BackChanAttrs: channel, CBProgram: callbackProgram,
	}
	w := xdr.NewWriter(make([]byte, 0, 512))
	w.Uint32(1)
	offer := wire.CallbackSecParms4{Secflavor: wire.RPCSECGSS, GSSHandles: wire.GSSCBHandles4{
		Service: wire.RpcGSSSvcNone, HandleFromServer: p.handle, HandleFromClient: []byte(verifier.handle),
	}}
	offer.Encode(w)
	args.SecParms.Decode(xdr.NewDecoder(w.Bytes()))
	var res wire.CreateSession4Res
	compound(t, k, 1, wire.OpCreateSession, &args, &res)
	by := await.Receive(t, "CB_NULL", called)
	if by.Flavor != rpc.AuthGSS || !strings.HasPrefix(by.Principal, service) || by.GSS != rpc.GSSNone {
		t.Errorf("called by %+v", &by)
	}
}
