package bench

import (
	"context"
	"fmt"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// nfs4 is the protocol of NFS versions 4.1 and 4.2. All connections share one session.
type nfs4 struct {
	client.NFS4
	cfg *Config
}

func dial4(ctx context.Context, cfg *Config, connections int) (protocol, error) {
	minor := uint32(1)
	if cfg.NFS == "4.2" {
		minor = 2
	}
	s, err := client.DialSession(ctx, client.SessionConfig{
		Target: cfg.Target, Minor: minor, Slots: cfg.Depth * cfg.Connections, Connections: connections, Timeout: cfg.Timeout,
	})
	if err != nil {
		return nil, err
	}
	return &nfs4{client.NFS4{Session: s, Patient: true}, cfg}, nil
}

func (n *nfs4) atOnce() int { return n.Session.Slots() }

func (n *nfs4) rdma() (rdma.Info, bool) { return n.Session.RDMAInfo() }

func (n *nfs4) end() error { return n.Session.Close() }

func (n *nfs4) abandon() { n.Session.Abandon() }

func (n *nfs4) mount(ctx context.Context) (client.Handle, error) {
	return n.Walk(ctx, nil, n.cfg.Export)
}

// aroundData is an upper bound for the part of a request or reply that is not data, in bytes.
const aroundData = 1024

func (n *nfs4) limits(ctx context.Context, root client.Handle) (limits, error) {
	attr, err := n.Getattr(ctx, root, wire.Bits(wire.Fattr4Maxread, wire.Fattr4Maxwrite))
	channel := n.Session.Limits().ForeChanAttrs
	within := func(server uint64, channel uint32) int {
		return int(min(server, uint64(max(channel, aroundData)-aroundData), client.MaxTransfer))
	}
	read := within(attr.MaxRead, channel.Maxresponsesize)
	return limits{read: read, write: within(attr.MaxWrite, channel.Maxrequestsize), list: read}, err
}

func (n *nfs4) mkdir(ctx context.Context, dir client.Handle, name string) (client.Handle, error) {
	return n.Mkdir(ctx, dir, name, 0o755)
}

func (n *nfs4) create(ctx context.Context, dir client.Handle, name string) (file, error) {
	o, err := n.Open(ctx, client.Open4{
		Dir: dir, Name: name, Owner: []byte(name), Access: wire.Open4ShareAccessBoth | wire.Open4ShareAccessWantNoDeleg,
		Create: &wire.Createhow4{Mode: wire.Unchecked4, Createattrs: client.ModeAttribute(0o644)},
	})
	return file{o.File, o.StateID}, err
}

func (n *nfs4) release(ctx context.Context, f file) error { return n.CloseFile(ctx, f.handle, f.open) }

func (n *nfs4) write(ctx context.Context, f file, offset uint64, p []byte) (int, error) {
	w, err := n.Write(ctx, f.handle, f.open, offset, p, wire.Unstable4)
	return w.Count, err
}

func (n *nfs4) commit(ctx context.Context, f file) error {
	_, err := n.Commit(ctx, f.handle, 0, 0)
	return err
}

func (n *nfs4) list(ctx context.Context, dir client.Handle) (names []string, err error) {
	for e, err := range n.Readdir(ctx, dir, wire.Bitmap4{}) {
		if err != nil {
			return nil, err
		}
		names = append(names, e.Name)
	}
	return names, nil
}

func (n *nfs4) Rmdir(ctx context.Context, dir client.Handle, name string) error {
	return n.Remove(ctx, dir, name)
}

func (n *nfs4) newSlot(b *bench, c *conn, number int) *slot {
	return &newSlot4(b, workloads4[b.cfg.Workload], n.Session, c, number).slot
}

// A slot4 is a slot for NFS version 4.
type slot4 struct {
	slot
	work    *workload4
	session *client.Session
	k       client.Compound
	ops     [3]client.Op

	// Arguments and results are fields, so that a request allocates no memory.
	fh       wire.PutFH4Args
	read     wire.Read4Args
	readRes  wire.Read4Res
	write    wire.Write4Args
	writeRes wire.Write4Res
	getattr  wire.Getattr4Args
	attrRes  wire.Getattr4Res
	open     wire.Open4Args
	reopen   wire.Open4Args // OPEN of an existing file
	openRes  wire.Open4Res
	list     wire.Readdir4Args
	listRes  wire.Readdir4Res
	entry    wire.Entry4
	getFH    wire.GetFH4Res
	close    wire.Close4Args
	closeRes wire.Close4Res
	remove   wire.Remove4Args
	rmRes    wire.Remove4Res
	made     [wire.NFS4FHSize]byte // the handle of the file that create has made
}

// statAttributes are the attributes that NFS clients usually ask for after a READ or WRITE.
var statAttributes = wire.Bits(
	wire.Fattr4Type, wire.Fattr4Change, wire.Fattr4Size, wire.Fattr4FSID, wire.Fattr4FileID, wire.Fattr4Mode,
	wire.Fattr4Numlinks, wire.Fattr4SpaceUsed, wire.Fattr4TimeAccess, wire.Fattr4TimeMetadata, wire.Fattr4TimeModify,
)

// listAttributes are the attributes that NFS clients usually ask for in a listing, in addition to
// statAttributes.
var listAttributes = wire.Bits(wire.Fattr4Filehandle, wire.Fattr4RdattrError, wire.Fattr4Owner, wire.Fattr4OwnerGroup, wire.Fattr4Rawdev, wire.Fattr4MountedOnFileID)

// maxSlotResults is an upper bound for the size of any workload's results without data, in bytes.
const maxSlotResults = 1024

func newSlot4(b *bench, work *workload4, session *client.Session, c *conn, number int) *slot4 {
	s := &slot4{work: work, session: session}
	s.slot = newSlot(b, c, number, s)
	s.fh.Object = wire.NFSFH4(c.file.handle)
	s.getattr.AttrRequest = statAttributes
	s.open = wire.Open4Args{
		ShareAccess: wire.Open4ShareAccessWrite | wire.Open4ShareAccessWantNoDeleg,
		Openhow: wire.Openflag4{Opentype: wire.Open4Create, How: wire.Createhow4{
			Mode: wire.Unchecked4, Createattrs: client.ModeAttribute(0o644),
		}},
		Claim: wire.OpenClaim4{Claim: wire.ClaimNull},
	}
	s.open.Owner.Owner = []byte(fmt.Sprint("bench ", c.number, " ", number))
	s.open.Owner.Clientid = session.ClientID()
	s.reopen = s.open
	s.reopen.ShareAccess = wire.Open4ShareAccessRead | wire.Open4ShareAccessWantNoDeleg
	s.reopen.Openhow = wire.Openflag4{}
	s.reopen.Claim.File = wire.UTF8String(sharedFile)
	s.list.AttrRequest = statAttributes.Or(&listAttributes)
	s.k.MaxResults = maxSlotResults
	if b.kind.needs == groundListed {
		s.k.MaxResults += b.cfg.Size
	}
	s.k.Done = func(*client.Compound) { s.done() }
	return s
}

func (s *slot4) send() {
	s.k.Sinks = nil
	s.k.Ops = s.work.put(s, s.ops[:0])
	s.session.Start(&s.k)
}

func (s *slot4) answer() (int, error) {
	if s.k.Err != nil {
		return 0, s.k.Err
	}
	return s.work.answer(s)
}
